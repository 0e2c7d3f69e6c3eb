/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter: how long a device worked for this process. A bill is the time between a measured
 * beginning and a measured end, timing events in the program's own streams (stream.h). An end is
 * recorded
 *
 * - where the program waits: before it synchronizes, asks or records an event, copies to or from
 *   the host, or has a stream wait for something else (meter_close), unless it will tell itself
 *   when it is back (meter_waited);
 * - behind the first launch that is TUNING_END_NS after the last end in its stream, so that a
 *   stream which nobody waits for is measured, too;
 * - where the launch side holds a launch, in all streams (meter_hold).
 *
 * A program may wait in a way that the meter does not see. Work that is left open in this way is
 * billed for at most DEVICE_TIME_UNMEASURED_NS and counted apart. From then on the end of each
 * launch in that stream is measured, until the program waited for it several times in a way that is
 * seen.
 *
 * Only threads of the program record, into streams that they just used, and never while a stream
 * captures. Any thread collects; one at a time, the others continue. No lock is held over a call of
 * the driver. The meter does not decide about launches: it tells the launch side its findings by
 * the functions of struct meter_client.
 */
#ifndef ALLOT_GUEST_METER_METER_H
#define ALLOT_GUEST_METER_METER_H

#include "guest/meter/state.h"

/* True if its stream captures: then it is not metered. */
bool meter_is_captured(CUstream stream);

/* True if anything was launched in a context, or into one of its streams. Takes the lock. */
bool meter_knows(struct meter *meter, CUcontext context);
bool meter_has_stream(struct meter *meter, CUcontext context, CUstream stream);

/* The stream of a launch, if it was used before; NULL. With the lock. */
struct stream *meter_stream_of(struct meter *meter, CUcontext context, uint64_t key);

/* With the lock: adds a burst of launches in flight, behind the last event of their stream. */
void meter_add(struct meter *meter, struct stream *stream, const struct burst *burst,
	       uint64_t first_ns, uint64_t last_ns);

/* Around the driver's call of a launch that may go. */
void meter_begin(struct launch *launch);
void meter_end(struct launch *launch, CUresult e);

/* Why what is open in a stream is closed. */
enum meter_why {
	METER_WAIT,  /* the program waits until it is done; meter_waited follows */
	METER_ASK,   /* it asks, or waits in a way of which nobody says when it is over */
	METER_MARK,  /* the program records an event, to wait for that */
	METER_HOLD,  /* a launch is held */
	METER_COPY,  /* a brief copy to or from the host follows */
	METER_COPIED, /* the same, and it is done when the driver returns; meter_waited follows */
	METER_SPLIT, /* the device may wait here, or do what is not charged: what follows begins anew */
	METER_PARK,  /* the same, and what it waits for is the program, or nobody knows what */
};
/* The program comes back when what is open is done, and says so. */
static inline bool meter_is_told(enum meter_why why)
{
	return why == METER_WAIT || why == METER_COPIED;
}

/* The program wants to know of all that it launched, and launches nothing before. */
static inline bool meter_is_asked(enum meter_why why)
{
	return why == METER_WAIT || why == METER_ASK;
}

void meter_close(struct meter *meter, CUcontext context, CUstream stream, enum meter_why why);
/*
 * The same where the stream is about to wait for the program: also if nothing was launched into it
 * yet. Its context is the current one.
 */
void meter_park(struct meter *meter, CUcontext context, CUstream stream);
/*
 * A wait for the program behind which nothing was launched has no event behind it that says when it is
 * over: before something follows, the driver is asked for the stream. Its context is the current one.
 */
void meter_ask_park(struct meter *meter, CUcontext context, CUstream stream);
/* True if any stream of the device may wait for the program. Takes the lock. */
bool meter_any_blocks(struct meter *meter);
/* The obstacle between a launch and the device. */
enum meter_standing {
	METER_FREE,
	METER_PARKED,  /* a wait for the program: the device can begin nothing behind it */
	METER_LATCHED, /* that, and a wait for us behind it, see launch/latch.h */
};
/* For a launch that is about to go: its context, stream_key and latches are read. Takes the lock. */
enum meter_standing meter_stands(struct meter *meter, const struct launch *launch);
/* The same for all of a context. */
void meter_close_all(struct meter *meter, CUcontext context, enum meter_why why);
/*
 * The same because a launch in this context is held, for whatever is open: in other contexts, too,
 * unless somebody just looks at their events.
 */
void meter_hold(struct meter *meter, CUcontext context);
/* When this thread last closed something: what follows waits for what was launched by then. */
uint64_t meter_asked_ns(void);
/*
 * After meter_close or meter_close_all at `asked_ns`: the program waited for a stream, or for all
 * of a context, and what was open there then is done by now. Where no event was recorded that is
 * the end that is measured.
 */
void meter_waited(struct meter *meter, CUcontext context, CUstream stream, bool all,
		  uint64_t asked_ns, uint64_t now_ns);
/* After that and a collection: where an event told the end, it tells how late the program knew. */
void meter_learn_prompt(struct meter *meter, CUcontext context, CUstream stream, bool all,
			uint64_t asked_ns, uint64_t now_ns);
/* True if something is open that was launched by `asked_ns`. */
bool meter_is_open(struct meter *meter, CUcontext context, CUstream stream, uint64_t asked_ns);

#endif
