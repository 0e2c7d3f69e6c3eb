/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device as the tenant has it (account/view.h): a heap is no larger than the quota, and its
 * budget is what this process has and what is free for the tenant. Renderers give caches back by their
 * budget, so it holds for all of the device's heaps alike.
 */
#include "base/number.h"
#include "guest/vulkan/hook.h"

/* True: the tenant's view of it is another one. */
static bool view_is_ours(const struct known *known)
{
	return known && known->physical.charged && known->physical.ours;
}

static bool view_is_local(const VkPhysicalDeviceMemoryProperties *memory, uint32_t heap)
{
	return memory->memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
}

static uint32_t view_heaps(const VkPhysicalDeviceMemoryProperties *memory)
{
	return (uint32_t)min_u64(memory->memoryHeapCount, VK_MAX_MEMORY_HEAPS);
}

/* Neither is above the heap, and a budget is never 0 (Vulkan's rules). */
static void view_limit_budget(const struct known *known, const VkPhysicalDeviceMemoryProperties *memory,
			      VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget)
{
	for (uint32_t i = 0; i < view_heaps(memory); i++) {
		uint64_t size = memory->memoryHeaps[i].size, total, left;

		if (!view_is_local(memory, i))
			continue;
		uuid_device_view(guest_get(), &known->physical.device,
				 sat_sub_u64(budget->heapBudget[i], budget->heapUsage[i]), &total, &left);
		budget->heapUsage[i] = min_u64(budget->heapUsage[i], size);
		budget->heapBudget[i] = max_u64(1, min_u64(size, sat_add_u64(budget->heapUsage[i], left)));
	}
}

static void view_limit_heaps(const struct known *known, VkPhysicalDeviceMemoryProperties *memory)
{
	uint64_t limit = uuid_device_limit(guest_get(), &known->physical.device);

	for (uint32_t i = 0; i < view_heaps(memory); i++)
		if (view_is_local(memory, i))
			memory->memoryHeaps[i].size = min_u64(memory->memoryHeaps[i].size, limit);
}

void hook_vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice physicalDevice,
					      VkPhysicalDeviceMemoryProperties *pMemoryProperties)
{
	struct known *known = known_find(physicalDevice);

	if (!known)
		return;
	VULKAN_DO(&known->instance->driver, vkGetPhysicalDeviceMemoryProperties,
		  (physicalDevice, pMemoryProperties));
	if (view_is_ours(known))
		view_limit_heaps(known, pMemoryProperties);
}

static void view_limit_all(const struct known *known, VkPhysicalDeviceMemoryProperties2 *all)
{
	VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget;

	if (!view_is_ours(known))
		return;
	view_limit_heaps(known, &all->memoryProperties);
	budget = vulkan_chained(all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
	if (budget)
		view_limit_budget(known, &all->memoryProperties, budget);
}

#define PROPERTIES(name)                                                                      \
	void hook_##name(VkPhysicalDevice physicalDevice,                                     \
			 VkPhysicalDeviceMemoryProperties2 *pMemoryProperties)                \
	{                                                                                     \
		struct known *known = known_find(physicalDevice);                             \
                                                                                              \
		if (!known)                                                                   \
			return;                                                               \
		VULKAN_DO(&known->instance->driver, name, (physicalDevice, pMemoryProperties)); \
		view_limit_all(known, pMemoryProperties);                                     \
	}

PROPERTIES(vkGetPhysicalDeviceMemoryProperties2)
PROPERTIES(vkGetPhysicalDeviceMemoryProperties2KHR)
