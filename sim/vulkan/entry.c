/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's exports, and the way from a name to a function: to ours where lavapipe has
 * one of that name, else to lavapipe's. Lavapipe is loaded inside a call, never before one.
 */
#include <string.h>

#include "sim/vulkan/lavapipe.h"
#include "sim/vulkan/rows.h"

#define ENTRY __attribute__((visibility("default")))
#define INTERFACE_MOST 5

static const struct {
	const char *name;
	PFN_vkVoidFunction fn;
} rows[] = {
#define VULKAN_ROW(result, name, params) {#name, (PFN_vkVoidFunction)sim_##name},
#define VULKAN_ALIAS(name, of)		 {#name, (PFN_vkVoidFunction)sim_##of},
#include "sim/vulkan/rows.def"
};

/* `own`: what lavapipe has of that name, or NULL. */
static PFN_vkVoidFunction entry_choose(const char *name, PFN_vkVoidFunction own)
{
	for (size_t i = 0; own && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, name))
			return rows[i].fn;
	return own;
}

PFN_vkVoidFunction sim_vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	return lavapipe_load() ? entry_choose(name, lavapipe.get(instance, name)) : NULL;
}

PFN_vkVoidFunction sim_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
	return entry_choose(name, lavapipe.vkGetDeviceProcAddr(device, name));
}

ENTRY PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
ENTRY PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name);
ENTRY VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);

PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
	return sim_vkGetInstanceProcAddr(instance, name);
}

PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name)
{
	if (!lavapipe_load() || !lavapipe.get_physical)
		return NULL;
	return entry_choose(name, lavapipe.get_physical(instance, name));
}

VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
	if (*version > INTERFACE_MOST)
		*version = INTERFACE_MOST;
	return VK_SUCCESS;
}
