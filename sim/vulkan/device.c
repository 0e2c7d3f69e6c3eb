/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of Vulkan devices, which cost a GPU some memory each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "sim/vulkan/gpu.h"
#include "sim/vulkan/held.h"
#include "sim/vulkan/instance.h"
#include "sim/vulkan/lavapipe.h"
#include "sim/vulkan/rows.h"

/* The bytes that a device takes by itself. A malformed variable is said once a device. */
static uint64_t device_context_bytes(void)
{
	const char *text = getenv("ALLOT_SIM_VULKAN_CONTEXT");
	uint64_t bytes = 0;

	if (text && *text && strcmp(text, "0") && parse_size(text, 0, &bytes) < 0)
		fprintf(stderr, "allot sim: ALLOT_SIM_VULKAN_CONTEXT \"%s\": not a size\n", text);
	return bytes;
}

/* Lavapipe refuses an extension that it does not list; the budget's needs nothing of it. */
static VkResult device_create_without_budget(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
					     const VkAllocationCallbacks *allocator,
					     VkDevice *ret_device)
{
	VkDeviceCreateInfo own = *info;
	const char **names = calloc(info->enabledExtensionCount + 1, sizeof(*names));
	VkResult r;

	if (!names)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	own.enabledExtensionCount = 0;
	own.ppEnabledExtensionNames = names;
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		if (strcmp(info->ppEnabledExtensionNames[i], MEMORY_BUDGET))
			names[own.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
	r = lavapipe.vkCreateDevice(physical, &own, allocator, ret_device);
	free(names);
	return r;
}

VkResult sim_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
			    const VkAllocationCallbacks *allocator, VkDevice *ret_device)
{
	int gpu = instance_gpu(physical);
	uint64_t bytes = device_context_bytes();
	VkDevice device;
	VkResult r;

	if (gpu_charge(gpu, bytes) < 0)
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	r = device_create_without_budget(physical, info, allocator, &device);
	if (!r && held_add_device(device, gpu, bytes) < 0) {
		lavapipe.vkDestroyDevice(device, allocator);
		r = VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	if (r) {
		gpu_uncharge(gpu, bytes);
		return r;
	}
	*ret_device = device;
	return VK_SUCCESS;
}

/* Dropped first: another thread may be given the same handle as soon as lavapipe has it back. */
void sim_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
	held_drop_device(device);
	lavapipe.vkDestroyDevice(device, allocator);
}
