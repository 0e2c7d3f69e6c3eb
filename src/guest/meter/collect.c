/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/collect.h"

#include "base/now.h"
#include "base/number.h"
#include "guest/core/host_nodes.h"
#include "guest/meter/capture.h"
#include "guest/meter/contexts.h"

/* Intervals found in one pass, before they are billed. */
#define SPANS 64

struct pass {
	struct meter *meter;
	struct meter_look look;
	uint64_t running_ns; /* since when anything works that is not done */
	uint32_t events;     /* done with */
	int n;
	struct span span[SPANS];
};

void collect_bill(struct meter *meter, const struct span *span)
{
	uint64_t from = span->from_ns, last = word_read(&meter->billed_ns), busy;

	if (!span->apart && from > last && from < last + TUNING_GAP_NS)
		from = last;
	word_raise_u64(&meter->billed_ns, span->to_ns);
	busy = device_time_bill(meter->guest->ledger, meter->device->ledger, from, span->to_ns);
	if (busy)
		meter->client->billed(meter, span->to_ns - busy, span->to_ns);
}

void collect_bill_unmeasured(struct meter *meter, uint64_t from_ns, uint64_t to_ns)
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

/*
 * Work of several streams at once counts once: exactly here, and over passes by the ledger's
 * timeline.
 */
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
			collect_bill(pass->meter, &together);
			together = *span;
		} else if (span->to_ns > together.to_ns) {
			together.to_ns = span->to_ns;
		}
	}
	pass->look.together_ns += together.to_ns - together.from_ns;
	collect_bill(pass->meter, &together);
	pass->n = 0;
}

/* Another tenant may have had the device for a part of it. */
static void collect_add(struct pass *pass, struct span span)
{
	struct span part = span;

	while (overtime_next(&pass->meter->overtime, &span.from_ns, span.to_ns, &part.from_ns,
			     &part.to_ns)) {
		if (pass->n == SPANS)
			collect_bill_all(pass);
		if (part.from_ns < part.to_ns)
			pass->span[pass->n++] = part;
		part.apart = true;
	}
}

/*
 * The thread lost its processor between a launch and its event, which the device then found with
 * nothing before it: the work was over sooner.
 */
static bool collect_is_late(const struct timing_event *event, uint64_t done_ns)
{
	return event->handed_ns > max_u64(event->recorded_ns, event->loaded_ns) + TUNING_GAP_NS &&
	       done_ns < event->handed_ns + TUNING_PROMPT_NS;
}

/* When a burst waited for the program in the middle of a graph, in a time. Returns how often. */
static int collect_waits(const struct burst *burst, uint64_t from_ns, uint64_t to_ns,
			 struct host_time host[HOST_TIMES])
{
	return burst->waits ? host_nodes_between(burst->waits, from_ns, to_ns, host) : 0;
}

static void collect_waits_end(const struct burst *burst)
{
	if (burst->waits)
		host_nodes_read();
}

/*
 * An instant of a wait in the middle of a graph, by its event if that lies between `least` and
 * `most`: it does not where the graph was launched again since.
 */
static uint64_t collect_wait_ns(const struct pass *pass, const struct stream *stream, CUevent event,
				uint64_t least, uint64_t most, uint64_t else_ns)
{
	uint64_t at = event ? clock_ask(&pass->meter->clock[stream->clock], event) : 0;

	return at >= least && at <= most ? at : else_ns;
}

/* Adds what a burst did, but for the time in which it waited. Returns the sum of that time. */
static uint64_t collect_add_between(struct pass *pass, const struct stream *stream,
				    const struct burst *burst, struct span span)
{
	struct host_time host[HOST_TIMES];
	uint64_t waited = 0, off, on;
	int n = collect_waits(burst, span.from_ns, span.to_ns, host);

	for (int i = 0; i < n; i++) {
		off = collect_wait_ns(pass, stream, host[i].event[0], span.from_ns,
				      host[i].from_ns, host[i].from_ns);
		on = collect_wait_ns(pass, stream, host[i].event[1], host[i].to_ns, span.to_ns,
				     host[i].to_ns);
		collect_add(pass, (struct span){span.from_ns, off, span.apart});
		span.from_ns = on;
		span.apart = true;
		waited += on - off;
	}
	collect_waits_end(burst);
	collect_add(pass, span);
	return waited;
}

/*
 * Bills the work before an end that was done at `done_ns`; 0: not known. Returns when it began,
 * plus its waits for us or for the program; 0: it could not be measured.
 */
static uint64_t collect_bill_end(struct pass *pass, const struct stream *stream,
				 struct timing_event *event, uint64_t done_ns)
{
	struct meter *meter = pass->meter;
	uint64_t began = meter_began_ns(stream, event->loaded_ns), spun = 0, waited;

	if (!event->burst.launches || !began || !done_ns) {
		if (event->burst.launches)
			collect_bill_unmeasured(meter, event->recorded_ns, pass->look.now_ns);
		return 0;
	}
	if (done_ns > began)
		spun = meter->client->spun(meter, &event->burst, began, done_ns);
	/* How long it took says nothing of the next one. */
	if (spun || collect_is_late(event, done_ns))
		event->burst.launches = 0;
	waited = collect_add_between(pass, stream, &event->burst,
				     (struct span){began + spun, done_ns, spun || stream->apart});
	return began + spun + waited;
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
	stream->wants = 0;
	if (stream->parked) {
		stream_park(meter, stream, false);
		meter->client->released(meter, stream, done_ns ? done_ns : pass->look.now_ns);
	}
	stream_drop(meter, event);
	if (!event->begin)
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

/* A stream works on what began then and is not done. */
static void collect_note_running(struct pass *pass, uint64_t began_ns, uint64_t expected_ns)
{
	uint64_t late;

	if (!began_ns || began_ns >= pass->look.now_ns)
		return;
	pass->running_ns = min_u64(pass->running_ns, began_ns);
	pass->look.next_ns += expected_ns;
	late = pass->look.now_ns - began_ns;
	if (!pass->look.late_ns ||
	    late + pass->look.late_expected_ns > pass->look.late_ns + expected_ns) {
		pass->look.late_ns = late;
		pass->look.late_expected_ns = expected_ns;
	}
}

/* No event: the program waits for what is open. */
static void collect_note_awaited(struct pass *pass, struct stream *stream)
{
	meter_lock(pass->meter);
	if (stream->awaited)
		collect_note_running(pass, meter_began_ns(stream, stream->loaded_ns),
				     stream->open.expected_ns);
	meter_unlock(pass->meter);
}

/* When the event at the head of the ring, an end, began, less what it has waited for the program. */
static uint64_t collect_began(const struct pass *pass, const struct stream *stream,
			      const struct timing_event *event)
{
	uint64_t began = meter_began_ns(stream, event->loaded_ns);
	struct host_time host[HOST_TIMES];
	int n;

	if (!began)
		return 0;
	n = collect_waits(&event->burst, began, pass->look.now_ns, host);
	for (int i = 0; i < n; i++)
		began += host[i].to_ns - host[i].from_ns;
	collect_waits_end(&event->burst);
	return began;
}

/*
 * Does the stream wait for the program, before a beginning or in the middle of a graph? Not every wait
 * of a graph is seen: one that takes so much longer than expected is taken to wait.
 */
static bool collect_is_blocked(const struct pass *pass, const struct timing_event *event,
			       uint64_t began_ns)
{
	return event->blocked ||
	       (event->burst.waits && began_ns &&
		(host_nodes_run(event->burst.waits) ||
		 pass->look.now_ns > began_ns + TUNING_AWAITED_NS + 2 * event->burst.expected_ns));
}

/* A host function in the middle of its graph is over. */
static void collect_release(struct pass *pass, struct stream *stream)
{
	meter_lock(pass->meter);
	stream_park(pass->meter, stream, false);
	pass->meter->client->released(pass->meter, stream, pass->look.now_ns);
	meter_unlock(pass->meter);
}

/* The event at the head of the ring is not done. Work that waits to begin does not run. */
static void collect_note_pending(struct pass *pass, struct stream *stream,
				 const struct timing_event *event)
{
	uint64_t began = event->begin ? 0 : collect_began(pass, stream, event);

	if (!collect_is_blocked(pass, event, began)) {
		collect_note_running(pass, began, event->burst.expected_ns);
		if (stream->parked)
			collect_release(pass, stream);
		return;
	}
	meter_lock(pass->meter);
	stream_park(pass->meter, stream, true);
	stream->wants = event->latch;
	meter_unlock(pass->meter);
	if (event->latch)
		atomic_store(&pass->meter->wanting, true);
}

static void collect_stream(struct pass *pass, struct stream *stream)
{
	struct clock *clock = &pass->meter->clock[stream->clock];
	CUcontext current = NULL;
	bool pushed;

	DRIVER(cuCtxGetCurrent, (&current));
	pushed = current != stream->context && !DRIVER(cuCtxPushCurrent_v2, (stream->context));
	while (stream->head != word_read(&stream->tail)) {
		struct timing_event *event = &stream->event[stream->head % STREAM_EVENTS];
		uint32_t state = atomic_load_explicit(&event->state, memory_order_acquire);
		uint64_t done = 0;

		if (state == EVENT_RESERVED)
			break;
		if (state == EVENT_RECORDED &&
		    contexts_read(pass->meter, clock, event, &done) == CUDA_ERROR_NOT_READY) {
			collect_note_pending(pass, stream, event);
			break;
		}
		collect_pop(pass, stream, done);
	}
	if (pushed)
		DRIVER(cuCtxPopCurrent_v2, (&current));
}

void collect_done(struct meter *meter)
{
	struct pass pass = {.meter = meter, .running_ns = UINT64_MAX};
	struct capture_mode mode;
	uint32_t n;

	if (!atomic_load(&meter->pending) || atomic_exchange(&meter->collecting, 1))
		return;
	pass.look.now_ns = now_monotonic_ns();
	overtime_look(&meter->overtime, meter->client->ended(meter, pass.look.now_ns),
		      pass.look.now_ns);
	mode = capture_relax();
	n = word_read(&meter->nstreams);
	for (uint32_t i = 0; i < n; i++) {
		struct stream *stream = &meter->stream[i];

		if (stream->head != word_read(&stream->tail) && stream->clock >= 0 &&
		    !word_read(&stream->leaving))
			collect_stream(&pass, stream);
		else if (word_read(&stream->awaited))
			collect_note_awaited(&pass, stream);
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
