/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered pools. What a pool costs is what it reserves, whoever uses it: the driver keeps
 * that figure (18 ns to read), and each pool's object remembers how much of it is charged.
 */
#ifndef ALLOT_GUEST_MEMORY_POOL_H
#define ALLOT_GUEST_MEMORY_POOL_H

#include "guest/account/charge.h"
#include "guest/account/holder.h"
#include "guest/memory/state.h"

/*
 * Called after every change of what an allocation may remember of a pool: which pool is current,
 * that there is such a pool, and how much of it is charged.
 */
static inline void pool_changed(struct guest *guest)
{
	atomic_fetch_add(&guest->memory->pools, 1);
}

/*
 * A pool as an allocation has to know it. It is valid as long as guest.memory->pools has not changed
 * since before it was asked for. So while a pool neither grows nor is exchanged, an allocation
 * takes no lock, and asks the driver for nothing but the reserve.
 */
struct pool_seen {
	uint64_t version;
	uint64_t charged;
	uint64_t largest;	     /* of one that is exportable, as in its object */
	struct guest_device *device; /* NULL: not charged here */
	bool exportable;
	bool ended;		     /* see pool_is_ended */
};

/* An allocation from a pool, by whichever of the driver's four calls. */
struct pool_request {
	CUdeviceptr *dptr;
	size_t bytes;
	CUmemoryPool pool; /* NULL: the current one of the stream's device */
	CUstream stream;   /* as the program gave it */
	CUstream order;	   /* the stream that it means */
	CUresult (*call)(const struct pool_request *request);
};

/* By the driver, of a stream that does not capture. */
CUresult pool_alloc(struct guest *guest, struct pool_request *request);

/* Looks a pool up, and puts down one that is not known yet. False: there is no room for it. */
bool pool_look_up(struct guest *guest, CUmemoryPool pool, struct pool_seen *ret);
bool pool_object(struct guest *guest, CUmemoryPool pool, struct object *ret);

/* The same for the pool that the stream's device allocates from. */
CUresult pool_current(struct guest *guest, CUstream stream, CUmemoryPool *ret_pool,
		      struct pool_seen *ret);

/*
 * The device whose default pool it is: a pool that the program did not create. -1: of none, or of
 * the host.
 */
int16_t pool_default_device(struct guest *guest, CUmemoryPool pool);

/* Did the program destroy it? Then it is to be as unknown as it was to the driver. */
bool pool_is_ended(struct guest *guest, CUmemoryPool pool);

/*
 * Destroys a pool of this process that is charged. The driver keeps what is still allocated from
 * it until that is freed, but answers no question about it any more. So as long as anything is,
 * the driver's pool stays, for us alone, and goes when a settling finds it empty.
 */
CUresult pool_end(struct guest *guest, CUmemoryPool pool);

/*
 * Destroys an imported pool. An H200's driver keeps the imported memory until the process ends, in no
 * figure, if no call has waited for a stream-ordered free of one of the pool's pointers. So the driver
 * destroys the pool when the last such free has been reaped.
 */
CUresult pool_end_imported(struct guest *guest, CUmemoryPool pool);

/* Whether it is still valid. */
static inline bool pool_is_unchanged(struct guest *guest, const struct pool_seen *seen)
{
	return atomic_load(&guest->memory->pools) == seen->version;
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

extern const struct holder pool_holder;

#endif
