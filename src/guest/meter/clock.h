/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's clock as seen through one context's timing events, in CLOCK_MONOTONIC, and the
 * spare events of that context. Events give differences between each other, as a float of
 * milliseconds. One event is the base; it is moved on before the float gets coarse.
 */
#ifndef ALLOT_GUEST_METER_CLOCK_H
#define ALLOT_GUEST_METER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "nvidia/cuda_api.h"

struct meter;
struct timing_event;

#define CLOCKS	     64 /* contexts of one device */
#define CLOCK_EVENTS 128 /* spare ones */

struct clock {
	CUcontext context; /* NULL: free */
	CUevent base;
	uint64_t base_ns;
	uint64_t used_ns;
	uint32_t spares;
	CUevent spare[CLOCK_EVENTS];
};

/*
 * The clock of the current context, made if need be, with spare events. -1: the driver refuses, or
 * all clocks are of contexts that work. Takes the meter's lock.
 */
int clock_ready(struct meter *meter, CUcontext context, uint64_t now_ns);

/* With the lock: a spare event, or NULL; and back. False: there is no room, it is to be destroyed. */
CUevent clock_take(struct clock *clock);
bool clock_give(struct clock *clock, CUevent event);

/*
 * When a recorded event was done, by CLOCK_MONOTONIC, not later than now. Only who collects may
 * ask, with the clock's context current. CUDA_ERROR_NOT_READY: it is not; another error: the driver
 * does not tell. An event that becomes the base is taken out of the timing event.
 */
CUresult clock_read(struct meter *meter, struct clock *clock, struct timing_event *event,
		    uint64_t *ret_ns);

#endif
