/* SPDX-License-Identifier: Apache-2.0 */
/* What own_pool.c, which has the pools, shares with own_alloc.c, which allocates from them. */
#ifndef ALLOT_GUEST_MOVABLE_OWN_POOL_PRIV_H
#define ALLOT_GUEST_MOVABLE_OWN_POOL_PRIV_H

#include "base/lock.h"
#include "guest/memory/state.h"
#include "guest/movable/order.h"
#include "guest/movable/own_pool.h"
#include "guest/movable/slab.h"
#include "guest/movable/state.h"

struct own_pool {
	struct own_pool *next; /* with a lower number */
	uint64_t number;
	CUmemoryPool handle; /* NULL: the program has destroyed it */
	struct guest_device *device;
	uint64_t most_bytes; /* 0: no limit */
	uint64_t threshold;
	bool opportunistic; /* what others have freed may be used as soon as that is done */
	uint64_t peers;	    /* whose work may reach it, a bit by ordinal */
	uint64_t growing;   /* bytes that threads are just making */
	uint32_t users;	    /* threads that look at it without the lock */
	struct slabs slabs;
};

struct own_pools {
	struct lock_own_pools lock; /* of all below and of slabs */
	struct orders orders;
	struct own_pool *first;
	uint64_t number; /* of the last pool */
	/* Of each device, and for which version of guest.memory->pools. */
	struct own_pool *current[GUEST_DEVICES];
	uint64_t current_version[GUEST_DEVICES];
};

static inline struct own_pools *own_pools_look(struct guest *guest)
{
	return atomic_load_explicit(&guest->movable->own_pools, memory_order_acquire);
}

/* With the lock; NULL: it is none of ours. */
struct own_pool *own_pool_find(struct own_pools *own, CUmemoryPool handle);

/* Until own_pool_put. NULL: it is none of ours. A device's default pool was made by nobody. */
struct own_pool *own_pool_get(struct guest *guest, CUmemoryPool handle);
void own_pool_put(struct own_pools *own, struct own_pool *pool);

/* With the lock: the block of an allocation, and of which pool; NULL: no pool of ours has it. */
struct block *own_pool_block(struct guest *guest, CUdeviceptr at, struct own_pool **ret);

/* Looks how far streams have come, where events of ours tell. */
void own_pools_poll(struct guest *guest, struct own_pools *own);

#endif
