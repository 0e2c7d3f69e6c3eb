/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter's state of one device: its streams, the clocks of its contexts, launches in flight.
 * Data and one-line questions; the rest is in contexts.h, collect.h, meter.h, leave.h.
 */
#ifndef ALLOT_GUEST_METER_STATE_H
#define ALLOT_GUEST_METER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/number.h"
#include "base/word.h"
#include "guest/core/guest.h"
#include "guest/meter/clock.h"
#include "guest/meter/launch.h"
#include "guest/meter/overtime.h"
#include "guest/meter/stream.h"
#include "ledger/device_time.h"
#include "sched/tuning.h"

struct span {
	uint64_t from_ns, to_ns;
	bool apart; /* the time before it was not the program's own */
};

/* The findings of a collection, for the launch side's expectations. */
struct meter_look {
	uint64_t now_ns;
	uint64_t done_ns; /* the end of the last work that was found done; 0: none was */
	/* Of unfinished work, that which exceeds its expected time the most. */
	uint64_t late_ns, late_expected_ns;
	uint64_t next_ns; /* expected of what each stream has done next, together */
	/* All that was found done, by streams and together: what they did at once counts once. */
	uint64_t streams_ns, together_ns;
};

/* The launch side. With the meter's lock, but for what says otherwise. */
struct meter_client {
	/* Time of the device that is new to the tenant: somebody pays for it. Without the lock. */
	void (*billed)(struct meter *meter, uint64_t from_ns, uint64_t to_ns);
	/* More launches are in flight, `burst`; `first_ns` is when the first may begin. */
	void (*launched)(struct meter *meter, struct stream *stream, const struct burst *burst,
			 uint64_t first_ns, uint64_t last_ns);
	/* Queues a wait for us behind what is in a stream. Without the lock. */
	void (*latch)(struct meter *meter, struct stream *stream, uint32_t number);
	void (*unlatch)(struct meter *meter, struct stream *stream); /* no event tells of that wait */
	/* A stream was parked, and the device can begin what is in it since then. */
	void (*released)(struct meter *meter, struct stream *stream, uint64_t at_ns);
	/* A burst is done; it ran from `began_ns` to `done_ns`. */
	void (*done)(struct meter *meter, struct stream *stream, const struct burst *burst,
		     uint64_t began_ns, uint64_t done_ns);
	/*
	 * For how long of its time a burst waited for launches on other devices that were held:
	 * that is left out, or a pause would be paid for by another. Without the lock.
	 */
	uint64_t (*spun)(struct meter *meter, const struct burst *burst, uint64_t began_ns,
			 uint64_t done_ns);
	/* When the tenant's turn ended, if another may have the device since; else 0. */
	uint64_t (*ended)(struct meter *meter, uint64_t now_ns);
	/* After a collection. */
	void (*looked)(struct meter *meter, const struct meter_look *look);
	/* Launches that were admitted without the lock are to be counted. */
	void (*count)(struct meter *meter, struct stream *stream);
};

/* Where an event of the program's was recorded: recorded.h. */
#define RECORDED      512
#define RECORDED_WAYS 4
struct recorded {
	CUevent event;		     /* NULL: free */
	uint64_t number;	     /* of the recording */
	const struct stream *stream; /* NULL: nothing was ever launched into it */
	uint64_t serial;
	uint32_t tail; /* of the stream's ring, then */
	bool blocked;  /* right behind a wait for the program */
};

/* One device, in this process. */
struct meter {
	struct guest *guest;
	struct guest_device *device;
	struct device_time *time;
	const struct meter_client *client;

	struct lock_meter lock; /* of what follows */
	uint32_t nstreams;
	struct stream stream[STREAMS];
	struct clock clock[CLOCKS];
	uint64_t flying_ns;    /* over all streams that are not parked */
	uint64_t parks;	       /* waits for the program, numbered */
	uint32_t latches;      /* likewise those for us */
	uint64_t recordings;
	struct recorded recorded[RECORDED];
	struct overtime overtime; /* the collecting thread's, as what follows */
	struct span seen;      /* work not done at the last look; the collecting thread's */

	_Atomic uint32_t pending;     /* events to be collected, and waits that have none ... */
	_Atomic uint32_t parked;      /* ... in streams that are parked */
	_Atomic uint32_t begins;      /* of the others, that begin work; the last was recorded ... */
	_Atomic uint64_t begin_ns;    /* ... then */
	_Atomic uint32_t collecting;  /* one thread does */
	_Atomic uint64_t collected_ns;
	_Atomic bool wanting; /* a stream waits for us alone */
	_Atomic uint32_t latched; /* waits for us, as far as is known; the last was queued ... */
	_Atomic uint64_t latched_ns; /* ... then */
	uint64_t billed_ns; /* to when, at the latest */
};

/* There is something to be collected, now or later. */
static inline bool meter_is_pending(const struct meter *meter)
{
	return atomic_load_explicit(&meter->pending, memory_order_acquire);
}

/*
 * True if the tenant has work on the device: an event is not done, or the program waits for
 * launches without one. Work in a parked stream does not count. `parked` is read first: then at
 * most an event that comes in between is not seen to be parked.
 */
static inline bool meter_works(const struct meter *meter)
{
	uint32_t parked = atomic_load(&meter->parked);

	return atomic_load(&meter->pending) > parked;
}

/* True if the device has reached all that was launched into idle streams. */
static inline bool meter_has_begun(const struct meter *meter)
{
	return !atomic_load(&meter->begins);
}

static inline void meter_lock(struct meter *meter)
{
	lock_take(&meter->lock);
}

static inline void meter_unlock(struct meter *meter)
{
	lock_drop(&meter->lock);
}

/* With the lock: counts launches that were admitted on credit. */
static inline void stream_count(struct meter *meter, struct stream *stream)
{
	if (stream->credit.given)
		meter->client->count(meter, stream);
}

/* With the lock: takes `expected_ns` off the work in flight. */
static inline void stream_land(struct meter *meter, struct stream *stream, uint64_t expected_ns)
{
	uint64_t of_stream = min_u64(stream->flying_ns, expected_ns);

	stream->flying_ns -= of_stream;
	if (!stream->parked)
		meter->flying_ns -= min_u64(meter->flying_ns, of_stream);
}

/*
 * With the lock: adds `n`, which may be negative, to the events or waits that are pending in a
 * stream.
 */
static inline void stream_pend(struct meter *meter, const struct stream *stream, int32_t n)
{
	if (stream->parked)
		atomic_fetch_add(&meter->parked, (uint32_t)n);
	atomic_fetch_add(&meter->pending, (uint32_t)n);
}

/* With the lock: whether what is open in a stream counts as work, until it is closed. */
static inline void stream_await(struct meter *meter, struct stream *stream, bool awaited)
{
	if (stream->awaited == awaited)
		return;
	word_write(&stream->awaited, awaited);
	stream_pend(meter, stream, awaited ? 1 : -1);
}

/* With the lock: an event leaves its stream's ring. */
static inline void stream_drop(struct meter *meter, const struct timing_event *event)
{
	if (event->begin)
		atomic_fetch_sub(&meter->begins, 1);
	if (event->latch)
		atomic_fetch_sub(&meter->latched, 1);
}

/* With the lock: whether the stream is parked, with all that is in it. */
static inline void stream_park(struct meter *meter, struct stream *stream, bool parked)
{
	uint32_t pending = stream->tail - stream->head + stream->awaited, begins = 0;

	if (stream->parked == parked)
		return;
	stream->parked = parked;
	for (uint32_t i = stream->head; i != stream->tail; i++)
		begins += stream->event[i % STREAM_EVENTS].begin;
	if (parked) {
		atomic_fetch_sub(&meter->begins, begins);
		atomic_fetch_add(&meter->parked, pending);
		meter->flying_ns -= min_u64(meter->flying_ns, stream->flying_ns);
	} else {
		atomic_fetch_add(&meter->begins, begins);
		atomic_fetch_sub(&meter->parked, pending);
		meter->flying_ns += stream->flying_ns;
	}
}

/*
 * When what an end closes began; 0: nobody knows. Loading code is a pause of the program's own, of
 * which a short one is billed as any.
 */
static inline uint64_t meter_began_ns(const struct stream *stream, uint64_t loaded_ns)
{
	uint64_t since = stream->since_ns;

	return loaded_ns && (!since || loaded_ns > since + TUNING_GAP_NS) ? loaded_ns : since;
}

#endif
