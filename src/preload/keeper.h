/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: the one thread of ours, in processes whose compute is limited or shared, from their
 * first metered launch on. It collects what the program's own threads leave behind when they stop
 * launching, steers controllers that want to be steered, and may hold the role of the arbiter
 * (turns.h). It sleeps while there is nothing to do. All signals are blocked in it, and it does not
 * touch the driver once the process exits.
 */
#ifndef ALLOT_PRELOAD_KEEPER_H
#define ALLOT_PRELOAD_KEEPER_H

#include <stdatomic.h>
#include <stdint.h>

struct guest;
struct turns;

struct keeper {
	_Atomic uint32_t started; /* 0 no, 1 yes, 2 could not */
	_Atomic uint32_t bell;	  /* a futex */
	_Atomic uint32_t asleep;  /* until rung */
	_Atomic uint64_t next_ns; /* when it looks by itself; 0 while it is awake */
	_Atomic uint32_t stop;	  /* the process exits ... */
	_Atomic uint32_t working; /* ... and the keeper may be inside a call */
	_Atomic(struct turns *) turns;
};

/* There is work in flight: starts the keeper, or wakes it. */
void keeper_work(struct guest *guest);

/* Wakes it to look at once. */
void keeper_look(struct guest *guest);

/* There is something for it to do then, which it learns when it looks: wakes it if it would not. */
void keeper_expect(struct guest *guest, uint64_t at_ns);

/* The tenant, idle until now, wants a device: tells the arbiter, wherever it is. */
void keeper_ring(struct guest *guest);

#endif
