/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In whose order a pool's memory was freed: streams, as far as they have freed any. Each free has a
 * number. What came before it is done where the program has waited for the stream or its context, or
 * where an event of ours is done:
 *
 *	stream A        frees (17) ──────────────── frees (18), records an event
 *	stream B              finds nothing: wants it ────────────────── event is done: takes 17, 18
 *
 * Such an event is recorded only if somebody wants it, and only by the free that comes next
 * in that stream, or as it ends: no other thread can know that the stream still exists.
 *
 * All but what is said to call the driver is under the caller's lock.
 */
#ifndef ALLOT_GUEST_MOVABLE_ORDER_H
#define ALLOT_GUEST_MOVABLE_ORDER_H

#include "guest/core/guest.h"
#include "guest/movable/slab.h"

#define ORDERS 512

/* Of frees that stand in the order of no stream that is known: done when all work was waited for. */
#define ORDER_UNKNOWN 1

/* What a program means by a stream's handle. */
struct order_name {
	CUstream stream;
	CUcontext context; /* of the implicit streams, of which each context has its own */
	uint64_t thread;   /* of the one that each thread has */
};

struct order {
	struct order_name name; /* stream NULL: it is gone, or there never was one */
	struct guest_device *device;
	CUcontext context;
	CUevent event;
	uint64_t freed;	   /* the last number */
	uint64_t marked;   /* the event is out, and covers the numbers up to this one; 0: it is not */
	uint64_t answered; /* which wish it was recorded for */
	bool busy;	   /* a thread has the event */
};

struct orders {
	_Atomic uint64_t number; /* the last one */
	uint64_t wishes;
	uint64_t passed[ORDERS];
	struct order order[ORDERS];
	uint16_t used;	   /* so many were ever */
	uint16_t hint[64]; /* by handle, where it was found last */
};

void orders_init(struct orders *orders);

/* Calls the driver for an implicit stream alone. */
struct order_name order_name(CUstream stream);

/* 0 (SLAB_READY): it is not known. */
uint16_t order_find(struct orders *orders, const struct order_name *name);

/*
 * Makes it known. Calls the driver, and takes the lock itself. SLAB_READY: the driver does not know the
 * stream; ORDER_UNKNOWN: there are too many.
 */
uint16_t order_make(struct guest *guest, struct orders *orders, struct lock_own_pools *lock,
		    const struct order_name *name);

/* The number of a free in that order. */
uint64_t order_free(struct orders *orders, uint16_t order);

/* What was freed in other orders is wanted: whether there is any that is not ready. */
bool order_want(struct orders *orders, uint16_t order);

/* Whether an event should be recorded; then the caller has to call order_mark, without the lock. */
bool order_begin_mark(struct orders *orders, uint16_t order);
void order_mark(struct orders *orders, struct lock_own_pools *lock, uint16_t order);

/* Looks at the events that are out. Calls the driver, and takes the lock itself. */
void order_poll(struct orders *orders, struct lock_own_pools *lock);

/* All up to a number is done: in an order, in those of a context (NULL: in all). */
void order_pass(struct orders *orders, uint16_t order, uint64_t number);
void order_pass_context(struct orders *orders, CUcontext context, uint64_t number);

/* The stream is about to end, in this thread's call. Calls the driver, and takes the lock itself. */
void order_end(struct orders *orders, struct lock_own_pools *lock, const struct order_name *name);

/* The context is gone, with its events and streams. */
void order_forget_context(struct orders *orders, CUcontext context);

#endif
