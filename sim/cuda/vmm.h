/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory that the program handles itself: cuMemCreate, cuMemMap and their kin. */
#ifndef ALLOT_SIM_CUDA_VMM_H
#define ALLOT_SIM_CUDA_VMM_H

#include "sim/cuda/block.h"

struct sim_multicast;

/*
 * The thing that a CUmemGenericAllocationHandle names: memory, or a multicast object, which has
 * no block.
 * Lives while it has handles or mappings; a multicast object that memory is bound to maps it.
 */
struct sim_physical {
	struct sim_block *block;
	struct sim_multicast *multicast;
	void (*end)(struct sim_multicast *multicast);
	CUmemAllocationProp prop;
	bool hidden; /* its reference to the block, since it was imported */
	unsigned int handles;
	unsigned int mappings;
	bool reported; /* by cuMemCreate, in sim/report.h */
	struct sim_physical *next;
};

/* All with sim_lock held. */
struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle);
struct sim_multicast *sim_multicast_find(CUmemGenericAllocationHandle handle);
/* A handle for a multicast object, which `end` gets with the last one. False: no host memory. */
bool sim_multicast_add(struct sim_multicast *multicast,
		       void (*end)(struct sim_multicast *multicast),
		       CUmemGenericAllocationHandle *ret_handle);
void sim_physical_map(struct sim_physical *physical);
void sim_physical_unmap(struct sim_physical *physical); /* and the end of it, maybe */

unsigned int sim_vmm_handle_types(const struct sim_range *range);

#endif
