/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a logical device has given: its charges. */
#ifndef ALLOT_GUEST_VULKAN_MEMORY_H
#define ALLOT_GUEST_VULKAN_MEMORY_H

#include "guest/vulkan/known.h"

/* The driver has destroyed the device: what the program has not freed is gone with it. */
void vulkan_memory_gone(const struct known *known);

#endif
