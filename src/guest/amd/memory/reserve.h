/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one path of every ioctl that takes memory of an AMD GPU: reserve, let the kernel do it, then
 * commit or cancel (charge.h). The amount is known beforehand (amd/demand.h), and the kernel takes
 * exactly that.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_RESERVE_H
#define ALLOT_GUEST_AMD_MEMORY_RESERVE_H

#include "guest/amd/memory/charge.h"

/*
 * 0, or -ENOMEM when the tenant's limit on such memory does not allow it, after what this process no
 * longer has was counted off. `fd`: of one of AMD's files. End every success with a commit or a cancel.
 */
int amd_reserve(struct guest *guest, struct amd *amd, struct amd_device *device, int fd,
		enum demand_memory memory, uint64_t bytes, struct amd_charge *ret);

/* The limit on the machine's memory that the tenant's GPUs have pinned, now. Keeps errno. */
uint64_t amd_host_limit(struct guest *guest, struct amd *amd, enum demand_memory memory);

/*
 * The same for memory of the GPU that the tenant holds already and had away: a quota that was lowered
 * meanwhile takes nothing away.
 */
int amd_take_back(struct guest *guest, struct amd *amd, struct amd_device *device, uint64_t bytes,
		  struct amd_charge *ret);

#endif
