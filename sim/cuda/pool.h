/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: they take device memory in segments of 32 MiB or multiples, hand out pieces of
 * them in stream order, and give whole free segments back when told to or beyond their threshold.
 */
#ifndef ALLOT_SIM_CUDA_POOL_H
#define ALLOT_SIM_CUDA_POOL_H

#include "sim/cuda/block.h"

struct sim_stream;

/* All with sim_lock held, but where said. */

/* A handle's pool, or NULL. */
struct sim_pool *sim_pool_find(CUmemoryPool handle);
/* A device's default and current pool, made at first use; NULL without host memory. */
struct sim_pool *sim_pool_of_device(struct sim_device *device, bool current);
CUresult sim_pool_alloc(struct sim_pool *pool, uint64_t bytes, struct sim_stream *stream,
			CUdeviceptr *ret_ptr);
/*
 * Free a SIM_RANGE_POOL range: for whoever comes later in `stream` at once, for everybody when
 * sim_pool_freed is called with *ret_ticket, on the stream's executor. `stream` NULL: at once.
 */
struct sim_pool_ticket;
CUresult sim_pool_free(struct sim_range *range, struct sim_stream *stream,
		       struct sim_pool_ticket **ret_ticket);
void sim_pool_freed(void *ticket); /* takes the lock */

const CUmemPoolProps *sim_pool_props(const struct sim_pool *pool);
unsigned int sim_pool_handle_types(const struct sim_range *range);
/* True if managed memory is what the pool hands out: the driver's figure has none of it. */
bool sim_pool_managed(const struct sim_pool *pool);

/* graph_mem.c has memory to give back, too, from now on: `trim` says whether there was any. */
void sim_pools_trim_also(bool (*trim)(struct sim_device *device));
/* sim_block_create, as the driver does: where the device is full, what nobody uses goes first. */
CUresult sim_pools_block_create(struct sim_device *device, uint64_t bytes, bool own_file,
				struct sim_block **ret_block);
/* Do addresses lie in a pool, handed out or not? */
bool sim_pool_holds(uint64_t base, uint64_t bytes);

/* The segment that a SIM_RANGE_POOL range lies in, and where. */
struct sim_block *sim_pool_block(const struct sim_range *range, uint64_t *ret_offset);

/*
 * pool_share.c: imported pools hand out nothing of their own. One keeps each segment that a pointer
 * was imported of until it is destroyed, which only one can be of which all pointers are freed. As
 * an H200's driver does, it keeps them until the process ends if a pointer was freed in a stream and
 * no call has waited for that work before it was destroyed.
 */
struct sim_pool *sim_pool_new(const CUmemPoolProps *props, struct sim_device *device,
			      bool imported);
bool sim_pool_imported(const struct sim_pool *pool);
/* Pointers go to other processes after the pool, of which a descriptor is made first. */
void sim_pool_set_exported(struct sim_pool *pool);
bool sim_pool_exported(const struct sim_range *range);
/* A SIM_RANGE_POOL_PTR range becomes one of an imported pool: false without host memory. */
bool sim_pool_adopt(struct sim_pool *pool, struct sim_range *range);
/* Such a range is freed in a stream, and when the stream gets there, or at once: its end. */
void sim_pool_part_pointer(struct sim_range *range);
void sim_pool_end_pointer(struct sim_range *range);

#endif
