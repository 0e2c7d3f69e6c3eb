/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timing events give differences between each other, as a float of milliseconds. One event is the
 * base; it is moved on before the float gets coarse. What instant the base was is as late as can
 * be, but no mark that is found done was done after now: the one that was found soonest decides.
 * (How soon it was done after it was recorded tells nothing where processes wait for each other's
 * turns, and processes whose clocks differ would bill each other's time away.)
 */
#include "base/now.h"
#include "preload/meter_priv.h"
#include "preload/park.h"

/* 24 bits of a second: a sixteenth of a microsecond. */
#define REBASE_NS 1000000000u
/* How far two clocks may drift apart in that time. */
#define DRIFT_NS  30000

static int find(struct meter_device *md, CUcontext context)
{
	for (int i = 0; i < METER_CLOCKS; i++)
		if (md->clock[i].context == context)
			return i;
	return -1;
}

static void destroy(const CUevent *event, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		DRIVER(cuEventDestroy_v2, (event[i]));
}

int clock_find(struct meter_device *md, CUcontext context)
{
	CUevent event[METER_EVENTS];
	struct park_word park;
	struct capture_mode mode;
	uint32_t n = 0;
	int i;

	meter_lock(md);
	i = find(md, context);
	meter_unlock(md);
	if (i >= 0)
		return i;
	mode = capture_relax();
	while (n < METER_EVENTS && !DRIVER(cuEventCreate, (&event[n], CU_EVENT_DEFAULT)))
		n++;
	park = park_word_new();
	meter_lock(md);
	i = find(md, context);
	if (i < 0 && n && (i = find(md, NULL)) >= 0) {
		struct clock *clock = &md->clock[i];

		*clock = (struct clock){.context = context, .park = park, .events = n};
		for (uint32_t k = 0; k < n; k++)
			clock->event[k] = event[k];
		n = 0;
		park = (struct park_word){0};
	}
	meter_unlock(md);
	destroy(event, n); /* another thread was first, or there is no room */
	park_word_free(park);
	capture_restore(mode);
	return i;
}

CUevent clock_take(struct clock *clock)
{
	return clock->events ? clock->event[--clock->events] : NULL;
}

void clock_give(struct clock *clock, CUevent event)
{
	if (event && clock->events < METER_EVENTS)
		clock->event[clock->events++] = event;
}

/* What was read before was late, or early, by as much: what lies between two marks stays. */
static void move(struct meter_device *md, struct clock *clock, int64_t by_ns)
{
	meter_lock(md); /* whoever takes over a lane sets its done_ns, too */
	clock->base_ns += (uint64_t)by_ns;
	for (int i = 0; i < METER_LANES && md->lane[i].context; i++)
		if (md->lane[i].context == clock->context && md->lane[i].done_ns)
			md->lane[i].done_ns += (uint64_t)by_ns;
	meter_unlock(md);
}

CUresult clock_read(struct meter_device *md, struct clock *clock, struct mark *mark,
		    uint64_t *ret_ns)
{
	float ms = 0;
	int64_t since = 0;
	uint64_t at, now;
	CUresult e;

	e = clock->base ? DRIVER(cuEventElapsedTime, (&ms, clock->base, mark->event))
			: DRIVER(cuEventQuery, (mark->event));
	if (e)
		return e;
	now = now_monotonic_ns();
	if (clock->base)
		since = (int64_t)((double)ms * 1e6);
	else
		clock->base_ns = now;
	at = clock->base_ns + (uint64_t)since;
	if (at < mark->recorded_ns)
		move(md, clock, (int64_t)(mark->recorded_ns - at));
	else if (at > now)
		move(md, clock, -(int64_t)(at - now));
	*ret_ns = clock->base_ns + (uint64_t)since;
	if (!clock->base || since > REBASE_NS) {
		CUevent old = clock->base;

		clock->base = mark->event;
		clock->base_ns = *ret_ns + (old ? DRIFT_NS : 0);
		mark->event = NULL; /* it stays the base's */
		meter_lock(md);
		clock_give(clock, old);
		meter_unlock(md);
	}
	return CUDA_SUCCESS;
}
