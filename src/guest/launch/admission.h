/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: the gate in front of work. Nothing limited, it costs one load. Otherwise a launch
 * waits here while `allot` has closed the tenant, while it is not the tenant's turn, while the
 * tenant owes device time, and while enough is in flight for a decision to take effect soon. What
 * is waited for is gathered here; the decision is share/admission.h.
 *
 *	hook ── admission_enter ──► credit? ──► decide: go | wait | stall ──► meter_begin ──► driver
 *	hook ◄─ admission_leave ◄── meter_end ◄──────────────────────────────────────────────── driver
 */
#ifndef ALLOT_GUEST_LAUNCH_ADMISSION_H
#define ALLOT_GUEST_LAUNCH_ADMISSION_H

#include "base/atomic.h"
#include "guest/meter/launch.h"
#include "preload/guest.h"

struct launch_device;
struct launch_state;

/* Nothing is limited: the launch is none of our business. */
static inline bool admission_is_open(const struct guest *guest)
{
	return __builtin_expect(atomic_peek(guest->gate) == POLICY_GATE_OPEN, 1);
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

/*
 * 0 where work of the tenant may run on the device, or until when not; *ret_turn: others have their
 * turn, and it is said that the tenant wants its own.
 */
uint64_t admission_owes(struct launch_device *device, uint64_t now_ns, bool *ret_turn);

/*
 * For the monitor of a tenant that goes before all others: it wants the device until its work has
 * begun, which nobody else can tell. True while it has not.
 */
bool admission_wishes(struct launch_device *device, uint64_t now_ns);

/*
 * Tells the arbiter until when there is work of this process, which is at least to the next look at
 * it while any of it is not done, and when it should be done.
 */
void admission_publish(struct launch_device *device, uint64_t now_ns);

#endif
