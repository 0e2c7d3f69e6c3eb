/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit: a launch that asked and may go lets later launches through, for a moment, as long as
 * nothing more is billed and the window has room. The terms are the device's. A launch into the
 * same stream, of known cost, does not take the meter's lock either: it takes its part of the
 * stream's credit, one word, and the next holder of the lock counts it.
 */
#ifndef ALLOT_GUEST_LAUNCH_CREDIT_H
#define ALLOT_GUEST_LAUNCH_CREDIT_H

#include "guest/launch/state.h"

/* The launch may go beside `room_ns` in flight, with nothing owed as of bill number `bills`. */
void credit_give(struct launch_device *device, const struct launch *launch, uint64_t room_ns,
		 uint32_t bills, uint64_t until_ns);

/* True if an earlier launch's credit lets this launch through. */
bool credit_lets(const struct launch_state *state, const struct launch_device *device,
		 struct launch *launch);

/* A launch that takes longer than there is room for asks for itself: it may have to go alone. */
bool credit_fits(const struct launch_device *device, const struct launch *launch);

/* ... and whether the stream's credit has room for it: then it is counted. */
bool credit_take(struct launch *launch);

/* The launch was counted by the meter: what may follow it in its stream. */
void credit_open(struct launch_device *device, const struct launch *launch);

/* With the meter's lock: counts what took from the stream's credit, which ends. */
void credit_count(struct meter *meter, struct stream *stream);

#endif
