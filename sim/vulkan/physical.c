/* SPDX-License-Identifier: Apache-2.0 */
/* Properties and memory of a simulated GPU: lavapipe's answer, with NVIDIA's in its place. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/vulkan/gpu.h"
#include "sim/vulkan/instance.h"
#include "sim/vulkan/lavapipe.h"
#include "sim/vulkan/rows.h"

#define VENDOR 0x10de
#define H200   0x2335 /* as the simulated NVML says */

static void physical_name(int gpu, VkPhysicalDeviceProperties *ret)
{
	ret->vendorID = VENDOR;
	ret->deviceID = H200;
	ret->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
	memset(ret->deviceName, 0, sizeof(ret->deviceName));
	strncpy(ret->deviceName, gpu_name(gpu), sizeof(ret->deviceName) - 1);
}

void sim_vkGetPhysicalDeviceProperties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *ret)
{
	lavapipe.vkGetPhysicalDeviceProperties(physical, ret);
	physical_name(instance_gpu(physical), ret);
}

/* A structure of a type in a chain, or NULL. */
static void *physical_find(void *chain, VkStructureType type)
{
	VkBaseOutStructure *at = chain;

	while (at && at->sType != type)
		at = at->pNext;
	return at;
}

void sim_vkGetPhysicalDeviceProperties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *ret)
{
	int gpu = instance_gpu(physical);
	VkPhysicalDeviceIDProperties *id;
	VkPhysicalDeviceVulkan11Properties *core;

	lavapipe.vkGetPhysicalDeviceProperties2(physical, ret);
	physical_name(gpu, &ret->properties);
	id = physical_find(ret->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
	core = physical_find(ret->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
	if (id)
		memcpy(id->deviceUUID, gpu_uuid(gpu), VK_UUID_SIZE);
	if (core)
		memcpy(core->deviceUUID, gpu_uuid(gpu), VK_UUID_SIZE);
}

/* Lavapipe's one heap is the host's. */
static void physical_put_memory(int gpu, VkPhysicalDeviceMemoryProperties *ret)
{
	const VkFlags device = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
	const VkFlags mapped =
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

	ret->memoryHeapCount = HEAPS;
	ret->memoryHeaps[HEAP_HOST] = (VkMemoryHeap){ret->memoryHeaps[0].size, 0};
	ret->memoryHeaps[HEAP_DEVICE] =
		(VkMemoryHeap){gpu_total(gpu), VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
	ret->memoryTypeCount = TYPES;
	ret->memoryTypes[TYPE_DEVICE] = (VkMemoryType){device, HEAP_DEVICE};
	ret->memoryTypes[TYPE_HOST] =
		(VkMemoryType){mapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, HEAP_HOST};
	ret->memoryTypes[TYPE_BOTH] = (VkMemoryType){device | mapped, HEAP_DEVICE};
}

void sim_vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
					     VkPhysicalDeviceMemoryProperties *ret)
{
	lavapipe.vkGetPhysicalDeviceMemoryProperties(physical, ret);
	physical_put_memory(instance_gpu(physical), ret);
}

static void physical_put_budget(int gpu, uint64_t host, VkPhysicalDeviceMemoryBudgetPropertiesEXT *ret)
{
	uint64_t own, left;

	gpu_read(gpu, &own, &left);
	memset(ret->heapBudget, 0, sizeof(ret->heapBudget));
	memset(ret->heapUsage, 0, sizeof(ret->heapUsage));
	ret->heapUsage[HEAP_DEVICE] = own;
	ret->heapBudget[HEAP_DEVICE] = own + left;
	ret->heapBudget[HEAP_HOST] = host;
}

void sim_vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice physical,
					      VkPhysicalDeviceMemoryProperties2 *ret)
{
	VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = physical_find(
		ret->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
	int gpu = instance_gpu(physical);

	lavapipe.vkGetPhysicalDeviceMemoryProperties2(physical, ret);
	physical_put_memory(gpu, &ret->memoryProperties);
	if (budget)
		physical_put_budget(gpu, ret->memoryProperties.memoryHeaps[HEAP_HOST].size, budget);
}

static bool physical_lists_budget(const VkExtensionProperties *all, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(all[i].extensionName, MEMORY_BUDGET))
			return true;
	return false;
}

/* Lavapipe's extensions, and the budget's behind them where it is not one of those. */
static VkResult physical_read_extensions(VkPhysicalDevice physical, VkExtensionProperties **ret,
					 uint32_t *ret_n)
{
	VkExtensionProperties *all;
	uint32_t n = 0;
	VkResult r = lavapipe.vkEnumerateDeviceExtensionProperties(physical, NULL, &n, NULL);

	if (r)
		return r;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	r = lavapipe.vkEnumerateDeviceExtensionProperties(physical, NULL, &n, all);
	if (r) {
		free(all);
		return r;
	}
	if (!physical_lists_budget(all, n))
		all[n++] = (VkExtensionProperties){.extensionName = MEMORY_BUDGET, .specVersion = 1};
	*ret = all;
	*ret_n = n;
	return VK_SUCCESS;
}

VkResult sim_vkEnumerateDeviceExtensionProperties(VkPhysicalDevice physical, const char *layer,
						  uint32_t *count,
						  VkExtensionProperties *ret_extensions)
{
	VkExtensionProperties *all;
	uint32_t n;
	VkResult r;

	if (layer)
		return lavapipe.vkEnumerateDeviceExtensionProperties(physical, layer, count,
								     ret_extensions);
	r = physical_read_extensions(physical, &all, &n);
	if (r)
		return r;
	if (ret_extensions && *count < n)
		r = VK_INCOMPLETE;
	else
		*count = n;
	if (ret_extensions)
		memcpy(ret_extensions, all, *count * sizeof(*all));
	free(all);
	return r;
}
