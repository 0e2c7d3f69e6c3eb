/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_CUDA_MEMORY_H
#define ALLOT_SIM_CUDA_MEMORY_H

#include "sim/cuda/block.h"

/* A context's memory: SIM_RANGE_DEVICE (small ones share granules) or SIM_RANGE_MANAGED. Locked. */
CUresult sim_memory_alloc(struct sim_context *ctx, uint64_t bytes, enum sim_range_kind kind,
			  CUdeviceptr *ret_ptr);
/* Wait for the work of the context that has the address, as frees do that no stream orders. */
void sim_memory_drain(uint64_t address);
/* The end of a range, by whatever call its kind is freed. Locked. */
void sim_memory_free(struct sim_range *range);

#endif
