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

struct timing_event;

#define CLOCKS	     64 /* contexts of one device */
#define CLOCK_EVENTS 128 /* spare ones */

struct clock {
	CUcontext context; /* NULL: free */
	CUevent base;
	uint64_t base_ns;
	uint64_t tried_ns; /* when another base was looked for */
	uint64_t used_ns;
	uint32_t spares;
	CUevent spare[CLOCK_EVENTS];
};

/*
 * Records an event in a stream of our own, to relate the device's clock to ours. Of three, the one
 * that was found soonest is the base; NULL if the driver refuses, or, without `wait`, if another
 * tenant has the device.
 */
CUevent clock_calibrate(bool wait, uint64_t *ret_base_ns);

/* With the lock: a spare event, or NULL; and back. False: there is no room, it is to be destroyed. */
CUevent clock_take(struct clock *clock);
bool clock_give(struct clock *clock, CUevent event);

void clock_destroy(const CUevent *event, uint32_t n);

/*
 * When a recorded event was done, by CLOCK_MONOTONIC, not later than now. One thread at a time may
 * ask, with the clock's context current. CUDA_ERROR_NOT_READY: it is not done; another error: the
 * driver does not tell. An event that becomes the base is taken out of the timing event.
 * *ret_early_ns: by how much earlier readings were early, or late.
 */
CUresult clock_read(struct clock *clock, struct timing_event *event, uint64_t *ret_ns,
		    int64_t *ret_early_ns);

/* When an event that is not the meter's was done; 0: it is not, or the driver does not tell. */
uint64_t clock_ask(const struct clock *clock, CUevent event);

#endif
