/* SPDX-License-Identifier: Apache-2.0 */
/* The one device, as NVIDIA's driver shows a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "sim/vulkan/lavapipe.h"

#define VENDOR_ID      0x10de
#define BUDGET	       "VK_EXT_memory_budget"
#define BUDGET_VERSION 1

static void device_dress(VkPhysicalDeviceProperties *properties)
{
	properties->vendorID = VENDOR_ID;
	properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
	snprintf(properties->deviceName, sizeof(properties->deviceName), "%s",
		 sim_vulkan_region->device[0].name);
}

/* Vulkan 1.1's structure begins like the one for UUIDs alone. */
static void device_name(VkPhysicalDeviceIDProperties *id)
{
	if (id)
		memcpy(id->deviceUUID, sim_vulkan_region->device[0].uuid, sizeof(id->deviceUUID));
}

static void device_dress_all(VkPhysicalDeviceProperties2 *all)
{
	device_dress(&all->properties);
	device_name(sim_vulkan_chained(all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES));
	device_name(sim_vulkan_chained(all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES));
}

void sim_vkGetPhysicalDeviceProperties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *ret)
{
	sim_lavapipe.vkGetPhysicalDeviceProperties(physical, ret);
	device_dress(ret);
}

void sim_vkGetPhysicalDeviceProperties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *ret)
{
	sim_lavapipe.vkGetPhysicalDeviceProperties2(physical, ret);
	device_dress_all(ret);
}

void sim_vkGetPhysicalDeviceProperties2KHR(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *ret)
{
	sim_lavapipe.vkGetPhysicalDeviceProperties2KHR(physical, ret);
	device_dress_all(ret);
}

/* --- Memory ---------------------------------------------------------------------------------- */

/* Heap 0 is the device's, heap 1 what lavapipe has: the machine's. */
static void device_dress_memory(VkPhysicalDeviceMemoryProperties *memory)
{
	VkMemoryHeap host = {.size = memory->memoryHeaps[0].size};

	memory->memoryHeapCount = 2;
	memory->memoryHeaps[0] = (VkMemoryHeap){sim_vulkan_region->device[0].total_bytes,
						VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
	memory->memoryHeaps[1] = host;
	memory->memoryTypeCount = SIM_TYPES;
	memory->memoryTypes[SIM_TYPE_LOCAL] = (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
	memory->memoryTypes[SIM_TYPE_HOST] = (VkMemoryType){VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
								    VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
								    VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
							    1};
	memory->memoryTypes[SIM_TYPE_VISIBLE] = (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
								       VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
								       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
							       0};
}

/* Usage is the process's, as the driver knows it; the rest of the budget is what nobody has. */
static void device_budget(VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget,
			  const VkPhysicalDeviceMemoryProperties *memory)
{
	uint64_t used, own;

	sim_region_lock(sim_vulkan_region);
	sim_region_reap(sim_vulkan_region);
	used = sim_region_used(sim_vulkan_region, 0);
	own = sim_row_figure(sim_vulkan_region, sim_vulkan_row, 0);
	sim_region_unlock(sim_vulkan_region);
	memset(budget->heapBudget, 0, sizeof(budget->heapBudget));
	memset(budget->heapUsage, 0, sizeof(budget->heapUsage));
	budget->heapUsage[0] = own;
	budget->heapBudget[0] = sat_sub_u64(memory->memoryHeaps[0].size, used) + own;
	budget->heapBudget[1] = memory->memoryHeaps[1].size;
}

static void device_dress_all_memory(VkPhysicalDeviceMemoryProperties2 *all)
{
	void *budget = sim_vulkan_chained(all->pNext,
					  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);

	device_dress_memory(&all->memoryProperties);
	if (budget && sim_vulkan_owns())
		device_budget(budget, &all->memoryProperties);
}

void sim_vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
					     VkPhysicalDeviceMemoryProperties *ret)
{
	sim_lavapipe.vkGetPhysicalDeviceMemoryProperties(physical, ret);
	device_dress_memory(ret);
}

void sim_vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice physical,
					      VkPhysicalDeviceMemoryProperties2 *ret)
{
	sim_lavapipe.vkGetPhysicalDeviceMemoryProperties2(physical, ret);
	device_dress_all_memory(ret);
}

void sim_vkGetPhysicalDeviceMemoryProperties2KHR(VkPhysicalDevice physical,
						 VkPhysicalDeviceMemoryProperties2 *ret)
{
	sim_lavapipe.vkGetPhysicalDeviceMemoryProperties2KHR(physical, ret);
	device_dress_all_memory(ret);
}

/* --- Extensions and logical devices ----------------------------------------------------------- */

/* Lavapipe's, and the budget, which it has not. */
VkResult sim_vkEnumerateDeviceExtensionProperties(VkPhysicalDevice physical, const char *layer,
						  uint32_t *count, VkExtensionProperties *ret)
{
	uint32_t room = *count, has = 0;
	VkResult r = sim_lavapipe.vkEnumerateDeviceExtensionProperties(physical, layer, &has, NULL);

	if (r || layer || !ret) {
		*count = layer ? has : has + 1;
		return r;
	}
	r = sim_lavapipe.vkEnumerateDeviceExtensionProperties(physical, layer, count, ret);
	if (r || room <= *count)
		return r ? r : VK_INCOMPLETE;
	ret[*count] = (VkExtensionProperties){BUDGET, BUDGET_VERSION};
	++*count;
	return VK_SUCCESS;
}

static void device_count_context(int more)
{
	if (!sim_vulkan_owns())
		return;
	sim_region_lock(sim_vulkan_region);
	sim_vulkan_region->row[sim_vulkan_row].use[0].contexts += (uint32_t)more;
	sim_region_unlock(sim_vulkan_region);
}

VkResult sim_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
			    const VkAllocationCallbacks *allocator, VkDevice *ret)
{
	const char **names = calloc(info->enabledExtensionCount + 1, sizeof(*names));
	VkDeviceCreateInfo known = *info;
	VkResult r;

	if (!names)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	known.enabledExtensionCount = 0;
	known.ppEnabledExtensionNames = names;
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		if (strcmp(info->ppEnabledExtensionNames[i], BUDGET) != 0)
			names[known.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
	r = sim_lavapipe.vkCreateDevice(physical, &known, allocator, ret);
	free(names);
	if (!r)
		device_count_context(1);
	return r;
}

void sim_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
	sim_lavapipe.vkDestroyDevice(device, allocator);
	if (device) {
		sim_vulkan_forget_memory(device);
		device_count_context(-1);
	}
}
