/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the meter knows of one device: its streams, the clocks of its contexts, what is in flight.
 * Data, and what is asked of it in a line; the rest is in contexts.h, collect.h, meter.h, leave.h.
 */
#ifndef ALLOT_GUEST_METER_STATE_H
#define ALLOT_GUEST_METER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/word.h"
#include "guest/core/guest.h"
#include "guest/meter/clock.h"
#include "guest/meter/launch.h"
#include "guest/meter/stream.h"
#include "ledger/device_time.h"
#include "sched/tuning.h"

struct span {
	uint64_t from_ns, to_ns;
	bool apart; /* the time before it was not the program's own */
};

/* What a collection found, for who expects things. */
struct meter_look {
	uint64_t now_ns;
	uint64_t done_ns; /* the end of the last work that was found done; 0: none was */
	/* Of what is not done, that which works for longest beyond what was expected of it. */
	uint64_t late_ns, late_expected_ns;
	/* All that was found done, by streams and together: what they did at once counts once. */
	uint64_t streams_ns, together_ns;
};

/* The launch side. With the meter's lock, but for what says otherwise. */
struct meter_client {
	/* Time of the device that is new to the tenant: somebody pays for it. Without the lock. */
	void (*billed)(struct meter *meter, uint64_t from_ns, uint64_t to_ns);
	/* So many launches more are in flight; `at_ns` is when the first may begin. */
	void (*launched)(struct meter *meter, struct stream *stream, const struct burst *burst,
			 uint64_t first_ns, uint64_t last_ns);
	/* A burst is done, after so long. */
	void (*done)(struct meter *meter, struct stream *stream, const struct burst *burst,
		     uint64_t began_ns, uint64_t done_ns);
	/*
	 * For how long of its time a burst waited for launches on other devices that were held:
	 * that is left out, or a pause would be paid for by another. Without the lock.
	 */
	uint64_t (*spun)(struct meter *meter, const struct burst *burst, uint64_t began_ns,
			 uint64_t done_ns);
	/* After a collection. */
	void (*looked)(struct meter *meter, const struct meter_look *look);
	/* Launches that were let through without the lock are to be counted. */
	void (*count)(struct meter *meter, struct stream *stream);
};

/* One device, in this process. */
struct meter {
	struct guest *guest;
	struct guest_device *device;
	struct device_time *time;
	const struct meter_client *client;

	struct lock lock; /* of what follows */
	uint32_t nstreams;
	struct stream stream[STREAMS];
	struct clock clock[CLOCKS];
	uint64_t flying_ns;    /* over all streams */
	struct span seen;      /* work not done at the last look; the collecting thread's */

	_Atomic uint32_t pending;     /* events to be collected, and waits that have none */
	_Atomic uint32_t begins;      /* of these, that begin work; the last was recorded ... */
	_Atomic uint64_t begin_ns;    /* ... then */
	_Atomic uint32_t collecting;  /* one thread does */
	_Atomic uint64_t collected_ns;
	uint64_t billed_ns; /* to when, at the latest */
};

/*
 * The tenant has work on the device while an event is not done, or the program waits for what has
 * none: nothing else says so.
 */
static inline bool meter_works(const struct meter *meter)
{
	return atomic_load_explicit(&meter->pending, memory_order_acquire);
}

/* Whether the device has come to all that was launched into streams that were idle. */
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

/* With the lock: whether what is open in a stream counts as work, until it is closed. */
static inline void stream_await(struct meter *meter, struct stream *stream, bool awaited)
{
	if (stream->awaited == awaited)
		return;
	word_write(&stream->awaited, awaited);
	if (awaited)
		atomic_fetch_add(&meter->pending, 1);
	else
		atomic_fetch_sub(&meter->pending, 1);
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
