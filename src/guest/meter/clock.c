/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instant of the base is taken as late as possible, but no event that is found done was done
 * after now: the event that was found soonest decides. (How soon it was done after it was recorded
 * tells nothing where processes wait for each other's turns, and processes whose clocks differ
 * would bill each other's time away.) The events of a program may all be found late, so a new base
 * is an event of our own, unless another tenant has the device.
 */
#include "guest/meter/clock.h"

#include "base/now.h"
#include "guest/core/guest.h"
#include "guest/meter/stream.h"

/* 24 bits of a second: a sixteenth of a microsecond. Where the device is another's it may wait. */
#define REBASE_NS      1000000000
#define REBASE_MOST_NS 10000000000
#define RETRY_NS       100000000
/* How far two clocks may drift apart in that time. */
#define DRIFT_NS 30000
/* Longer than that an event of our own takes only behind somebody else's work. */
#define SOON_NS 50000

void clock_destroy(const CUevent *event, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		DRIVER(cuEventDestroy_v2, (event[i]));
}

/* True if the event is done, now or, with `wait`, at any later time. */
static bool clock_is_done(CUevent event, uint64_t from_ns, bool wait)
{
	CUresult e;

	if (wait)
		return !DRIVER(cuEventSynchronize, (event));
	do
		e = DRIVER(cuEventQuery, (event));
	while (e == CUDA_ERROR_NOT_READY && now_monotonic_ns() < from_ns + SOON_NS);
	return !e;
}

CUevent clock_calibrate(bool wait, uint64_t *ret_base_ns)
{
	uint64_t best = UINT64_MAX;
	CUevent base = NULL, event;
	CUstream stream;

	if (DRIVER(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING)))
		return NULL;
	for (int i = 0; i < 3 && !DRIVER(cuEventCreate, (&event, CU_EVENT_DEFAULT)); i++) {
		uint64_t from = now_monotonic_ns(), to;
		bool ok =
			!DRIVER(cuEventRecord, (event, stream)) && clock_is_done(event, from, wait);

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
		if (!ok)
			break;
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

/* How long after a base an event was done. */
static CUresult clock_since(CUevent base, CUevent event, int64_t *ret_ns)
{
	float ms;
	CUresult e = DRIVER(cuEventElapsedTime, (&ms, base, event));

	if (!e)
		*ret_ns = (int64_t)((double)ms * 1e6);
	return e;
}

/* Another base: one of our own, or else the event itself. Answers when the event was done by it. */
static uint64_t clock_rebase(struct clock *clock, struct timing_event *event, uint64_t done_ns)
{
	CUevent old = clock->base, base = NULL;
	uint64_t base_ns = 0;
	int64_t since;

	if (old)
		base = clock_calibrate(false, &base_ns);
	if (old && !base && done_ns < clock->base_ns + REBASE_MOST_NS)
		return done_ns;
	if (base && !clock_since(base, event->event, &since)) {
		done_ns = base_ns + (uint64_t)since;
	} else {
		if (base)
			clock_destroy(&base, 1);
		base = event->event;
		base_ns = done_ns + (old ? DRIFT_NS : 0);
		event->event = NULL; /* it stays the base's */
	}
	if (old)
		clock_destroy(&old, 1);
	clock->base = base;
	clock->base_ns = base_ns;
	return done_ns;
}

uint64_t clock_ask(const struct clock *clock, CUevent event)
{
	int64_t since;

	if (!clock->base || DRIVER(cuEventQuery, (event)) ||
	    clock_since(clock->base, event, &since))
		return 0;
	return clock->base_ns + (uint64_t)since;
}

/* Asked first: to ask for the time of an event that is not done is an error to some tools. */
CUresult clock_read(struct clock *clock, struct timing_event *event, uint64_t *ret_ns,
		    int64_t *ret_early_ns)
{
	CUresult e = DRIVER(cuEventQuery, (event->event));
	int64_t since = 0;
	uint64_t at, done, now;

	if (!e && clock->base)
		e = clock_since(clock->base, event->event, &since);
	if (e)
		return e;
	now = now_monotonic_ns();
	if (!clock->base)
		clock->base_ns = now;
	at = done = clock->base_ns + (uint64_t)since;
	if (at < event->recorded_ns)
		done = event->recorded_ns;
	else if (at > now)
		done = now;
	clock->base_ns += done - at;
	if (!clock->base || (since > REBASE_NS && now > clock->tried_ns + RETRY_NS)) {
		clock->tried_ns = now;
		done = clock_rebase(clock, event, done);
	}
	*ret_ns = done;
	*ret_early_ns = (int64_t)(done - at);
	return CUDA_SUCCESS;
}
