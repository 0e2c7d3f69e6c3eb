/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches. Where a stream of a tenant with rivals waits for the program, a second wait follows, for
 * the tenant's turn. Without it the work behind would begin in a rival's turn when the program's wait
 * is over then, and its bill would include the rival's kernels.
 *
 *	stream	 the program's wait | begin event | our wait ....... | begin event, work
 *	monitor			     sees that, wants the turn, has it: writes the word
 *
 * A word is a stream's; a context has as many as there are places for streams. Nothing waits for a
 * word that will not be written: the end of a context, or of the process, writes all of them first.
 */
#ifndef ALLOT_GUEST_LAUNCH_LATCH_H
#define ALLOT_GUEST_LAUNCH_LATCH_H

#include "guest/launch/state.h"

/*
 * Before a stream is to wait for the program: makes the words of the current context, if it has none
 * yet and no stream of the device waits so. For pinned memory the driver may wait for all streams.
 */
void latch_prepare(struct launch_device *device, CUcontext context);

/* Returns true if a launch behind a wait for the program may have a latch before it. */
bool latch_may(const struct launch_state *state, struct launch_device *device,
	       const struct launch *launch);

/* For struct meter_client: queues our wait. */
void latch_queue(struct meter *meter, struct stream *stream, uint32_t number);

/* Likewise: where that cannot be measured nobody would write the word, so the context's are opened. */
void latch_undo(struct meter *meter, struct stream *stream);

/* Writes the words of streams that wait for us, if the tenant may work now. For the monitor. */
void latch_look(struct launch_device *device, uint64_t now_ns);

/* Opens all of them. Before the process ends. */
void latch_open_all(struct launch_device *device);

/*
 * A call that may end a context opens its words, and no thread touches them while it is under way:
 * they go with the context. Another one may get its handle then.
 */
void latch_context_leaves(struct launch_device *device, CUcontext context);
void latch_context_left(struct launch_device *device, CUcontext context, bool gone);

#endif
