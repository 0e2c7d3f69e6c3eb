/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory that the program handles itself: cuMemCreate, cuMemMap and their kin. */
#ifndef ALLOT_SIM_CUDA_VMM_H
#define ALLOT_SIM_CUDA_VMM_H

#include "sim/cuda/block.h"

/* Lives while it has handles (as CUmemGenericAllocationHandle) or mappings. */
struct sim_physical {
	struct sim_block *block;
	CUmemAllocationProp prop;
	unsigned int handles;
	unsigned int mappings;
	struct sim_physical *next;
};

/* All with sim_lock held. */
struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle);
void sim_physical_map(struct sim_physical *physical);
void sim_physical_unmap(struct sim_physical *physical); /* and the end of it, maybe */

unsigned int sim_vmm_handle_types(const struct sim_range *range);

#endif
