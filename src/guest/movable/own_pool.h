/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered pools of a swappable tenant: memory that can leave (backing.h), cut by slab.h.
 * Each stands behind a pool of the driver's, which has the handle, the attributes that programs set
 * and the device's choice of a current pool, and of which nothing is ever allocated. So the driver
 * answers what does not depend on memory; and nodes of captured graphs are its own, as ever.
 *
 * Pools that may be exported, of managed memory or of the host's stay the driver's altogether.
 *
 * As the driver's, a pool grows by slabs of 32 MiB and keeps what it has, up to its threshold,
 * behind a synchronisation. What it keeps is charged. One lock is held for the tables, never across
 * a call of the driver.
 */
#ifndef ALLOT_GUEST_MOVABLE_OWN_POOL_H
#define ALLOT_GUEST_MOVABLE_OWN_POOL_H

#include "guest/account/holder.h"
#include "guest/core/guest.h"
#include "guest/core/object.h"

/* As allocator.h has them, of a pool that may be none of ours. */
CUresult own_pool_made(struct guest *guest, CUmemoryPool handle, const CUmemPoolProps *props);
void own_pool_ends(struct guest *guest, CUmemoryPool handle);
void own_pool_figure(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
		     void *value);
void own_pool_set(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
		  const void *value);
void own_pool_set_access(struct guest *guest, CUmemoryPool handle, const CUmemAccessDesc *desc,
			 size_t count);
void own_pool_trim(struct guest *guest, CUmemoryPool handle, uint64_t keep);

/* The allocation that has an address, as an object of no table. False: none of these pools' has. */
bool own_pool_object(struct guest *guest, CUdeviceptr at, struct object *ret);

/*
 * Around a wait of the program's: before it, which frees it may cover; behind it, that the stream,
 * or the context (NULL: the current one), has come so far.
 */
uint64_t own_pools_number(struct guest *guest);
void own_pools_waited(struct guest *guest, CUstream stream, uint64_t number);
void own_pools_waited_context(struct guest *guest, CUcontext context, uint64_t number);

/* Gives back what pools have beyond their thresholds. */
void own_pools_settle(struct guest *guest);

/* A stream is about to end; a context has ended. */
void own_pools_stream_ends(struct guest *guest, CUstream stream);
void own_pools_forget_context(struct guest *guest, CUcontext context);

extern const struct holder own_pool_holder;

/* For who moves memory, while the gate is shut and no work is left: gives back what is free. */
void own_pools_drained(struct guest *guest);

#endif
