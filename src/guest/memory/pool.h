/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered pools. What a pool costs is what it reserves, whoever uses it: the driver keeps
 * that figure (18 ns to read), and each pool's object remembers how much of it is charged.
 */
#ifndef ALLOT_GUEST_MEMORY_POOL_H
#define ALLOT_GUEST_MEMORY_POOL_H

#include "guest/memory/charge.h"

/*
 * Called after every change of what an allocation may remember of a pool: which pool is current,
 * that there is such a pool, and how much of it is charged.
 */
static inline void pool_changed(struct guest *guest)
{
	atomic_fetch_add(&guest->pools, 1);
}

/*
 * What an allocation has to know of its pool. It is valid as long as guest.pools has not changed
 * since before it was asked for. So while a pool neither grows nor is exchanged, an allocation
 * takes no lock, and asks the driver for nothing but the reserve.
 */
struct pool_seen {
	uint64_t version;
	uint64_t charged;
	struct guest_device *device; /* NULL: not charged here */
};

/* Looks a pool up, and puts down one that is not known yet. False: there is no room for it. */
bool pool_look_up(struct guest *guest, CUmemoryPool pool, struct pool_seen *ret);
bool pool_object(struct guest *guest, CUmemoryPool pool, struct object *ret);

/* The same for the pool that the stream's device allocates from. */
CUresult pool_current(struct guest *guest, CUstream stream, CUmemoryPool *ret_pool,
		      struct pool_seen *ret);

/* Whether it is still valid. */
static inline bool pool_is_unchanged(struct guest *guest, const struct pool_seen *seen)
{
	return atomic_load(&guest->pools) == seen->version;
}

/* A figure that the driver keeps of a pool. */
uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute which);
uint64_t pool_reserved(CUmemoryPool pool);

/* Charges what the pool reserves now, and answers it. */
uint64_t pool_settle(struct guest *guest, CUmemoryPool pool);

/*
 * Charges what every pool of this process reserves. To be called where the driver may have trimmed
 * them.
 */
void pool_settle_all(struct guest *guest);

#endif
