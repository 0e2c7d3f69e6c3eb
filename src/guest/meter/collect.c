/* SPDX-License-Identifier: Apache-2.0 */
/* The half of the meter that looks which events are done, and bills what lies between them. */
#include <time.h>

#include "base/now.h"
#include "guest/meter/meter_priv.h"
#include "sched/tuning.h"

/* Intervals found in one pass, before they are billed. */
#define SPANS 64

struct pass {
	struct meter *meter;
	struct meter_look look;
	uint64_t running_ns; /* since when anything works that is not done */
	uint64_t lost_ns;    /* since when something may have worked whose beginning is not known */
	uint32_t events;     /* done with */
	int n;
	struct span span[SPANS];
};

void meter_bill(struct meter *meter, const struct span *span)
{
	uint64_t from = span->from_ns, last = atomic_peek(&meter->billed_ns), busy;

	if (!span->apart && from > last && from < last + TUNING_GAP_NS)
		from = last;
	atomic_raise_u64(&meter->billed_ns, span->to_ns);
	busy = device_time_bill(meter->guest->ledger, meter->device->ledger, from, span->to_ns);
	if (busy)
		meter->client->billed(meter, span->to_ns - busy, span->to_ns);
}

void meter_bill_unmeasured(struct meter *meter, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t busy = device_time_bill_unmeasured(meter->guest->ledger, meter->device->ledger,
						    from_ns, to_ns);

	if (busy)
		meter->client->billed(meter, from_ns, from_ns + busy);
}

static void collect_sort(struct span *span, int n)
{
	for (int i = 1; i < n; i++) {
		struct span one = span[i];
		int k = i;

		for (; k > 0 && span[k - 1].from_ns > one.from_ns; k--)
			span[k] = span[k - 1];
		span[k] = one;
	}
}

/* What streams did at once counts once: exactly here, and over passes by the ledger's timeline. */
static void collect_bill_all(struct pass *pass)
{
	struct span together;

	if (!pass->n)
		return;
	collect_sort(pass->span, pass->n);
	together = pass->span[0];
	for (int i = 0; i < pass->n; i++) {
		const struct span *span = &pass->span[i];

		pass->look.streams_ns += span->to_ns - span->from_ns;
		if (span->from_ns > together.to_ns) {
			pass->look.together_ns += together.to_ns - together.from_ns;
			meter_bill(pass->meter, &together);
			together = *span;
		} else if (span->to_ns > together.to_ns) {
			together.to_ns = span->to_ns;
		}
	}
	pass->look.together_ns += together.to_ns - together.from_ns;
	meter_bill(pass->meter, &together);
	pass->n = 0;
}

static void collect_add(struct pass *pass, const struct span *span)
{
	if (span->to_ns <= span->from_ns)
		return;
	if (pass->n == SPANS)
		collect_bill_all(pass);
	pass->span[pass->n++] = *span;
}

/*
 * When what an end closes began; 0: nobody knows. Loading code is a pause of the program's own, of
 * which a short one is billed as any.
 */
static uint64_t collect_began_ns(const struct stream *stream, const struct timing_event *event)
{
	uint64_t since = stream->since_ns, loaded = event->loaded_ns;

	return loaded && (!since || loaded > since + TUNING_GAP_NS) ? loaded : since;
}

/*
 * What an end closes was done at an instant; 0: nobody knows. Answers when it began, less what it
 * waited for us; 0: it could not be measured.
 */
static uint64_t collect_bill_end(struct pass *pass, const struct stream *stream,
				 struct timing_event *event, uint64_t done_ns)
{
	struct meter *meter = pass->meter;
	uint64_t began = collect_began_ns(stream, event), spun = 0;

	if (!event->burst.launches || !began || !done_ns) {
		if (event->burst.launches)
			meter_bill_unmeasured(meter, event->recorded_ns, pass->look.now_ns);
		return 0;
	}
	if (done_ns > began)
		spun = meter->client->spun(meter, &event->burst, began, done_ns);
	if (spun) /* how long it took says nothing of the next one */
		event->burst.launches = 0;
	collect_add(pass, &(struct span){began + spun, done_ns, spun || stream->apart});
	return began + spun;
}

/* The event at the head of the ring is done with, at an instant; 0: nobody knows when. */
static void collect_pop(struct pass *pass, struct stream *stream, uint64_t done_ns)
{
	struct meter *meter = pass->meter;
	struct timing_event *event = &stream->event[stream->head % STREAM_EVENTS];
	uint64_t since = stream->since_ns, began = 0;
	CUevent spent = NULL;

	/* Of another stream that had the same handle, or by a clock that was moved. */
	if (done_ns && done_ns < since)
		done_ns = since;
	if (!event->begin)
		began = collect_bill_end(pass, stream, event, done_ns);
	if (done_ns > pass->look.done_ns)
		pass->look.done_ns = done_ns;
	meter_lock(meter);
	if (event->begin)
		atomic_fetch_sub(&meter->begins, 1);
	else
		stream_land(meter, stream, event->burst.expected_ns);
	if (began && done_ns > began)
		meter->client->done(meter, stream, &event->burst, began, done_ns);
	if (done_ns || event->begin || event->burst.launches) { /* a cancelled end says nothing */
		stream->since_ns = done_ns;
		stream->apart = event->paused;
	}
	if (!clock_give(&meter->clock[stream->clock], event->event))
		spent = event->event;
	event->event = NULL;
	atomic_store(&event->state, EVENT_FREE);
	stream->head++;
	meter_unlock(meter);
	if (spent)
		DRIVER(cuEventDestroy_v2, (spent));
	pass->events++;
}

/* The event at the head is not done: the stream works on what is before it, or waits to begin. */
static void collect_note_running(struct pass *pass, const struct stream *stream,
				 const struct timing_event *event)
{
	uint64_t began = collect_began_ns(stream, event), expected = event->burst.expected_ns, late;

	if (event->begin || !began || began >= pass->look.now_ns)
		return;
	if (began < pass->running_ns)
		pass->running_ns = began;
	late = pass->look.now_ns - began;
	if (!pass->look.late_ns ||
	    late + pass->look.late_expected_ns > pass->look.late_ns + expected) {
		pass->look.late_ns = late;
		pass->look.late_expected_ns = expected;
	}
}

static void collect_stream(struct pass *pass, struct stream *stream)
{
	struct clock *clock = &pass->meter->clock[stream->clock];
	CUcontext current = NULL;
	bool pushed;

	DRIVER(cuCtxGetCurrent, (&current));
	pushed = current != stream->context && !DRIVER(cuCtxPushCurrent_v2, (stream->context));
	while (stream->head != atomic_peek(&stream->tail)) {
		struct timing_event *event = &stream->event[stream->head % STREAM_EVENTS];
		uint32_t state = atomic_load_explicit(&event->state, memory_order_acquire);
		uint64_t done = 0;

		if (state == EVENT_RESERVED)
			break;
		if (state == EVENT_RECORDED &&
		    meter_clock_read(pass->meter, clock, event, &done) == CUDA_ERROR_NOT_READY) {
			collect_note_running(pass, stream, event);
			break;
		}
		collect_pop(pass, stream, done);
	}
	if (pushed)
		DRIVER(cuCtxPopCurrent_v2, (&current));
}

void meter_collect(struct meter *meter)
{
	struct pass pass = {.meter = meter, .running_ns = UINT64_MAX};
	struct capture_mode mode;
	uint32_t n;

	if (!atomic_load(&meter->pending) || atomic_exchange(&meter->collecting, 1))
		return;
	pass.look.now_ns = now_monotonic_ns();
	mode = capture_relax();
	n = atomic_peek(&meter->nstreams);
	for (uint32_t i = 0; i < n; i++) {
		struct stream *stream = &meter->stream[i];

		if (stream->head != atomic_peek(&stream->tail) && stream->clock >= 0 &&
		    !atomic_peek(&stream->leaving))
			collect_stream(&pass, stream);
	}
	capture_restore(mode);
	collect_bill_all(&pass);
	/* Not before the bill: a thread that finds nothing in flight looks at the account next. */
	atomic_fetch_sub(&meter->pending, pass.events);
	meter->seen = (struct span){0};
	if (pass.running_ns != UINT64_MAX)
		meter->seen = (struct span){pass.running_ns, pass.look.now_ns};
	meter_lock(meter);
	meter->client->looked(meter, &pass.look);
	meter_unlock(meter);
	atomic_store(&meter->collected_ns, now_monotonic_ns());
	atomic_store(&meter->collecting, 0);
}

/*
 * No call of the driver here: the program's exit may have shut it down. What was seen to work goes
 * on the bill up to when it was seen, and the rest, of which nobody knows, counts as not measured.
 */
void meter_end_all(struct meter *meter)
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
		meter_bill(meter, &seen);
	latest = latest > seen.to_ns ? latest : seen.to_ns;
	if (latest)
		meter_bill_unmeasured(meter, latest, now);
	atomic_store(&meter->collecting, 0);
}

/* Whoever collects is inside a query for a moment. */
static void collect_claim(struct meter *meter)
{
	while (atomic_exchange(&meter->collecting, 1))
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void meter_context_leaves(struct meter *meter, CUcontext context)
{
	meter_close_all(meter, context, METER_HOLD);
	meter_collect(meter); /* what is done by now is known exactly */
	collect_claim(meter);
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == context)
			meter->stream[i].leaving++;
	meter_unlock(meter);
	atomic_store(&meter->collecting, 0);
}

/*
 * With the lock: the events died with their context. Who ended it waited for what was in it, so
 * the device worked until then at the latest; of what had not begun when it was last looked at
 * nobody knows since when. Answers how many events there were.
 */
static uint32_t collect_forget_stream(struct pass *pass, struct stream *stream)
{
	uint32_t events = stream->tail - stream->head;
	const struct timing_event *event = &stream->event[stream->head % STREAM_EVENTS];

	stream_count(pass->meter, stream);
	if (events && event->begin)
		pass->lost_ns = event->recorded_ns;
	else if (events && collect_began_ns(stream, event) && pass->n < SPANS)
		pass->span[pass->n++] =
			(struct span){collect_began_ns(stream, event), pass->look.now_ns};
	for (; stream->head != stream->tail; stream->head++)
		if (stream->event[stream->head % STREAM_EVENTS].begin)
			atomic_fetch_sub(&pass->meter->begins, 1);
	stream_land(pass->meter, stream, stream->flying_ns);
	stream->open = (struct burst){0};
	stream->key = 0;
	return events;
}

/* Work that had not begun when it was last looked at was late rather than early. */
static void collect_bill_lost(const struct pass *pass)
{
	uint64_t now = pass->look.now_ns, from = now - DEVICE_TIME_UNMEASURED_NS;

	meter_bill_unmeasured(pass->meter, from > pass->lost_ns ? from : pass->lost_ns, now);
}

static void collect_forget_context(struct meter *meter, CUcontext context)
{
	struct pass pass = {.meter = meter};
	uint32_t events = 0;

	collect_claim(meter);
	pass.look.now_ns = now_monotonic_ns();
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == context)
			events += collect_forget_stream(&pass, &meter->stream[i]);
	for (int i = 0; i < CLOCKS; i++)
		if (meter->clock[i].context == context)
			meter->clock[i] = (struct clock){.context = NULL};
	meter_unlock(meter);
	collect_bill_all(&pass);
	if (pass.lost_ns)
		collect_bill_lost(&pass);
	atomic_fetch_sub(&meter->pending, events); /* not before, as in meter_collect */
	atomic_store(&meter->collecting, 0);
}

void meter_context_left(struct meter *meter, CUcontext context, bool gone)
{
	if (gone)
		collect_forget_context(meter, context);
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == context && meter->stream[i].leaving)
			meter->stream[i].leaving--;
	meter_unlock(meter);
}
