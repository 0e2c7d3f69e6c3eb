/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the device: lavapipe's, which the simulated GPU counts in pages of 64 KiB. */
#include <pthread.h>
#include <stdlib.h>

#include "sim/vulkan/lavapipe.h"

#define PAGE_BYTES (UINT64_C(64) << 10)
#define ALL_TYPES  ((1u << SIM_TYPES) - 1)

struct memory {
	struct memory *next;
	VkDevice device;
	VkDeviceMemory handle;
	uint64_t bytes;
};

static struct memory *memories;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void memory_uncharge(const struct memory *memory)
{
	if (sim_vulkan_owns())
		sim_uncharge(sim_vulkan_region, sim_vulkan_row, 0, memory->bytes, 0);
}

/* What is imported is counted where it was made. */
static bool memory_is_counted(const VkMemoryAllocateInfo *info)
{
	return info->memoryTypeIndex != SIM_TYPE_HOST && sim_vulkan_owns() &&
	       !sim_vulkan_chained(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
}

static VkResult memory_allocate(VkDevice device, const VkMemoryAllocateInfo *info,
				const VkAllocationCallbacks *allocator, VkDeviceMemory *ret)
{
	VkMemoryAllocateInfo known = *info;

	known.memoryTypeIndex = 0;
	return sim_lavapipe.vkAllocateMemory(device, &known, allocator, ret);
}

VkResult sim_vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
			      const VkAllocationCallbacks *allocator, VkDeviceMemory *ret)
{
	struct memory *memory;
	VkResult r;

	if (!memory_is_counted(info))
		return memory_allocate(device, info, allocator, ret);
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	memory->bytes = (info->allocationSize + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	r = sim_charge(sim_vulkan_region, sim_vulkan_row, 0, memory->bytes) ? VK_ERROR_OUT_OF_DEVICE_MEMORY
									    : VK_SUCCESS;
	if (!r && (r = memory_allocate(device, info, allocator, ret)))
		memory_uncharge(memory);
	if (r) {
		free(memory);
		return r;
	}
	memory->device = device;
	memory->handle = *ret;
	pthread_mutex_lock(&lock);
	memory->next = memories;
	memories = memory;
	pthread_mutex_unlock(&lock);
	return VK_SUCCESS;
}

/* Takes the first of a device that has the handle, or any if that is NULL, out of the list. */
static struct memory *memory_take(VkDevice device, VkDeviceMemory handle)
{
	struct memory *found;

	pthread_mutex_lock(&lock);
	for (struct memory **at = &memories; (found = *at); at = &found->next)
		if (found->device == device && (!handle || found->handle == handle)) {
			*at = found->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

static void memory_forget(struct memory *memory)
{
	if (!memory)
		return;
	memory_uncharge(memory);
	free(memory);
}

void sim_vkFreeMemory(VkDevice device, VkDeviceMemory handle, const VkAllocationCallbacks *allocator)
{
	struct memory *memory = handle ? memory_take(device, handle) : NULL;

	sim_lavapipe.vkFreeMemory(device, handle, allocator);
	memory_forget(memory);
}

void sim_vulkan_forget_memory(VkDevice device)
{
	struct memory *memory;

	while ((memory = memory_take(device, NULL)))
		memory_forget(memory);
}

/* --- What lavapipe asks for its one type is had of each --------------------------------------- */

#define REQUIREMENTS(name, of_type)                                              \
	void sim_##name(VkDevice device, of_type of, VkMemoryRequirements *ret)  \
	{                                                                        \
		sim_lavapipe.name(device, of, ret);                              \
		ret->memoryTypeBits = ret->memoryTypeBits ? ALL_TYPES : 0;       \
	}

REQUIREMENTS(vkGetBufferMemoryRequirements, VkBuffer)
REQUIREMENTS(vkGetImageMemoryRequirements, VkImage)

#define REQUIREMENTS_2(name)                                                                      \
	void sim_##name(VkDevice device, const void *of, VkMemoryRequirements2 *ret)              \
	{                                                                                         \
		sim_lavapipe.name(device, of, ret);                                               \
		ret->memoryRequirements.memoryTypeBits =                                          \
			ret->memoryRequirements.memoryTypeBits ? ALL_TYPES : 0;                   \
	}

REQUIREMENTS_2(vkGetBufferMemoryRequirements2)
REQUIREMENTS_2(vkGetBufferMemoryRequirements2KHR)
REQUIREMENTS_2(vkGetImageMemoryRequirements2)
REQUIREMENTS_2(vkGetImageMemoryRequirements2KHR)
REQUIREMENTS_2(vkGetDeviceBufferMemoryRequirements)
REQUIREMENTS_2(vkGetDeviceBufferMemoryRequirementsKHR)
REQUIREMENTS_2(vkGetDeviceImageMemoryRequirements)
REQUIREMENTS_2(vkGetDeviceImageMemoryRequirementsKHR)

VkResult sim_vkGetMemoryFdPropertiesKHR(VkDevice device, VkExternalMemoryHandleTypeFlagBits type, int fd,
					VkMemoryFdPropertiesKHR *ret)
{
	VkResult r = sim_lavapipe.vkGetMemoryFdPropertiesKHR(device, type, fd, ret);

	if (!r && ret->memoryTypeBits)
		ret->memoryTypeBits = ALL_TYPES;
	return r;
}
