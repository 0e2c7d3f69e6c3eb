/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a Vulkan driver that are hooked or called, from the one list (vulkan_api.def). */
#ifndef ALLOT_VULKAN_API_H
#define ALLOT_VULKAN_API_H

#include "vulkan/abi/vulkan.h"

/*
 * A driver's own functions, as one of its objects has them: there is no table that is good for all
 * drivers of a process, nor for all objects of a driver. NULL: it has none of that name.
 */
struct vulkan_driver {
#define VULKAN_HOOK(object, result, name, params) result (*name) params;
#define VULKAN_CALL(object, result, name, params) result (*name) params;
#include "vulkan/vulkan_api.def"
};

#endif
