/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the process about memory that can leave the device: guest->movable. */
#ifndef ALLOT_GUEST_MOVABLE_STATE_H
#define ALLOT_GUEST_MOVABLE_STATE_H

#include "guest/core/guest.h"

struct backing;
struct own_pools;

struct movable_state {
	_Atomic bool yields;	      /* the swap thread ends spare pieces; see linear.c */
	_Atomic uint32_t drops;	      /* how often it did; threads that take part */
	_Atomic uint32_t dropping[2]; /* since that was an even, an odd number */
	_Atomic(struct backing *) backing[GUEST_DEVICES]; /* by ordinal, see backing.h */
	_Atomic uint64_t backed;	       /* allocations that were ever */
	_Atomic(struct own_pools *) own_pools; /* see own_pool.h */
};

#endif
