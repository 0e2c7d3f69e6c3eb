/* SPDX-License-Identifier: Apache-2.0 */
/* Which contexts of a device have a clock. */
#ifndef ALLOT_GUEST_METER_CONTEXTS_H
#define ALLOT_GUEST_METER_CONTEXTS_H

#include "guest/meter/state.h"

/*
 * The clock of the current context, made if need be, with spare events. -ENOSPC: the driver refuses,
 * or all clocks are of contexts that work. Takes the lock.
 */
int contexts_clock(struct meter *meter, CUcontext context, uint64_t now_ns);

/* clock_read for the collecting thread, with the clock's context current. */
CUresult contexts_read(struct meter *meter, struct clock *clock, struct timing_event *event,
		       uint64_t *ret_ns);

#endif
