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

#include "guest/launch/state.h"

/* The tenant owes nothing before then: may the launch be queued behind a wait of its stream? */
bool stall_may(const struct launch_state *state, struct launch_device *device,
	       const struct launch *launch, uint64_t until_ns);

/* Queues the wait. False: it cannot be; the launch is to be held. */
bool stall_begin(struct guest *guest, struct launch_device *device, struct launch *launch,
		 uint64_t until_ns);

/* Ends the pause, if one is on. Any thread. */
void stall_end(struct launch_device *device);

/* Around a call that may end a context: its word is not touched meanwhile. */
void stall_context_leaves(struct launch_device *device, CUcontext context);
void stall_context_left(struct launch_device *device, CUcontext context, bool gone);

#endif
