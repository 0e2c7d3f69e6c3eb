/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-flight window: work that was launched and is not known to be done, by the time that it is
 * expected to take. It is bounded, so that a decision takes effect soon. Expectations are learned
 * from what was measured (sched/cost.h); none of them enters a bill; see
 * window_spun for what is left out of one.
 */
#ifndef ALLOT_GUEST_LAUNCH_WINDOW_H
#define ALLOT_GUEST_LAUNCH_WINDOW_H

#include "guest/launch/state.h"

void window_init(struct window *window);

/* For struct meter_client. */
void window_launched(struct meter *meter, struct stream *stream, const struct burst *burst,
		     uint64_t first_ns, uint64_t last_ns);
void window_released(struct meter *meter, struct stream *stream, uint64_t at_ns);
void window_done(struct meter *meter, struct stream *stream, const struct burst *burst,
		 uint64_t began_ns, uint64_t done_ns);
void window_looked(struct meter *meter, const struct meter_look *look);

/*
 * A collective's kernel spins on one device while the launch on another that it waits for is held:
 * the tenant does not pay for its own pause. Work that was done before the other was let go did not
 * wait for it. This is the only bill that depends on an expectation: it limits what is left out for
 * a thread that woke up late.
 */
uint64_t window_spun(struct meter *meter, const struct burst *burst, uint64_t began_ns,
		     uint64_t done_ns);

/* A launch took unforeseen long, or may: for a while neighbours are let in at its seen end only. */
void window_unforeseen(struct launch_device *device, uint64_t now_ns);

/*
 * For how long work is late that may wait for a held launch of this process: work of any process of
 * the tenant, if that finishes nothing, or its own; 0: none is. Of the last collection.
 */
uint64_t window_late_ns(const struct launch_device *device, uint64_t now_ns);

/* Device time that work in flight is expected to take, all of it. */
uint64_t window_pending_ns(struct launch_device *device);

/* When there may be room for a launch in a window of `most_ns`; 0: there is. */
uint64_t window_room_ns(struct launch_device *device, const struct launch *launch, uint64_t most_ns,
			bool spread);

/*
 * Returns true if late work was done as soon as a held launch went, the last time that one did: the
 * next late work is then assumed to wait for a launch, too.
 */
bool window_hands_over(const struct launch_device *device, uint64_t now_ns);

/*
 * A held launch goes in another tenant's turn, to see whether late work of another process of the
 * tenant waits for it, or for one that follows soon. It did if that is over soon after, as the next
 * look at what is late (0: nothing) shows.
 */
bool window_may_try(const struct launch_device *device, uint64_t now_ns);
void window_try(struct launch_device *device, uint64_t now_ns);
void window_see_try(struct launch_device *device, uint64_t late_ns, uint64_t now_ns);

/* After which time a held launch looks again whether work in flight is late, and may wait for it. */
uint64_t window_awaited_look_ns(const struct launch_device *device, uint64_t now_ns);

/* How long before the end of all others a launch may go that is to be the only one; 1: behind it. */
uint64_t window_early_ns(const struct launch_device *device, const struct launch *launch);

/*
 * True if a launch would be done before others in flight, in other streams: then the device works
 * no longer for it.
 */
bool window_fits(struct launch_device *device, const struct launch *launch);

/* True if the launch's stream has nothing in flight, as far as is known. */
bool window_is_idle(struct launch_device *device, const struct launch *launch);

/* A launch that was held goes: work in flight may have waited for it, if nothing stands before it. */
void window_gave_way(struct launch_device *device, const struct launch *launch);

/* True if each pause costs much: launches are short, or several streams work. */
bool window_pauses_badly(const struct launch_device *device);

/* When a stream that is seen to be late is worth another look. */
uint64_t window_look_ns(const struct launch_device *device, uint64_t now_ns);

/*
 * Several processes of a tenant that each launch what takes long: one launch of each at once would
 * be paid for in one pause so long that a second shows now more, now less than the share. So a few
 * have a place at a time, in turns, for no longer than until then.
 */
bool window_take_place(struct launch_device *device, uint64_t now_ns, uint64_t until_ns);

#endif
