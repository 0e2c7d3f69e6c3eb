/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances, and their GPUs. Lavapipe has one physical device an instance: so there is one instance of
 * lavapipe for each GPU, the first of which is the program's. Handles are lavapipe's own.
 */
#ifndef ALLOT_SIM_VULKAN_INSTANCE_H
#define ALLOT_SIM_VULKAN_INSTANCE_H

#include "vulkan/abi/vulkan.h"

/* Which GPU of the region a physical device is. */
int instance_gpu(VkPhysicalDevice physical);

#endif
