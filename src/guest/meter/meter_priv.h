/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the meter share. */
#ifndef ALLOT_GUEST_METER_METER_PRIV_H
#define ALLOT_GUEST_METER_METER_PRIV_H

#include "guest/meter/capture.h"
#include "guest/meter/meter.h"

static inline void meter_lock(struct meter *meter)
{
	lock_take(&meter->lock);
}

static inline void meter_unlock(struct meter *meter)
{
	lock_drop(&meter->lock);
}

/* With the lock: launches that were let through on credit are counted by now. */
static inline void stream_count(struct meter *meter, struct stream *stream)
{
	if (stream->credit.given)
		meter->client->count(meter, stream);
}

/* With the lock: so much is not in flight any more. */
static inline void stream_land(struct meter *meter, struct stream *stream, uint64_t expected_ns)
{
	uint64_t of_stream = stream->flying_ns < expected_ns ? stream->flying_ns : expected_ns;

	stream->flying_ns -= of_stream;
	meter->flying_ns -= meter->flying_ns < of_stream ? meter->flying_ns : of_stream;
}

/*
 * The clock of the current context, made if need be, with spare events. -1: the driver refuses, or
 * all clocks are of contexts that work. Takes the lock.
 */
int meter_clock_ready(struct meter *meter, CUcontext context, uint64_t now_ns);

/* clock_read for the collecting thread, with the clock's context current. */
CUresult meter_clock_read(struct meter *meter, struct clock *clock, struct timing_event *event,
			  uint64_t *ret_ns);

/*
 * The process's work, with a brief pause before it, in which nothing worked in any stream; and work
 * whose end nobody measured. Any thread, without the lock.
 */
void meter_bill(struct meter *meter, const struct span *span);
void meter_bill_unmeasured(struct meter *meter, uint64_t from_ns, uint64_t to_ns);

#endif
