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
 * Charges what every pool of this process reserves. To be called where the driver may have trimmed
 * them.
 */
void pool_settle_all(struct guest *guest);

/*
 * Before the driver frees an address that cuMemAlloc did not give out: takes out the record of its
 * sharing; false: there is none. After the driver's call pool_pointer_done drops the record, or
 * puts it back where the address was not freed.
 */
bool pool_pointer_take(struct guest *guest, CUdeviceptr address, struct object *ret);
void pool_pointer_done(struct guest *guest, const struct object *pointer, bool freed);

#endif
