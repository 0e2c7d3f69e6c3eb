/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the meter share, and park.c and place.c, which work on its streams. */
#ifndef ALLOT_PRELOAD_METER_PRIV_H
#define ALLOT_PRELOAD_METER_PRIV_H

#include "preload/burst.h"

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

/* Expectations are taken back from sums that may have been given up meanwhile. */
static inline uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

/* Whoever has the lock finds all launches counted that were let through until then. */
static inline void meter_lock(struct meter_device *md)
{
	lock_take(&md->lock);
	if (md->burst.given)
		burst_end(md);
}

static inline void meter_unlock(struct meter_device *md)
{
	lock_drop(&md->lock);
}

/* With the lock: the lane of a stream, a free one, or the one that was idle for longest. */
int lane_find(struct meter_device *md, CUcontext context, uint64_t key, bool *ret_new);

/* With the lock: when what was launched there and no mark covers ran, by what is expected of it. */
struct span lane_loose(const struct lane *lane, uint64_t now_ns);

/* With the lock: that is no longer expected. */
void lane_forget(struct meter_device *md, struct lane *lane);

/* All that was recorded there was collected. */
static inline bool lane_idle(const struct lane *lane)
{
	return lane->head == lane->tail;
}

/* Launches into one stream, one or more, from the first to the last. */
struct tally {
	uint32_t launches;
	bool known;	      /* what is expected was measured, of each */
	uint64_t key;	      /* of all; 0: of several */
	uint64_t expected_ns; /* all of them */
	uint64_t first_ns, last_ns;
};

/* With the lock: they are on their way, and no mark covers them yet. */
void lane_count(struct meter_device *md, struct lane *lane, const struct tally *tally);

/* The clock of the current context, made if need be; -1: no room, or the driver refuses. */
int clock_find(struct meter_device *md, CUcontext context);

/* With the lock: a spare event, or NULL. */
CUevent clock_take(struct clock *clock);
void clock_give(struct clock *clock, CUevent event);

/*
 * When a recorded mark was done, by CLOCK_MONOTONIC, not later than now. The collector alone may
 * ask, with the clock's context current. CUDA_ERROR_NOT_READY: it is not; another error: the driver
 * does not tell.
 */
CUresult clock_read(struct meter_device *md, struct clock *clock, struct mark *mark,
		    uint64_t *ret_ns);

#endif
