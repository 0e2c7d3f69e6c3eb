/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan driver that the simulated one is made of: Mesa's lavapipe, which draws and computes on the
 * processors. What it is asked passes on to it, but for what makes it look like the first simulated GPU
 * and has its memory counted there. It has one device, whose handles are handed out as they are.
 */
#ifndef ALLOT_SIM_VULKAN_LAVAPIPE_H
#define ALLOT_SIM_VULKAN_LAVAPIPE_H

#include <stdbool.h>

#include "sim/region.h"
#include "vulkan/abi/vulkan.h"

/*
 * FUNCTION(result, name, params): of lavapipe, replaced by sim_<name>. FAMILY is one that another one
 * has brought.
 */
#define SIM_VULKAN_INSTANCE(FUNCTION)                                                                  \
	FUNCTION(VkResult, vkCreateDevice,                                                             \
		 (VkPhysicalDevice physical, const VkDeviceCreateInfo *info,                           \
		  const VkAllocationCallbacks *allocator, VkDevice *ret))                              \
	FUNCTION(VkResult, vkEnumerateDeviceExtensionProperties,                                       \
		 (VkPhysicalDevice physical, const char *layer, uint32_t *count,                       \
		  VkExtensionProperties *ret))                                                         \
	FUNCTION(PFN_vkVoidFunction, vkGetDeviceProcAddr, (VkDevice device, const char *name))         \
	FUNCTION(void, vkGetPhysicalDeviceProperties,                                                  \
		 (VkPhysicalDevice physical, VkPhysicalDeviceProperties *ret))                         \
	FUNCTION(void, vkGetPhysicalDeviceProperties2,                                                 \
		 (VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *ret))                        \
	FUNCTION(void, vkGetPhysicalDeviceProperties2KHR,                                              \
		 (VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *ret))                        \
	FUNCTION(void, vkGetPhysicalDeviceMemoryProperties,                                            \
		 (VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *ret))                   \
	FUNCTION(void, vkGetPhysicalDeviceMemoryProperties2,                                           \
		 (VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *ret))                  \
	FUNCTION(void, vkGetPhysicalDeviceMemoryProperties2KHR,                                        \
		 (VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *ret))

#define SIM_VULKAN_DEVICE(FUNCTION)                                                                    \
	FUNCTION(void, vkDestroyDevice, (VkDevice device, const VkAllocationCallbacks *allocator))     \
	FUNCTION(VkResult, vkAllocateMemory,                                                           \
		 (VkDevice device, const VkMemoryAllocateInfo *info,                                   \
		  const VkAllocationCallbacks *allocator, VkDeviceMemory *ret))                        \
	FUNCTION(void, vkFreeMemory,                                                                   \
		 (VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *allocator))     \
	FUNCTION(void, vkGetBufferMemoryRequirements,                                                  \
		 (VkDevice device, VkBuffer of, VkMemoryRequirements *ret))                            \
	FUNCTION(void, vkGetImageMemoryRequirements,                                                   \
		 (VkDevice device, VkImage of, VkMemoryRequirements *ret))                             \
	FUNCTION(void, vkGetBufferMemoryRequirements2,                                                 \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetBufferMemoryRequirements2KHR,                                              \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetImageMemoryRequirements2,                                                  \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetImageMemoryRequirements2KHR,                                               \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetDeviceBufferMemoryRequirements,                                            \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetDeviceBufferMemoryRequirementsKHR,                                         \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetDeviceImageMemoryRequirements,                                             \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(void, vkGetDeviceImageMemoryRequirementsKHR,                                          \
		 (VkDevice device, const void *of, VkMemoryRequirements2 *ret))                        \
	FUNCTION(VkResult, vkGetMemoryFdPropertiesKHR,                                                 \
		 (VkDevice device, VkExternalMemoryHandleTypeFlagBits type, int fd,                    \
		  VkMemoryFdPropertiesKHR *ret))

typedef PFN_vkVoidFunction sim_vulkan_ask(VkInstance instance, const char *name);

/* Lavapipe's own. Instances of one process have the same, and so have devices. */
struct sim_lavapipe {
	sim_vulkan_ask *ask;
#define FUNCTION(result, name, params) result (*name) params;
	SIM_VULKAN_INSTANCE(FUNCTION)
	SIM_VULKAN_DEVICE(FUNCTION)
#undef FUNCTION
};

extern struct sim_lavapipe sim_lavapipe;

#define FUNCTION(result, name, params) result sim_##name params;
SIM_VULKAN_INSTANCE(FUNCTION)
SIM_VULKAN_DEVICE(FUNCTION)
#undef FUNCTION

/* The first simulated GPU, whom this process's row in its region is. */
extern struct sim_region *sim_vulkan_region;
extern int sim_vulkan_row;
/* False in a forked child, which has not got the region. */
bool sim_vulkan_owns(void);

/* Memory types, as NVIDIA's driver has them; all stand for lavapipe's only one. */
enum sim_vulkan_type { SIM_TYPE_LOCAL, SIM_TYPE_HOST, SIM_TYPE_VISIBLE, SIM_TYPES };

/* Frees what is left of a device. */
void sim_vulkan_forget_memory(VkDevice device);

/* The first of a chain of structures that is of a type, or NULL. */
static inline void *sim_vulkan_chained(const void *chain, VkStructureType type)
{
	const VkBaseOutStructure *at = chain;

	while (at && at->sType != type)
		at = at->pNext;
	return (void *)at;
}

#endif
