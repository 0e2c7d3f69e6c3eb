/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What instant the base was is as late as can be, but no event that is found done was done after
 * now: the one that was found soonest decides. (How soon it was done after it was recorded tells
 * nothing where processes wait for each other's turns, and processes whose clocks differ would bill
 * each other's time away.)
 */
#include "guest/meter/clock.h"

#include "base/now.h"
#include "guest/core/guest.h"
#include "guest/meter/stream.h"

/* 24 bits of a second: a sixteenth of a microsecond. */
#define REBASE_NS 1000000000
/* How far two clocks may drift apart in that time. */
#define DRIFT_NS 30000

void clock_destroy(const CUevent *event, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		DRIVER(cuEventDestroy_v2, (event[i]));
}

CUevent clock_calibrate(uint64_t *ret_base_ns)
{
	uint64_t best = UINT64_MAX;
	CUevent base = NULL, event;
	CUstream stream;

	if (DRIVER(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING)))
		return NULL;
	for (int i = 0; i < 3 && !DRIVER(cuEventCreate, (&event, CU_EVENT_DEFAULT)); i++) {
		uint64_t from = now_monotonic_ns(), to;
		bool ok = !DRIVER(cuEventRecord, (event, stream)) &&
			  !DRIVER(cuEventSynchronize, (event));

		to = now_monotonic_ns();
		if (ok && to - from < best) {
			CUevent worse = base;

			best = to - from;
			base = event;
			*ret_base_ns = to;
			event = worse;
		}
		if (event)
			clock_destroy(&event, 1);
	}
	DRIVER(cuStreamDestroy_v2, (stream));
	return base;
}

CUevent clock_take(struct clock *clock)
{
	return clock->spares ? clock->spare[--clock->spares] : NULL;
}

bool clock_give(struct clock *clock, CUevent event)
{
	bool room = clock->spares < CLOCK_EVENTS;

	if (event && room)
		clock->spare[clock->spares++] = event;
	return room;
}

/* Asked first: to ask for the time of an event that is not done is an error to some tools. */
CUresult clock_read(struct clock *clock, struct timing_event *event, uint64_t *ret_ns,
		    int64_t *ret_early_ns)
{
	CUresult e = DRIVER(cuEventQuery, (event->event));
	int64_t since = 0;
	uint64_t at, now;
	float ms = 0;

	if (!e && clock->base)
		e = DRIVER(cuEventElapsedTime, (&ms, clock->base, event->event));
	if (e)
		return e;
	now = now_monotonic_ns();
	if (clock->base)
		since = (int64_t)((double)ms * 1e6);
	else
		clock->base_ns = now;
	at = clock->base_ns + (uint64_t)since;
	*ret_early_ns = 0;
	if (at < event->recorded_ns)
		*ret_early_ns = (int64_t)(event->recorded_ns - at);
	else if (at > now)
		*ret_early_ns = -(int64_t)(at - now);
	clock->base_ns += (uint64_t)*ret_early_ns;
	*ret_ns = clock->base_ns + (uint64_t)since;
	if (!clock->base || since > REBASE_NS) {
		CUevent old = clock->base;

		clock->base = event->event;
		clock->base_ns = *ret_ns + (old ? DRIFT_NS : 0);
		event->event = NULL; /* it stays the base's */
		if (old)
			clock_destroy(&old, 1);
	}
	return CUDA_SUCCESS;
}
