/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of one device that this process launched into, and the timing events in them:
 *
 *	begin  launch launch launch  end  launch launch  end
 *	  |----------- work ---------|------- work ------|
 *
 * An end closes the interval since the event before it, and begins the next one. A begin event is
 * recorded where the stream was idle, or waited for something else: the time before it is nobody's.
 *
 * A stream is parked while the first of its events is a beginning behind a wait for the program.
 * The device cannot begin what is behind it, so that is no work: it is not in flight, and nobody
 * waits for it.
 *
 *	wait  begin  launch launch  end		(parked until the wait is over)
 *
 * All of this is under the meter's lock, but for what says otherwise.
 */
#ifndef ALLOT_GUEST_METER_STREAM_H
#define ALLOT_GUEST_METER_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvidia/cuda_api.h"

#define STREAM_EVENTS 256 /* of a stream, not collected yet; a power of two */
#define STREAMS	      1024
/* More than these are kept only while they are in use: the search for one stays short. */
#define STREAMS_KEPT 64

enum event_state {
	EVENT_FREE,
	EVENT_RESERVED, /* somebody is about to record it */
	EVENT_RECORDED,
	EVENT_FAILED, /* the driver would not */
};

/* Launches into one stream, carried from when they were let go to when they were done. */
struct burst {
	uint32_t launches;
	bool known;	      /* what is expected of each was measured */
	uint64_t key;	      /* of all of them; 0: of several */
	uint64_t waits;	      /* of the one that may wait for the program in its middle; 0: none */
	uint64_t expected_ns; /* the launch side's, which is told of it at the end */
	struct {
		uint64_t key, expected_ns;
	} longest; /* of the launches, by what is expected of it */
};

/* Launches that are admitted without the lock, see launch/credit.h, which alone writes it. */
struct stream_credit {
	uint64_t word;	/* what is left of it */
	uint64_t given; /* what that was; 0: none is on, and all launches are counted */
	uint64_t key;	/* of the launch that it was given behind */
	uint64_t first_ns, last_ns;
};

struct timing_event {
	_Atomic uint32_t state; /* enum event_state */
	bool begin;
	bool paused; /* a beginning: the time before it was not the program's own pause */
	bool blocked; /* a beginning: the stream waits for the program before it */
	uint32_t latch; /* ... or for us, until that is let go; 0: it does not */
	CUevent event;
	uint64_t recorded_ns; /* not done before */
	uint64_t handed_ns;   /* the driver had it by then */
	uint64_t loaded_ns;   /* code was loaded until then: what this closes began no earlier */
	struct burst burst;   /* what it closes */
};

struct stream {
	CUcontext context; /* NULL: free */
	uint64_t key;	   /* 0: gone; its events may still be looked at */
	CUstream handle;
	int clock;	     /* of its context; below 0: there are no events to be had */
	_Atomic bool mute;   /* the driver takes no events here */
	bool rival;	     /* others may have the device beside its last launch */
	bool again;	     /* something else stands before the next launch: it begins anew */
	bool blocked;	   /* ... which is a wait for the program */
	bool parked;
	uint32_t latch;	     /* the last one in it, see launch/latch.h; 0: none was */
	uint32_t wants;	     /* that it waits for now, and nothing else */
	bool beside;	     /* it waits not for the legacy stream, nor that for it */
	uint64_t park;	     /* the number of the last wait for the program in it */
	uint64_t behind;     /* and of the last one in any stream as it began anew */
	/*
	 * A burst was not closed: the end of each launch is measured, until the program waited in
	 * time `watch` times, a number that doubles each time it happens again.
	 */
	uint32_t watched, watch; /* watch: how often that is */
	/*
	 * True if the program knew of the last end soon after its event: its waits then need no
	 * event each time. `unmarked`: the number of waits without one since.
	 */
	bool prompt;
	uint32_t launches; /* since it last waited */
	bool single;	   /* that was one, the last time */
	bool awaited; /* it waits for what is open, which counts as an event that is not done */
	uint32_t unmarked;
	uint32_t leaving;    /* calls under way that may end it, or its context */
	uint32_t head, tail; /* of the ring; the collecting thread moves the head */
	struct timing_event event[STREAM_EVENTS];
	struct burst open; /* launches behind the last event */
	struct stream_credit credit;
	uint64_t since_ns;	    /* when the last collected event was done; 0: not known */
	bool apart;		    /* it was a beginning, see struct timing_event */
	uint64_t loaded_ns;	    /* for the next end */
	uint64_t ended_ns;	    /* when the last end was recorded */
	uint64_t launched_ns;
	uint64_t waited_ns; /* the program waited for all of it, which was over then */
	uint64_t flying_ns; /* expected, of all launches that are not known to be done */
	uint64_t due_ns;    /* the launch side's: when that should be done */
	_Atomic uint64_t serial; /* another for each stream that had this place */
};

static inline bool stream_has_events(const struct stream *stream)
{
	return stream->head != stream->tail;
}

/* How many events more there is room for. */
static inline uint32_t stream_room(const struct stream *stream)
{
	return STREAM_EVENTS - (stream->tail - stream->head);
}

/* True if all of its content stands behind a wait for us. */
static inline bool stream_is_latched(const struct stream *stream)
{
	return stream->latch &&
	       (stream->event[stream->head % STREAM_EVENTS].latch ||
		(stream->tail - stream->head > 1 &&
		 stream->event[(stream->head + 1) % STREAM_EVENTS].latch));
}

/* True if a wait for the program was queued that is not known to be over. */
static inline bool stream_blocks(const struct stream *stream)
{
	for (uint32_t i = stream->head; i != stream->tail; i++)
		if (stream->event[i % STREAM_EVENTS].blocked)
			return true;
	return stream->blocked;
}

static inline bool stream_is_closed(const struct stream *stream)
{
	return !stream_has_events(stream) && !stream->open.launches && !stream->credit.given;
}

/* The place of a stream, or -1. */
int stream_find(const struct stream *streams, uint32_t n, CUcontext context, uint64_t key);

/*
 * A place for a stream that has none: one that is free or gone, a new one, or that of the closed
 * stream that was used least recently. -ENOSPC: all are in use.
 */
int stream_place(struct stream *streams, uint32_t *n);

void burst_add(struct burst *burst, const struct burst *more);

#endif
