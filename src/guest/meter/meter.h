/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter: how long a device worked for this process. A bill is the time between a measured
 * beginning and a measured end, timing events in the program's own streams (stream.h). An end is
 * recorded
 *
 *	- where the program waits: before it synchronizes, asks or records an event, copies to or
 *	  from the host, or has a stream wait for something else (meter_close);
 *	- behind the first launch that is TUNING_END_NS after the last end in its stream, so that
 *	  a stream which nobody waits for is measured, too;
 *	- where the launch side holds a launch, in all streams (meter_hold).
 *
 * What a program leaves open all the same, because it waits in a way that nobody sees, is billed
 * for at most DEVICE_TIME_UNMEASURED_NS, counted apart, and from then on the end of each launch in
 * that stream is measured, until the program waited for it several times in a way that is seen.
 *
 * Only threads of the program record, into streams that they just used, and never while a stream
 * captures. Any thread collects; one at a time, the others go on. No lock is held over a call of
 * the driver. The meter knows nothing of who may launch: it tells the launch side what it found by
 * the functions of struct meter_client.
 */
#ifndef ALLOT_GUEST_METER_METER_H
#define ALLOT_GUEST_METER_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "guest/core/guest.h"
#include "guest/meter/clock.h"
#include "guest/meter/launch.h"
#include "guest/meter/stream.h"
#include "ledger/device_time.h"

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
	/* The device worked for the tenant, and it is new: somebody pays for it. Without the lock. */
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

	_Atomic uint32_t pending;     /* events to be collected */
	_Atomic uint32_t begins;      /* of these, that begin work; the last was recorded ... */
	_Atomic uint64_t begin_ns;    /* ... then */
	_Atomic uint32_t collecting;  /* one thread does */
	_Atomic uint64_t collected_ns;
	uint64_t billed_ns; /* to when, at the latest */
};

/* Whether its stream captures: then it is not metered. */
bool meter_is_captured(CUstream stream);

/* The stream of a launch, if it was used before; NULL. With the lock. */
struct stream *meter_stream_of(struct meter *meter, CUcontext context, uint64_t key);

/* With the lock: so many launches are in flight, behind the last event of their stream. */
void meter_add(struct meter *meter, struct stream *stream, const struct burst *burst,
	       uint64_t first_ns, uint64_t last_ns);

/* Around the driver's call of a launch that may go. */
void meter_begin(struct launch *launch);
void meter_end(struct launch *launch, CUresult e);

/* Why what is open in a stream is closed. */
enum meter_why {
	METER_WAIT,  /* the program waits for it, or asks */
	METER_MARK,  /* the program records an event, to wait for that */
	METER_HOLD,  /* a launch is held */
	METER_COPY,  /* a brief copy to or from the host follows */
	METER_SPLIT, /* the device may wait here, or do what is not charged: what follows begins anew */
};
void meter_close(struct meter *meter, CUcontext context, CUstream stream, enum meter_why why);
/* The same for all of a context. */
void meter_close_all(struct meter *meter, CUcontext context, enum meter_why why);
/*
 * The same because a launch in this context is held, for whatever is open: in other contexts, too,
 * unless somebody just looks at their events.
 */
void meter_hold(struct meter *meter, CUcontext context);
/*
 * It waited for a stream, or for all of a context, and what was open there is done by now: where
 * waits follow each other soon that is the end that is measured.
 */
void meter_waited(struct meter *meter, CUcontext context, CUstream stream, bool all,
		  uint64_t now_ns);

/* Around the end of a stream. */
void meter_stream_leaves(struct meter *meter, CUcontext context, CUstream stream);
void meter_stream_left(struct meter *meter, CUcontext context, CUstream stream, bool gone);
/*
 * Around a call that may end a context: nobody looks at its events meanwhile. If it is gone they
 * are forgotten, and what was not done before is billed until now.
 */
void meter_context_leaves(struct meter *meter, CUcontext context);
void meter_context_left(struct meter *meter, CUcontext context, bool gone);

/* Looks which events are done, and bills. Answers at once when another thread is at it. */
void meter_collect(struct meter *meter);

/* The process ends, and nobody looks any more: what was seen to work is billed as far as that. */
void meter_end_all(struct meter *meter);

/* The tenant has work on the device while an event is not done: nothing else says so. */
static inline bool meter_works(const struct meter *meter)
{
	return atomic_load_explicit(&meter->pending, memory_order_acquire);
}

/* Whether the device has come to all that was launched into streams that were idle. */
static inline bool meter_has_begun(const struct meter *meter)
{
	return !atomic_load(&meter->begins);
}

#endif
