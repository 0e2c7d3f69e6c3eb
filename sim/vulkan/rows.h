/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the simulated Vulkan driver puts before lavapipe's: one sim_<name> for each row
 * of rows.def. Each file calls those below it alone:
 *
 *   entry.c       what is exported, and how a name leads to a function
 *   device.c      Vulkan devices begin and end
 *   memory.c      memory is allocated and freed, and which types of it fit
 *   physical.c    what a GPU is, and what it has
 *   instance.c    instances, and their GPUs
 *   held.c        what the process's devices hold
 *   gpu.c         the region, and this process's row in it
 *   lavapipe.c    the driver that does the work
 */
#ifndef ALLOT_SIM_VULKAN_ROWS_H
#define ALLOT_SIM_VULKAN_ROWS_H

#include "vulkan/abi/vulkan.h"

#define VULKAN_ROW(result, name, params) result sim_##name params;
#include "sim/vulkan/rows.def"

/* Added to the extensions of lavapipe where it lacks it. */
#define MEMORY_BUDGET "VK_EXT_memory_budget"

/* Types of memory, in the order of NVIDIA's driver; lavapipe has type 0 alone. */
enum { TYPE_DEVICE, TYPE_HOST, TYPE_BOTH, TYPES };
enum { HEAP_DEVICE, HEAP_HOST, HEAPS };

#endif
