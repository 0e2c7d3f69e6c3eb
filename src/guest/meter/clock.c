/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What instant the base was is as late as can be, but no event that is found done was done after
 * now: the one that was found soonest decides. (How soon it was done after it was recorded tells
 * nothing where processes wait for each other's turns, and processes whose clocks differ would bill
 * each other's time away.)
 */
#include "guest/meter/clock.h"

#include "base/now.h"
#include "guest/meter/meter_priv.h"

/* 24 bits of a second: a sixteenth of a microsecond. */
#define REBASE_NS 1000000000
/* How far two clocks may drift apart in that time. */
#define DRIFT_NS 30000
/* Made at once where there is none left. */
#define REFILL 8

static int find(const struct meter *meter, CUcontext context)
{
	for (int i = 0; i < CLOCKS; i++)
		if (meter->clock[i].context == context)
			return i;
	return -1;
}

static bool is_used(const struct meter *meter, int clock)
{
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].clock == clock && meter->stream[i].key &&
		    (!stream_is_closed(&meter->stream[i]) || meter->stream[i].leaving))
			return true;
	return false;
}

/* With the lock: the least recently used whose streams are closed gives up its place. */
static int evict(struct meter *meter, struct clock *ret_old)
{
	int oldest = -1;

	for (int i = 0; i < CLOCKS; i++)
		if (!is_used(meter, i) &&
		    (oldest < 0 || meter->clock[i].used_ns < meter->clock[oldest].used_ns))
			oldest = i;
	if (oldest < 0)
		return -1;
	*ret_old = meter->clock[oldest];
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].clock == oldest)
			meter->stream[i].key = 0;
	meter->clock[oldest] = (struct clock){.context = NULL};
	return oldest;
}

static void destroy(const CUevent *event, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		DRIVER(cuEventDestroy_v2, (event[i]));
}

/*
 * What instant the device's clock shows: an event in a stream of our own, waited for. The one that
 * was found soonest is the base; none can be had where the driver refuses.
 */
static CUevent calibrate(uint64_t *ret_base_ns)
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
			destroy(&event, 1);
	}
	DRIVER(cuStreamDestroy_v2, (stream));
	return base;
}

int clock_ready(struct meter *meter, CUcontext context, uint64_t now_ns)
{
	struct clock old = {.context = NULL};
	CUevent event[REFILL], base = NULL;
	struct capture_mode mode;
	uint64_t base_ns = 0;
	uint32_t n = 0;
	int i;

	mode = capture_relax();
	while (n < REFILL && !DRIVER(cuEventCreate, (&event[n], CU_EVENT_DEFAULT)))
		n++;
	meter_lock(meter);
	i = find(meter, context);
	meter_unlock(meter);
	if (i < 0 && n)
		base = calibrate(&base_ns);
	meter_lock(meter);
	i = find(meter, context);
	if (i < 0 && n) {
		i = find(meter, NULL);
		if (i < 0)
			i = evict(meter, &old);
		if (i >= 0) {
			meter->clock[i] = (struct clock){
				.context = context, .base = base, .base_ns = base_ns};
			base = NULL;
		}
	}
	if (i >= 0) {
		meter->clock[i].used_ns = now_ns;
		while (n && meter->clock[i].spares < CLOCK_EVENTS)
			clock_give(&meter->clock[i], event[--n]);
	}
	meter_unlock(meter);
	destroy(event, n);
	destroy(old.spare, old.spares);
	if (old.base)
		destroy(&old.base, 1);
	if (base) /* another thread was first, or there is no room */
		destroy(&base, 1);
	capture_restore(mode);
	return i;
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

/* What was read before was late, or early, by as much: what lies between two events stays. */
static void move(struct meter *meter, struct clock *clock, int64_t by_ns)
{
	meter_lock(meter);
	clock->base_ns += (uint64_t)by_ns;
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == clock->context && meter->stream[i].since_ns)
			meter->stream[i].since_ns += (uint64_t)by_ns;
	meter_unlock(meter);
}

/* Asked first: to ask for the time of an event that is not done is an error to some tools. */
CUresult clock_read(struct meter *meter, struct clock *clock, struct timing_event *event,
		    uint64_t *ret_ns)
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
	if (at < event->recorded_ns)
		move(meter, clock, (int64_t)(event->recorded_ns - at));
	else if (at > now)
		move(meter, clock, -(int64_t)(at - now));
	*ret_ns = clock->base_ns + (uint64_t)since;
	if (!clock->base || since > REBASE_NS) {
		CUevent old = clock->base;

		clock->base = event->event;
		clock->base_ns = *ret_ns + (old ? DRIFT_NS : 0);
		event->event = NULL; /* it stays the base's */
		if (old)
			destroy(&old, 1);
	}
	return CUDA_SUCCESS;
}
