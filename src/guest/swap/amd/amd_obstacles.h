/* SPDX-License-Identifier: Apache-2.0 */
/* What a process holds of AMD GPUs that cannot leave them. */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_OBSTACLES_H
#define ALLOT_GUEST_SWAP_AMD_AMD_OBSTACLES_H

#include "guest/amd/amd.h"
#include "ledger/records.h"

/* While the gate is shut: the first kind, and how many bytes, or how many. SWAP_FINE: none. */
enum swap_why amd_obstacles_find(struct guest *guest, struct amd *amd, int kfd,
				 uint64_t *ret_amount);

#endif
