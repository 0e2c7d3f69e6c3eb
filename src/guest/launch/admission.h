/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: the gate in front of work. If nothing is limited, it costs one load. Otherwise a
 * launch waits here while it is not the tenant's turn, while the tenant owes device time, and while
 * enough is in flight for a decision to take effect soon.
 * This file gathers the inputs; the decision is sched/admission.h.
 *
 *	hook ── admission_enter ──► credit? ──► decide: go | wait | stall ──► meter_begin ──► driver
 *	hook ◄─ admission_leave ◄── meter_end ◄──────────────────────────────────────────────── driver
 */
#ifndef ALLOT_GUEST_LAUNCH_ADMISSION_H
#define ALLOT_GUEST_LAUNCH_ADMISSION_H

#include "base/word.h"
#include "guest/core/guest.h"
#include "guest/meter/launch.h"

/* Nothing is limited: the launch is none of our business. */
static inline bool admission_is_open(const struct guest *guest)
{
	return guest_gate_is_open(guest);
}

/* Launches are measured, or held. */
static inline bool admission_is_metered(const struct guest *guest)
{
	return word_acquire(guest->gate) & POLICY_GATE_METERED || guest->metered;
}

/*
 * Otherwise: before work reaches the driver; returns when it may. An error when it cannot be
 * metered: it must not go unlimited.
 */
CUresult admission_enter(struct guest *guest, struct launch *launch);

void admission_left(struct guest *guest, struct launch *launch, CUresult e);

/* After it did, or failed to. */
static inline void admission_leave(struct guest *guest, struct launch *launch, CUresult e)
{
	if (launch->meter && (e || !launch->credited))
		admission_left(guest, launch, e);
}

#endif
