/* SPDX-License-Identifier: Apache-2.0 */
/* Mesa's Vulkan driver for CPUs, which does what the simulated one promises. */
#ifndef ALLOT_SIM_VULKAN_LAVAPIPE_H
#define ALLOT_SIM_VULKAN_LAVAPIPE_H

#include <stdbool.h>

#include "vulkan/abi/vulkan.h"

/* Its functions by name: NULL until lavapipe_resolve has found them. */
struct lavapipe {
	PFN_vkVoidFunction (*get)(VkInstance instance, const char *name);
	PFN_vkVoidFunction (*get_physical)(VkInstance instance, const char *name);
#define VULKAN_ROW(result, name, params) result (*name) params;
#include "sim/vulkan/rows.def"
};

extern struct lavapipe lavapipe;

/* Loads it, once. To be called inside a call of a driver's. False if there is none. */
bool lavapipe_load(void);

/* Looks up what an instance offers; NULL: what is there before one. */
void lavapipe_resolve(VkInstance instance);

#endif
