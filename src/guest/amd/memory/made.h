/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How memory of GPUs was made, and which GPUs map it: with what the table has beside, all that is
 * needed to make it again. Kept of swappable tenants alone, in the objects that are charged.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_MADE_H
#define ALLOT_GUEST_AMD_MEMORY_MADE_H

#include <stdint.h>

#include "amd/abi/kfd.h"
#include "guest/amd/call.h"

/* The kernel has just done ALLOC_MEMORY_OF_GPU, and the handle is in the table. */
void amd_made_alloc(struct amd_call *call, const struct kfd_ioctl_alloc_memory_of_gpu_args *args);

/* The kernel has mapped it on these GPUs, or unmapped it, as the call says. */
void amd_made_mapped(struct amd_call *call, uint64_t handle, const uint32_t *gpu_ids, uint32_t n);

#endif
