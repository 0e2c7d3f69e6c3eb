/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the meter share. */
#ifndef ALLOT_GUEST_METER_METER_PRIV_H
#define ALLOT_GUEST_METER_METER_PRIV_H

#include "guest/meter/meter.h"

/* Calls that capturing threads forbid endanger no capture here: ours are about our events. */
struct capture_mode {
	CUstreamCaptureMode saved;
};

static inline struct capture_mode capture_relax(void)
{
	struct capture_mode mode = {CU_STREAM_CAPTURE_MODE_RELAXED};

	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode.saved));
	return mode;
}

static inline void capture_restore(struct capture_mode mode)
{
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode.saved));
}

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
 * The process's work, with a brief pause before it, in which nothing worked in any stream; and work
 * whose end nobody measured. Any thread, without the lock.
 */
void meter_bill(struct meter *meter, const struct span *span);
void meter_bill_unmeasured(struct meter *meter, uint64_t from_ns, uint64_t to_ns);

#endif
