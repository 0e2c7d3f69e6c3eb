/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/leave.h"

#include <sched.h>

#include "base/now.h"
#include "base/number.h"
#include "guest/meter/collect.h"
#include "guest/meter/meter.h"

/* --- A stream ------------------------------------------------------------------------------ */

/* Another thread that is about to record does so in a moment; one that was cancelled never does. */
static void leave_await_records(const struct stream *stream)
{
	int patience = 100000;

	for (int i = 0; i < STREAM_EVENTS; i++)
		while (atomic_load(&stream->event[i].state) == EVENT_RESERVED && patience--)
			sched_yield();
}

void leave_stream_before(struct meter *meter, CUcontext context, CUstream handle)
{
	struct stream *stream;

	meter_close(meter, context, handle, METER_HOLD);
	meter_lock(meter);
	stream = meter_stream_of(meter, context, launch_stream_key(handle));
	if (stream)
		stream->leaving++;
	meter_unlock(meter);
	if (stream)
		leave_await_records(stream);
}

void leave_stream_after(struct meter *meter, CUcontext context, CUstream handle, bool gone)
{
	struct stream *stream;

	meter_lock(meter);
	stream = meter_stream_of(meter, context, launch_stream_key(handle));
	if (stream && stream->leaving) {
		stream->leaving--;
		if (gone)
			stream->key = 0;
	}
	meter_unlock(meter);
}

/* --- A context ----------------------------------------------------------------------------- */

/* A collecting thread is inside a query for a moment. */
static void leave_claim(struct meter *meter)
{
	while (atomic_exchange(&meter->collecting, 1))
		nap_ns(20000);
}

void leave_context_before(struct meter *meter, CUcontext context)
{
	meter_close_all(meter, context, METER_HOLD);
	collect_done(meter); /* what is done by now is known exactly */
	leave_claim(meter);
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == context)
			meter->stream[i].leaving++;
	meter_unlock(meter);
	atomic_store(&meter->collecting, 0);
}

/*
 * The events died with their context. The thread that ended it waited for the work in it, so the
 * device worked until then at the latest. For work that had not begun at the last look the
 * beginning is unknown: it was late rather than early.
 */
static void leave_forget_stream(struct meter *meter, struct stream *stream, uint64_t now_ns)
{
	const struct timing_event *event = &stream->event[stream->head % STREAM_EVENTS];
	uint32_t events = stream->tail - stream->head;
	uint64_t began = 0, lost = 0;

	meter_lock(meter);
	stream_count(meter, stream);
	stream_park(meter, stream, false);
	if (events && event->begin)
		lost = event->recorded_ns;
	else if (events)
		began = meter_began_ns(stream, event->loaded_ns);
	for (; stream->head != stream->tail; stream->head++)
		stream_drop(meter, &stream->event[stream->head % STREAM_EVENTS]);
	stream_land(meter, stream, stream->flying_ns);
	stream_await(meter, stream, false);
	stream->open = (struct burst){0};
	stream->key = 0;
	meter_unlock(meter);
	if (began)
		collect_bill(meter, &(struct span){began, now_ns, false});
	if (lost)
		collect_bill_unmeasured(meter,
				      lost > now_ns - DEVICE_TIME_UNMEASURED_NS
					      ? lost
					      : now_ns - DEVICE_TIME_UNMEASURED_NS,
				      now_ns);
	atomic_fetch_sub(&meter->pending, events); /* not before, as in collect_done */
}

static void leave_forget_context(struct meter *meter, CUcontext context)
{
	uint64_t now = now_monotonic_ns();

	leave_claim(meter);
	for (uint32_t i = 0; i < word_read(&meter->nstreams); i++)
		if (meter->stream[i].context == context)
			leave_forget_stream(meter, &meter->stream[i], now);
	meter_lock(meter);
	for (int i = 0; i < CLOCKS; i++)
		if (meter->clock[i].context == context)
			meter->clock[i] = (struct clock){.context = NULL};
	meter_unlock(meter);
	atomic_store(&meter->collecting, 0);
}

void leave_context_after(struct meter *meter, CUcontext context, bool gone)
{
	if (gone)
		leave_forget_context(meter, context);
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == context && meter->stream[i].leaving)
			meter->stream[i].leaving--;
	meter_unlock(meter);
}

/* --- The process --------------------------------------------------------------------------- */

/*
 * No call of the driver here: the program's exit may have shut it down. Work that was seen goes on
 * the bill up to when it was seen, and the rest, of which nobody knows, counts as not measured.
 */
void leave_process(struct meter *meter)
{
	uint64_t now = now_monotonic_ns(), latest = 0;
	struct span seen;

	if (atomic_exchange(&meter->collecting, 1))
		return;
	seen = meter->seen;
	meter->seen = (struct span){0};
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++) {
		const struct stream *stream = &meter->stream[i];

		if (!stream_is_closed(stream) && stream->launched_ns > latest)
			latest = stream->launched_ns;
	}
	meter_unlock(meter);
	if (seen.to_ns)
		collect_bill(meter, &seen);
	latest = max_u64(latest, seen.to_ns);
	if (latest)
		collect_bill_unmeasured(meter, latest, now);
	atomic_store(&meter->collecting, 0);
}
