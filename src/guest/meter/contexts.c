/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/contexts.h"

#include <errno.h>

#include "guest/meter/capture.h"

/* Events made at once where there is none left. */
#define REFILL 8

static int contexts_find(const struct meter *meter, CUcontext context)
{
	for (int i = 0; i < CLOCKS; i++)
		if (meter->clock[i].context == context)
			return i;
	return -1;
}

static bool contexts_is_used(const struct meter *meter, int clock)
{
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].clock == clock && meter->stream[i].key &&
		    (!stream_is_closed(&meter->stream[i]) || meter->stream[i].leaving))
			return true;
	return false;
}

/* With the lock: the least recently used whose streams are closed gives up its place. */
static int contexts_evict(struct meter *meter, struct clock *ret_old)
{
	int oldest = -1;

	for (int i = 0; i < CLOCKS; i++)
		if (!contexts_is_used(meter, i) &&
		    (oldest < 0 || meter->clock[i].used_ns < meter->clock[oldest].used_ns))
			oldest = i;
	if (oldest < 0)
		return -ENOSPC;
	*ret_old = meter->clock[oldest];
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].clock == oldest)
			meter->stream[i].key = 0;
	meter->clock[oldest] = (struct clock){.context = NULL};
	return oldest;
}

int contexts_clock(struct meter *meter, CUcontext context, uint64_t now_ns)
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
	i = contexts_find(meter, context);
	meter_unlock(meter);
	if (i < 0 && n)
		base = clock_calibrate(true, &base_ns);
	meter_lock(meter);
	i = contexts_find(meter, context);
	if (i < 0 && n) {
		i = contexts_find(meter, NULL);
		if (i < 0)
			i = contexts_evict(meter, &old);
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
	clock_destroy(event, n);
	clock_destroy(old.spare, old.spares);
	if (old.base)
		clock_destroy(&old.base, 1);
	if (base) /* another thread was first, or there is no room */
		clock_destroy(&base, 1);
	capture_restore(mode);
	return i < 0 ? -ENOSPC : i;
}

/* Instants that were read before were late, or early, by as much; differences of them stay. */
static void contexts_move(struct meter *meter, const struct clock *clock, int64_t by_ns)
{
	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++)
		if (meter->stream[i].context == clock->context && meter->stream[i].since_ns)
			meter->stream[i].since_ns += (uint64_t)by_ns;
	meter_unlock(meter);
}

CUresult contexts_read(struct meter *meter, struct clock *clock, struct timing_event *event,
		       uint64_t *ret_ns)
{
	int64_t early = 0;
	CUresult e = clock_read(clock, event, ret_ns, &early);

	if (early)
		contexts_move(meter, clock, early);
	return e;
}
