/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/meter.h"

#include <errno.h>
#include <time.h>

#include "base/now.h"
#include "base/number.h"
#include "guest/meter/capture.h"
#include "guest/meter/collect.h"
#include "guest/meter/contexts.h"

_Thread_local char launch_thread __attribute__((tls_model("initial-exec")));

static _Thread_local uint64_t meter_asked __attribute__((tls_model("initial-exec")));

/* A launch may need three events, and the wait behind it another. */
#define SPARES 4
/*
 * A program that waits for several streams, one after the other, finds now this stream done, now
 * that one: a single wait in time says little.
 */
#define WATCHED_WAITS	   8
#define WATCHED_WAITS_MOST 512
/* The most waits in a row without an event, however long they take. */
#define UNMARKED_MOST 8
/* How often a launch tries to get room in its stream's ring; work may wait for it, too. */
#define ROOM_TRIES 400

/* Events to be recorded, in this order, once the lock is dropped. */
struct records {
	struct stream *stream;
	int n, index[3];
	uint32_t latch; /* our wait stands before the last of them; 0: there is none */
};

/*
 * A question to the driver before a launch or an end goes into a stream. The thread that has the
 * lock drops it, asks, and looks again: once for each, but for room.
 *
 *	lock	meter_enter(), meter_ask_end()	nothing is to be asked: the change, unlock
 *	unlock	meter_gather()			from the beginning
 */
enum ask {
	ASK_NOTHING,
	ASK_ROOM,   /* in the stream's ring: events that are done leave it */
	ASK_CLOCK,  /* of the context, with spare events */
	ASK_EVENTS, /* which are done: the stream may be idle */
	ASK_STREAM, /* whether all of it is done */
};

struct gathered {
	uint32_t asked; /* a bit for each enum ask */
	uint32_t rooms; /* how often room was asked for */
	int clock;
	bool beside;	      /* see struct stream */
	CUstream handle;      /* that was asked, */
	uint64_t launched_ns; /* when it had its last launch, */
	CUresult query;	      /* and the answer */
};

static bool meter_has_asked(const struct gathered *gathered, enum ask ask)
{
	return gathered->asked >> ask & 1;
}

bool meter_is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	/* An error: another stream captures, and what is launched here will fail. */
	return DRIVER(cuStreamIsCapturing, (stream, &status)) ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool meter_knows(struct meter *meter, CUcontext context)
{
	bool knows = false;

	meter_lock(meter);
	for (uint32_t i = 0; !knows && i < meter->nstreams; i++)
		knows = meter->stream[i].key && meter->stream[i].context == context;
	meter_unlock(meter);
	return knows;
}

struct stream *meter_stream_of(struct meter *meter, CUcontext context, uint64_t key)
{
	int i = stream_find(meter->stream, meter->nstreams, context, key);

	return i < 0 ? NULL : &meter->stream[i];
}

/* With the lock. Where nothing is before it the device stands at the wait, as far as is known. */
static void meter_reserve_begin(struct meter *meter, struct stream *stream,
				struct timing_event *event, uint64_t now_ns)
{
	event->blocked = stream->blocked;
	if (event->blocked && !stream_has_events(stream) && !stream->open.launches)
		stream_park(meter, stream, true);
	if (!stream->parked) {
		atomic_store(&meter->begin_ns, now_ns);
		atomic_fetch_add(&meter->begins, 1);
	}
	stream->again = stream->blocked = false;
	stream->behind = meter->parks;
}

/*
 * With the lock: the next event of a stream is to be recorded: its index, or -EAGAIN while none can
 * be. An end takes what is open with it.
 */
static int meter_reserve_event(struct meter *meter, struct stream *stream, bool begin,
			       uint64_t now_ns)
{
	struct timing_event *event = &stream->event[stream->tail % STREAM_EVENTS];
	CUevent handle;

	if (stream->clock < 0 || atomic_load(&stream->mute) || !stream_room(stream))
		return -EAGAIN;
	handle = clock_take(&meter->clock[stream->clock]);
	if (!handle)
		return -EAGAIN;
	event->event = handle;
	event->begin = begin;
	event->paused = event->blocked = false;
	event->latch = 0;
	event->recorded_ns = now_ns;
	event->loaded_ns = begin ? 0 : stream->loaded_ns;
	event->burst = (struct burst){0};
	atomic_store(&event->state, EVENT_RESERVED);
	if (begin) {
		meter_reserve_begin(meter, stream, event, now_ns);
	} else {
		event->burst = stream->open;
		stream->open = (struct burst){0};
		stream->loaded_ns = 0;
		stream->ended_ns = now_ns;
		stream->unmarked = 0;
		stream_await(meter, stream, false);
	}
	stream_pend(meter, stream, 1);
	return (int)(stream->tail++ % STREAM_EVENTS);
}

static bool meter_record(struct stream *stream, int index, bool ok)
{
	struct timing_event *event = &stream->event[index];
	CUresult e = CUDA_ERROR_UNKNOWN;

	if (ok) {
		struct capture_mode mode = capture_relax();

		e = DRIVER(cuEventRecord, (event->event, stream->handle));
		capture_restore(mode);
		/* Some streams are not ours to measure: another device's, for one. */
		if (e)
			atomic_store(&stream->mute, true);
	}
	event->handed_ns = now_monotonic_ns();
	atomic_store_explicit(&event->state, e ? EVENT_FAILED : EVENT_RECORDED,
			      memory_order_release);
	return !e;
}

static void meter_record_all(struct meter *meter, const struct records *records)
{
	for (int i = 0; i < records->n; i++) {
		bool latch = records->latch && i == records->n - 1;

		if (latch)
			meter->client->latch(meter, records->stream, records->latch);
		if (!meter_record(records->stream, records->index[i], true) && latch)
			meter->client->unlatch(meter, records->stream);
	}
}

static void meter_reserve(struct meter *meter, struct records *records, bool begin, uint64_t now_ns)
{
	int index = meter_reserve_event(meter, records->stream, begin, now_ns);

	if (index >= 0)
		records->index[records->n++] = index;
}

/* With the lock: a new stream at a place that another had. */
static void meter_stream_begin(struct stream *stream, const struct launch *launch, int clock,
			       bool beside)
{
	uint64_t serial = atomic_load(&stream->serial) + 1;
	uint32_t head = stream->head;

	*stream = (struct stream){
		.context = launch->context,
		.key = launch->stream_key,
		.handle = launch->stream,
		.clock = clock,
		.beside = beside,
		.head = head,
		.tail = head,
	};
	atomic_store(&stream->serial, serial);
}

/* Of named streams some were made so that they do not wait for the legacy one. */
static bool meter_is_beside(CUstream handle)
{
	unsigned int flags = 0;

	return launch_is_named(handle) &&
	       !DRIVER(cuStreamGetFlags, (handle, &flags)) && flags & CU_STREAM_NON_BLOCKING;
}

/* The clock of a stream's context has spare events, as far as the driver gives any. */
static bool meter_has_spares(const struct meter *meter, const struct stream *stream)
{
	return stream->clock < 0 || atomic_load(&stream->mute) ||
	       meter->clock[stream->clock].spares >= SPARES;
}

/* Without the lock. A launch is needed for a clock alone. */
static void meter_gather(struct meter *meter, const struct launch *launch, enum ask ask,
			 struct gathered *gathered)
{
	gathered->asked |= 1u << ask;
	if (ask == ASK_CLOCK) {
		gathered->clock = contexts_clock(meter, launch->context, launch->now_ns);
		gathered->beside = meter_is_beside(launch->stream);
	} else if (ask == ASK_STREAM) {
		gathered->query = DRIVER(cuStreamQuery, (gathered->handle));
	} else {
		if (ask == ASK_ROOM && gathered->rooms++)
			nap_ns(TUNING_LATE_LEAST_NS);
		collect_done(meter);
	}
}

/* With the lock: a place for the stream of a launch. NULL: all are taken by streams that work. */
static struct stream *meter_stream_new(struct meter *meter, const struct launch *launch,
				       const struct gathered *gathered)
{
	int i = stream_place(meter->stream, &meter->nstreams);

	if (i < 0)
		return NULL;
	meter_stream_begin(&meter->stream[i], launch, gathered->clock, gathered->beside);
	return &meter->stream[i];
}

static bool meter_was_idle(const struct stream *stream, uint64_t now_ns)
{
	return now_ns > max_u64(max_u64(stream->launched_ns, stream->since_ns), stream->waited_ns) +
				TUNING_GAP_NS;
}

/*
 * Work whose end was missed. `known`: launches followed each other until the last of them, or the
 * program waited for it. `lost`: nobody knows about the time after that.
 */
struct missed {
	struct span known, lost;
};

/* With the lock: what is open was done by then, though no event says so. When it worked. */
static struct span meter_end_open(struct meter *meter, struct stream *stream, uint64_t done_ns)
{
	uint64_t began = meter_began_ns(stream, stream->loaded_ns);
	struct span span = {began ? began : stream->launched_ns, done_ns, stream->apart};

	stream_land(meter, stream, stream->open.expected_ns);
	stream_await(meter, stream, false);
	stream->open = (struct burst){0};
	stream->loaded_ns = 0;
	stream->since_ns = done_ns;
	stream->apart = false;
	return span;
}

/*
 * With the lock: the stream may have been idle for a while before `now_ns`, and what it did before
 * is not closed: is all of that done? Then its end was missed. `held`: however short the while is,
 * since others may have the device by now, and an event would be there when it is this context's
 * again.
 */
static enum ask meter_ask_end(struct meter *meter, struct stream *stream, uint64_t now_ns,
			      bool held, struct gathered *gathered)
{
	stream_count(meter, stream);
	if (meter_has_asked(gathered, ASK_STREAM) || stream_is_closed(stream) ||
	    (!held && !meter_was_idle(stream, now_ns)))
		return ASK_NOTHING;
	if (stream_has_events(stream) && !meter_has_asked(gathered, ASK_EVENTS))
		return ASK_EVENTS;
	if (!stream->open.launches || stream->leaving)
		return ASK_NOTHING;
	gathered->handle = stream->handle;
	gathered->launched_ns = stream->launched_ns;
	return ASK_STREAM;
}

/* With the lock: the end that was missed, by what was gathered. */
static struct missed meter_miss_end(struct meter *meter, struct stream *stream, uint64_t now_ns,
				    const struct gathered *gathered)
{
	struct missed missed = {{0}, {0}};
	uint64_t known;

	if (!meter_has_asked(gathered, ASK_STREAM) || gathered->query == CUDA_ERROR_NOT_READY ||
	    !stream->open.launches || stream->launched_ns != gathered->launched_ns)
		return missed;
	known = max_u64(stream->launched_ns, stream->waited_ns);
	if (!meter_was_idle(stream, now_ns))
		known = max_u64(known, now_ns);
	/* Nobody waited for it in a way that is seen; what is before it may have ended later. */
	if (known == stream->launched_ns) {
		known = max_u64(known, stream->since_ns);
		missed.lost = (struct span){known, now_ns, false};
		stream->watch = (uint32_t)clamp_i64(2 * (int64_t)stream->watch, WATCHED_WAITS,
						    WATCHED_WAITS_MOST);
		stream->watched = stream->watch;
	}
	missed.known = meter_end_open(meter, stream, known);
	return missed;
}

static void meter_bill_missed(struct meter *meter, const struct missed *missed)
{
	if (missed->known.to_ns > missed->known.from_ns)
		collect_bill(meter, &missed->known);
	if (missed->lost.to_ns)
		collect_bill_unmeasured(meter, missed->lost.from_ns, missed->lost.to_ns);
}

/*
 * With the lock: the last wait for the program, in a stream that this one waits for by itself, that
 * may not be over: all but those made otherwise wait for the legacy stream, and that for them.
 */
static uint64_t meter_waits_behind(const struct meter *meter, const struct stream *stream)
{
	bool legacy = stream->key == launch_stream_key(CU_STREAM_LEGACY);
	uint64_t last = 0;

	if (!meter->parks || stream->beside)
		return 0;
	for (uint32_t i = 0; i < meter->nstreams; i++) {
		const struct stream *other = &meter->stream[i];

		if (other->park > last && other->context == stream->context && other->key &&
		    !other->beside && other != stream &&
		    (legacy || other->key == launch_stream_key(CU_STREAM_LEGACY)) &&
		    stream_blocks(other))
			last = other->park;
	}
	return last;
}

/* With the lock: behind the beginning that was just reserved, a wait for us, and another one. */
static void meter_latch(struct meter *meter, struct stream *stream, uint64_t now_ns,
			struct records *records)
{
	int index = meter_reserve_event(meter, stream, true, now_ns);

	if (index < 0)
		return;
	meter->latches += meter->latches == UINT32_MAX ? 2 : 1; /* 0 is none */
	records->latch = stream->latch = stream->event[index].latch = meter->latches;
	stream->event[index].blocked = true;
	atomic_fetch_add(&meter->latched, 1);
	atomic_store(&meter->latched_ns, now_ns);
	records->index[records->n++] = index;
}

/*
 * With the lock: what is to be recorded before the launch. A function's first launch may have the
 * driver load its code, which is no work of the device: so the work before it is closed, and what
 * it begins itself begins when the driver's call returned. No event is recorded on an idle stream
 * for that, where nobody else may have the device: of some functions of cuBLAS and cuDNN it made
 * the kernels of ranks 0.9 us further apart from then on (h200x2-null-stream-2026-11-22.txt). A
 * copy has no code, and its call may last as long as it does, or the work before it.
 */
static void meter_before_launch(struct meter *meter, struct stream *stream, struct launch *launch,
				struct records *records)
{
	bool idle = stream_is_closed(stream), copy = launch->kind == LAUNCH_COPY;
	bool apart = launch->held || launch->yields;
	bool fresh = idle && (apart || meter_was_idle(stream, launch->now_ns));
	bool behind = meter_waits_behind(meter, stream) > stream->behind, blocked;

	if (behind)
		stream->again = stream->blocked = true;
	blocked = stream->blocked;
	launch->fresh = !copy && (idle || !launch->known);
	if ((launch->alone || behind) && stream->open.launches)
		meter_reserve(meter, records, false, launch->now_ns);
	if (stream->again || (fresh && (copy || launch->known || launch->rival))) {
		int index = meter_reserve_event(meter, stream, true, launch->now_ns);

		if (index >= 0) {
			stream->event[index].paused = apart;
			records->index[records->n++] = index;
		}
	} else if (fresh)
		stream->since_ns = 0; /* its end says when it was loaded */
	if (blocked && launch->latches && !stream->again)
		meter_latch(meter, stream, launch->now_ns, records);
}


/*
 * Ends of this kind leave room in the ring for the end that is recorded where the program waits. A
 * program that waits for each launch tells when that is over; if it does not, the second launch has
 * an end.
 */
static bool meter_end_is_due(const struct stream *stream, const struct launch *launch)
{
	uint64_t every =
		launch->rival && !stream->prompt ? TUNING_END_RIVAL_NS : TUNING_END_NS;
	uint32_t room = stream_room(stream);

	if (launch->watched || stream->watched || launch->alone || launch->waits)
		return room > STREAM_EVENTS / 2;
	if (stream->prompt && stream->single && stream->open.launches == 1)
		return false;
	return launch->now_ns > stream->ended_ns + every && room > STREAM_EVENTS / 4;
}

/*
 * With the lock: where each launch has an event the ring fills, and no launch goes on without one.
 * By then there is work for a while.
 */
static bool meter_wants_room(const struct stream *stream, uint32_t tries)
{
	return stream_room(stream) <= STREAM_EVENTS / 2 &&
	       (!tries || (tries < ROOM_TRIES && stream->watched && !stream->parked));
}

void meter_add(struct meter *meter, struct stream *stream, const struct burst *burst,
	       uint64_t first_ns, uint64_t last_ns)
{
	burst_add(&stream->open, burst);
	stream->flying_ns += burst->expected_ns;
	if (!stream->parked)
		meter->flying_ns += burst->expected_ns;
	stream->launched_ns = last_ns;
	stream->launches += burst->launches;
	meter->client->launched(meter, stream, burst, first_ns, last_ns);
}

/*
 * With the lock: finds the stream of a launch, or makes it: NULL where all places are taken by
 * streams that work. Returns what is to be asked first.
 */
static enum ask meter_enter(struct meter *meter, struct launch *launch, struct gathered *gathered)
{
	struct stream *stream = meter_stream_of(meter, launch->context, launch->stream_key);

	if (stream && meter_wants_room(stream, gathered->rooms))
		return ASK_ROOM;
	if (!meter_has_asked(gathered, ASK_CLOCK) && !(stream && meter_has_spares(meter, stream)))
		return ASK_CLOCK;
	launch->in = stream = stream ? stream : meter_stream_new(meter, launch, gathered);
	return stream ? meter_ask_end(meter, stream, launch->now_ns, false, gathered) : ASK_NOTHING;
}

/* With the lock, and all answers: a launch goes into its stream. */
static struct missed meter_apply(struct meter *meter, struct launch *launch,
				 const struct gathered *gathered, struct records *records)
{
	struct stream *stream = launch->in;
	struct missed missed = meter_miss_end(meter, stream, launch->now_ns, gathered);

	records->stream = stream;
	stream->rival = launch->rival;
	meter_before_launch(meter, stream, launch, records);
	meter_add(meter, stream,
		  &(struct burst){
			  .launches = 1,
			  .known = launch->known,
			  .key = launch->key,
			  .waits = launch->waits ? launch->key : 0,
			  .expected_ns = launch->expected_ns,
			  .longest = {launch->key, launch->expected_ns},
		  },
		  launch->now_ns, launch->now_ns);
	if (meter_end_is_due(stream, launch))
		launch->end = meter_reserve_event(meter, stream, false, launch->now_ns);
	return missed;
}

void meter_begin(struct launch *launch)
{
	struct meter *meter = launch->meter;
	struct gathered gathered = {0};
	struct missed missed = {{0}, {0}};
	struct records records = {NULL};
	enum ask ask;

	launch->end = -1;
	meter_lock(meter);
	while ((ask = meter_enter(meter, launch, &gathered))) {
		meter_unlock(meter);
		meter_gather(meter, launch, ask, &gathered);
		meter_lock(meter);
	}
	if (launch->in)
		missed = meter_apply(meter, launch, &gathered, &records);
	meter_unlock(meter);
	meter_bill_missed(meter, &missed);
	meter_record_all(meter, &records);
}

/*
 * With the lock: the driver refused a launch whose end is reserved. That end closes nothing, and
 * what was to be closed with the launch is open again.
 */
static void meter_reopen(struct stream *stream, const struct launch *launch)
{
	struct timing_event *event = &stream->event[launch->end];
	struct burst rest = event->burst;

	rest.launches--;
	rest.expected_ns -= launch->expected_ns;
	if (rest.launches) {
		burst_add(&stream->open, &rest);
		stream->loaded_ns = max_u64(stream->loaded_ns, event->loaded_ns);
	}
	event->burst = (struct burst){0};
}

void meter_end(struct launch *launch, CUresult e)
{
	struct meter *meter = launch->meter;
	struct stream *stream = launch->in;
	uint64_t loaded = !e && launch->fresh ? now_monotonic_ns() : 0;
	bool brief = launch->known || loaded < launch->now_ns + TUNING_GAP_NS;

	/* Nothing was loaded: the work may have begun, and the thread lost its processor. */
	if (loaded && brief)
		loaded = launch->now_ns;
	if (!stream) {
		if (!e)
			collect_bill_unmeasured(meter, launch->now_ns, UINT64_MAX);
		return;
	}
	if (launch->end >= 0 && e) {
		meter_lock(meter);
		meter_reopen(stream, launch);
		stream_land(meter, stream, launch->expected_ns);
		meter_unlock(meter);
		meter_record(stream, launch->end, false);
		return;
	}
	if (launch->end >= 0) {
		stream->event[launch->end].loaded_ns = loaded;
		meter_record(stream, launch->end, true);
		return;
	}
	if (!e && brief)
		return;
	meter_lock(meter);
	stream->loaded_ns = loaded;
	if (e && stream->open.launches) {
		stream->open.launches--;
		stream_land(meter, stream, launch->expected_ns);
		stream_await(meter, stream, stream->awaited && stream->open.launches);
	}
	meter_unlock(meter);
}

/* An event is needed now and then: it tells whether the program still knows of its ends soon. */
static bool meter_needs_proof(const struct stream *stream, uint64_t now_ns)
{
	return now_ns > stream->ended_ns + TUNING_END_NS && stream->unmarked >= UNMARKED_MOST;
}

/*
 * With the lock: whether what is open needs an event. Not if the program will tell, or an end is
 * known from just before and no rival is to be told that there is work.
 */
static bool meter_needs_event(const struct stream *stream, enum meter_why why, uint64_t now_ns)
{
	static const uint64_t skip[] = {
		[METER_WAIT] = TUNING_WAIT_SKIP_NS,
		[METER_ASK] = TUNING_WAIT_SKIP_NS,
		[METER_MARK] = TUNING_MARK_SKIP_NS,
		[METER_HOLD] = 0,
		[METER_COPY] = TUNING_COPY_SKIP_NS,
		[METER_COPIED] = TUNING_COPY_SKIP_NS,
		[METER_SPLIT] = 0,
		[METER_PARK] = 0,
	};

	if (stream_has_events(stream))
		return true;
	if (stream->prompt && !stream->watched &&
	    (meter_is_told(why) || (why == METER_MARK && !stream->rival)))
		return meter_needs_proof(stream, now_ns);
	return stream->rival ||
	       now_ns > max_u64(stream->ended_ns, stream->waited_ns) + skip[why];
}

/* With the lock: what comes next stands behind a wait for the program. */
static void meter_block(struct meter *meter, struct stream *stream)
{
	stream->again = stream->blocked = true;
	stream->park = ++meter->parks;
}

/* The end of what is open in a stream, unless that was over long ago. Takes the lock. */
static void meter_close_stream(struct meter *meter, struct stream *stream, enum meter_why why)
{
	struct records records = {.stream = stream};
	uint64_t now = now_monotonic_ns();
	struct gathered gathered = {0};
	struct missed missed;
	enum ask ask;

	meter_asked = now;
	meter_lock(meter);
	while ((ask = meter_ask_end(meter, stream, now, why == METER_HOLD, &gathered))) {
		meter_unlock(meter);
		meter_gather(meter, NULL, ask, &gathered);
		meter_lock(meter);
	}
	missed = meter_miss_end(meter, stream, now, &gathered);
	/* The program waited in time. If it waits late, it may do so the next time, too. */
	if ((meter_is_asked(why) || why == METER_MARK) && !meter_was_idle(stream, now) &&
	    stream->watched)
		stream->watched--;
	if (meter_is_told(why) && stream->launches) {
		stream->single = stream->launches == 1;
		stream->launches = 0;
	}
	if (!stream->open.launches || stream->leaving) {
		/* nothing to close */
	} else if (meter_needs_event(stream, why, now)) {
		meter_reserve(meter, &records, false, now);
	} else {
		stream->unmarked++;
		stream_await(meter, stream, stream->awaited || meter_is_told(why));
	}
	if (why == METER_SPLIT || why == METER_PARK)
		stream->again = true;
	if (why == METER_PARK)
		meter_block(meter, stream);
	meter_unlock(meter);
	meter_bill_missed(meter, &missed);
	meter_record_all(meter, &records);
}

static struct stream *meter_find_stream(struct meter *meter, CUcontext context, CUstream handle)
{
	struct stream *stream;

	meter_lock(meter);
	stream = meter_stream_of(meter, context, launch_stream_key(handle));
	meter_unlock(meter);
	return stream;
}

bool meter_has_stream(struct meter *meter, CUcontext context, CUstream handle)
{
	return meter_find_stream(meter, context, handle);
}

void meter_close(struct meter *meter, CUcontext context, CUstream handle, enum meter_why why)
{
	struct stream *stream = meter_find_stream(meter, context, handle);

	if (stream)
		meter_close_stream(meter, stream, why);
}

void meter_park(struct meter *meter, CUcontext context, CUstream handle)
{
	struct launch behind = {
		.context = context,
		.stream = handle,
		.stream_key = launch_stream_key(handle),
		.now_ns = now_monotonic_ns(),
	};
	struct stream *stream = meter_find_stream(meter, context, handle);
	struct gathered gathered = {0};
	enum ask ask;

	if (stream) {
		meter_close_stream(meter, stream, METER_PARK);
		return;
	}
	meter_lock(meter);
	while ((ask = meter_enter(meter, &behind, &gathered))) {
		meter_unlock(meter);
		meter_gather(meter, &behind, ask, &gathered);
		meter_lock(meter);
	}
	if (behind.in)
		meter_block(meter, behind.in);
	meter_unlock(meter);
}

/* With the lock: its wait for the program that nothing was launched behind; 0: it has none. */
static uint64_t meter_bare_park(struct meter *meter, CUcontext context, CUstream handle)
{
	struct stream *stream = meter_stream_of(meter, context, launch_stream_key(handle));

	return stream && stream->blocked && !stream->parked && stream_is_closed(stream) ? stream->park : 0;
}

void meter_ask_park(struct meter *meter, CUcontext context, CUstream handle)
{
	struct capture_mode mode;
	uint64_t park = 0;
	CUresult e;

	/* Most programs never wait so. To ask for a stream would end some captures. */
	if (!word_read(&meter->parks) || atomic_load(&meter->guest->captures))
		return;
	meter_lock(meter);
	park = meter_bare_park(meter, context, handle);
	meter_unlock(meter);
	if (!park)
		return;
	mode = capture_relax();
	e = DRIVER(cuStreamQuery, (handle));
	capture_restore(mode);
	if (e)
		return;
	meter_lock(meter);
	if (meter_bare_park(meter, context, handle) == park)
		meter_stream_of(meter, context, launch_stream_key(handle))->blocked = false;
	meter_unlock(meter);
}

/* With the lock. */
static bool meter_begins_blocked(const struct meter *meter, const struct stream *stream)
{
	return stream->blocked || meter_waits_behind(meter, stream) > stream->behind;
}

bool meter_any_blocks(struct meter *meter)
{
	bool any = false;

	meter_lock(meter);
	for (uint32_t i = 0; !any && i < meter->nstreams; i++)
		any = stream_blocks(&meter->stream[i]);
	meter_unlock(meter);
	return any;
}

/* With the lock. */
static enum meter_standing meter_standing_of(const struct meter *meter, const struct stream *stream,
					     bool latches)
{
	bool blocked = meter_begins_blocked(meter, stream);

	if (!stream->parked && !(blocked && stream_is_closed(stream)))
		return METER_FREE;
	if ((stream->parked && stream_is_latched(stream)) || (latches && blocked))
		return METER_LATCHED;
	return METER_PARKED;
}

enum meter_standing meter_stands(struct meter *meter, const struct launch *launch)
{
	enum meter_standing standing = METER_FREE;
	const struct stream *stream;

	/* Most programs never wait so, and their launches take no lock for it. */
	if (!word_read(&meter->parks) && !atomic_load(&meter->parked))
		return METER_FREE;
	meter_lock(meter);
	stream = meter_stream_of(meter, launch->context, launch->stream_key);
	if (stream)
		standing = meter_standing_of(meter, stream, launch->latches);
	meter_unlock(meter);
	return standing;
}

/* The stream's work ends with an event: open launches came later, or found no room for theirs. */
static bool meter_ends_with_event(const struct stream *stream)
{
	return stream_has_events(stream) && stream_room(stream);
}

uint64_t meter_asked_ns(void)
{
	return meter_asked;
}

void meter_waited(struct meter *meter, CUcontext context, CUstream handle, bool all,
		  uint64_t asked_ns, uint64_t now_ns)
{
	const struct meter_look look = {.now_ns = now_ns, .done_ns = now_ns};
	uint64_t key = launch_stream_key(handle), began;
	struct burst burst;
	struct span span;
	bool any = false;

	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++) {
		struct stream *stream = &meter->stream[i];

		if (stream->context != context || !stream->key || (!all && stream->key != key) ||
		    !stream->open.launches || meter_ends_with_event(stream) ||
		    stream->launched_ns > asked_ns || stream->credit.given)
			continue;
		stream->waited_ns = now_ns;
		stream_await(meter, stream, false);
		burst = stream->open;
		stream_land(meter, stream, burst.expected_ns);
		stream->open.expected_ns = 0;
		any = true;
		/* Brief work is billed with what follows. */
		began = meter_began_ns(stream, stream->loaded_ns);
		if (now_ns < began + TUNING_GAP_NS)
			continue;
		span = meter_end_open(meter, stream, now_ns);
		/* So late the program was elsewhere: nobody knows how long that took. */
		if (now_ns > began + 2 * burst.expected_ns + TUNING_GAP_NS)
			stream->prompt = false;
		else if (began)
			meter->client->done(meter, stream, &burst, began, now_ns);
		meter_unlock(meter);
		collect_bill(meter, &span);
		meter_lock(meter);
	}
	if (any)
		meter->client->looked(meter, &look);
	meter_unlock(meter);
}

void meter_learn_prompt(struct meter *meter, CUcontext context, CUstream handle, bool all,
			uint64_t asked_ns, uint64_t now_ns)
{
	uint64_t key = launch_stream_key(handle);

	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++) {
		struct stream *stream = &meter->stream[i];

		if (stream->context == context && stream->key && (all || stream->key == key) &&
		    stream_is_closed(stream) && stream->waited_ns < asked_ns &&
		    stream->since_ns > asked_ns)
			stream->prompt = now_ns < stream->since_ns + TUNING_PROMPT_NS;
	}
	meter_unlock(meter);
}

bool meter_is_open(struct meter *meter, CUcontext context, CUstream handle, uint64_t asked_ns)
{
	const struct stream *stream;
	bool open;

	meter_lock(meter);
	stream = meter_stream_of(meter, context, launch_stream_key(handle));
	open = stream && stream->open.launches && !stream->leaving &&
	       stream->launched_ns <= asked_ns;
	meter_unlock(meter);
	return open;
}

/* The handle of another thread's own stream means our own here. */
static bool meter_is_reachable(const struct stream *stream)
{
	return stream->handle != CU_STREAM_PER_THREAD ||
	       stream->key == launch_stream_key(CU_STREAM_PER_THREAD);
}

/*
 * Returns the stream's context if something in it is open and may be closed, or if each of its
 * launches has its own end, which waits shall end; else NULL. Takes the lock.
 */
static CUcontext meter_open_context(struct meter *meter, struct stream *stream)
{
	CUcontext context = NULL;

	meter_lock(meter);
	stream_count(meter, stream);
	if (stream->key && meter_is_reachable(stream) && !stream->leaving &&
	    (stream->open.launches || stream->watched))
		context = stream->context;
	meter_unlock(meter);
	return context;
}

void meter_close_all(struct meter *meter, CUcontext context, enum meter_why why)
{
	for (uint32_t i = 0; i < word_read(&meter->nstreams); i++) {
		struct stream *stream = &meter->stream[i];

		if (meter_open_context(meter, stream) == context &&
		    !meter_is_captured(stream->handle))
			meter_close_stream(meter, stream, why);
	}
}

void meter_hold(struct meter *meter, CUcontext context)
{
	meter_close_all(meter, context, METER_HOLD);
	/* The collecting thread keeps the contexts: none ends meanwhile (leave_context_before). */
	if (atomic_exchange(&meter->collecting, 1))
		return;
	for (uint32_t i = 0; i < word_read(&meter->nstreams); i++) {
		struct stream *stream = &meter->stream[i];
		CUcontext other = meter_open_context(meter, stream);

		if (!other || other == context || DRIVER(cuCtxPushCurrent_v2, (other)))
			continue;
		if (!meter_is_captured(stream->handle))
			meter_close_stream(meter, stream, METER_HOLD);
		DRIVER(cuCtxPopCurrent_v2, (&other));
	}
	atomic_store(&meter->collecting, 0);
}
