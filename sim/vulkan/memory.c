/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is allocated and freed, and which types of it fit: lavapipe has one, NVIDIA's driver several. */
#include <stdbool.h>

#include "sim/vulkan/gpu.h"
#include "sim/vulkan/held.h"
#include "sim/vulkan/lavapipe.h"
#include "sim/vulkan/rows.h"

#define GRANULE (UINT64_C(64) << 10)

static bool memory_is_imported(const VkMemoryAllocateInfo *info)
{
	for (const VkBaseOutStructure *at = info->pNext; at; at = at->pNext)
		if (at->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR ||
		    at->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT)
			return true;
	return false;
}

/* Imported memory is counted where it was exported; the host's is not counted. */
static uint64_t memory_bytes(const VkMemoryAllocateInfo *info)
{
	if (info->memoryTypeIndex == TYPE_HOST || memory_is_imported(info))
		return 0;
	return (info->allocationSize + GRANULE - 1) & ~(GRANULE - 1);
}

VkResult sim_vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
			      const VkAllocationCallbacks *allocator, VkDeviceMemory *ret_memory)
{
	VkMemoryAllocateInfo own = *info;
	uint64_t bytes = memory_bytes(info);
	int gpu = held_gpu(device);
	VkDeviceMemory memory;
	VkResult r;

	if (gpu < 0 || info->memoryTypeIndex >= TYPES || bytes < info->allocationSize * !!bytes ||
	    gpu_charge(gpu, bytes) < 0)
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	own.memoryTypeIndex = 0;
	r = lavapipe.vkAllocateMemory(device, &own, allocator, &memory);
	if (!r && held_add_memory(device, memory, bytes) < 0) {
		lavapipe.vkFreeMemory(device, memory, allocator);
		r = VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	if (r) {
		gpu_uncharge(gpu, bytes);
		return r;
	}
	*ret_memory = memory;
	return VK_SUCCESS;
}

/* Dropped first, as a device is. */
void sim_vkFreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *allocator)
{
	held_drop_memory(memory);
	lavapipe.vkFreeMemory(device, memory, allocator);
}

/* Memory that fits lavapipe's one type fits all of ours. */
static void memory_widen(uint32_t *bits)
{
	if (*bits)
		*bits = (1u << TYPES) - 1;
}

void sim_vkGetBufferMemoryRequirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *ret)
{
	lavapipe.vkGetBufferMemoryRequirements(device, buffer, ret);
	memory_widen(&ret->memoryTypeBits);
}

void sim_vkGetImageMemoryRequirements(VkDevice device, VkImage image, VkMemoryRequirements *ret)
{
	lavapipe.vkGetImageMemoryRequirements(device, image, ret);
	memory_widen(&ret->memoryTypeBits);
}

#define REQUIREMENTS(name)                                                             \
	void sim_##name(VkDevice device, const void *info, VkMemoryRequirements2 *ret) \
	{                                                                              \
		lavapipe.name(device, info, ret);                                      \
		memory_widen(&ret->memoryRequirements.memoryTypeBits);                 \
	}

REQUIREMENTS(vkGetBufferMemoryRequirements2)
REQUIREMENTS(vkGetImageMemoryRequirements2)
REQUIREMENTS(vkGetDeviceBufferMemoryRequirements)
REQUIREMENTS(vkGetDeviceImageMemoryRequirements)

VkResult sim_vkGetMemoryFdPropertiesKHR(VkDevice device, int type, int fd, VkMemoryFdPropertiesKHR *ret)
{
	VkResult r = lavapipe.vkGetMemoryFdPropertiesKHR(device, type, fd, ret);

	if (!r)
		memory_widen(&ret->memoryTypeBits);
	return r;
}

VkResult sim_vkGetMemoryHostPointerPropertiesEXT(VkDevice device, int type, const void *pointer,
						 VkMemoryHostPointerPropertiesEXT *ret)
{
	VkResult r = lavapipe.vkGetMemoryHostPointerPropertiesEXT(device, type, pointer, ret);

	if (!r && ret->memoryTypeBits)
		ret->memoryTypeBits = 1u << TYPE_HOST;
	return r;
}
