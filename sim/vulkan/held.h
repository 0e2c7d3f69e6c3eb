/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs that the process's Vulkan devices hold. A parent's, from before a fork, is the parent's:
 * the child gives nothing of it back.
 */
#ifndef ALLOT_SIM_VULKAN_HELD_H
#define ALLOT_SIM_VULKAN_HELD_H

#include <stdint.h>

#include "vulkan/abi/vulkan.h"

/* A device that `bytes` are charged for. 0 or -ENOMEM. */
int held_add_device(VkDevice device, int gpu, uint64_t bytes);
/* The device's GPU; -1 if it is not known. */
int held_gpu(VkDevice device);
/* Gives back what the device and its memory took. */
void held_drop_device(VkDevice device);

/* Memory of a known device that `bytes` are charged for. 0 or -ENOMEM. */
int held_add_memory(VkDevice device, VkDeviceMemory memory, uint64_t bytes);
void held_drop_memory(VkDeviceMemory memory);

#endif
