/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses that the device makes. A program that is held for its debts falls behind: when they are
 * paid, the device waits for it. So where nobody else is concerned a launch goes on to the driver,
 * and its stream waits on the device for a word, which the monitor thread writes when the tenant
 * may go on:
 *
 *	program	 launch, launch, launch, ...			(ahead, as far as the window goes)
 *	stream	 work | wait for the word ............. | begin event, work
 *	monitor				   debt is paid: writes the word
 *
 * A waiting stream costs neither the processor nor other contexts anything (0.8 us to enqueue, work
 * begins 5 us after the write, on an H200). The word is memory of one context, and goes with it.
 */
#ifndef ALLOT_GUEST_LAUNCH_STALL_H
#define ALLOT_GUEST_LAUNCH_STALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvidia/cuda_api.h"

struct guest;
struct launch;
struct launch_device;
struct launch_state;

struct stall {
	_Atomic uint32_t on;	   /* the number of the pause that is on; 0: none */
	_Atomic uint64_t until_ns; /* it is over about then */
	_Atomic uint64_t before_ns; /* when what was launched before is expected to be done */

	/* With the meter's lock: */
	uint32_t last;	   /* numbers given */
	CUcontext context; /* of the word; NULL: there is none */
	uint32_t *word;	   /* NULL: the driver gives none there */
	CUdeviceptr at;
	uint32_t leaving; /* calls under way that may end the context */
	CUstream stream;  /* the one that waits for the pause that is on */
};

/* The tenant owes nothing before then: may the launch be queued behind a wait of its stream? */
bool stall_may(const struct launch_state *state, struct launch_device *device,
	       const struct launch *launch, uint64_t until_ns);

/* Queues the wait. False: it cannot be; the launch is to be held. */
bool stall_begin(struct guest *guest, struct launch_device *device, struct launch *launch,
		 uint64_t until_ns);

/* Ends the pause, if one is on. Any thread. */
void stall_end(struct launch_device *device);

/* For the monitor thread: ends those that are over. Answers when to look again; UINT64_MAX. */
uint64_t stall_look(struct guest *guest, uint64_t now_ns);

/* Around a call that may end a context: its word is not touched meanwhile. */
void stall_context_leaves(struct launch_device *device, CUcontext context);
void stall_context_left(struct launch_device *device, CUcontext context, bool gone);

static inline bool stall_is_on(const struct stall *stall)
{
	return atomic_load_explicit(&stall->on, memory_order_relaxed);
}

/* No work begins on the device before this instant at least: that one, or the end of the pause. */
static inline uint64_t stall_end_ns(const struct stall *stall, uint64_t at_ns)
{
	uint64_t until = stall_is_on(stall) ? atomic_load(&stall->until_ns) : 0;

	return at_ns > until ? at_ns : until;
}

#endif
