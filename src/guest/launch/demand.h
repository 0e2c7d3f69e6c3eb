/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's messages to the arbiter, in its tenant's ledger: that it wants a device, until
 * when it has work there, and when that should be done.
 */
#ifndef ALLOT_GUEST_LAUNCH_DEMAND_H
#define ALLOT_GUEST_LAUNCH_DEMAND_H

#include "guest/launch/state.h"

/* It wants the device for `for_ns`; the arbiter is rung if nothing else tells it. */
void demand_want(struct launch_device *device, uint64_t now_ns, uint64_t for_ns);

/* ... and no longer than until then. */
void demand_settle(struct launch_device *device, uint64_t until_ns);

/* A launch is about to go: says so. False: it is not the tenant's turn any more. */
bool demand_claim(struct launch_device *device, uint64_t now_ns);

/*
 * 0 where work of the tenant may run on the device, or until when not; *ret_turn: others have their
 * turn, and it is said that the tenant wants its own.
 */
uint64_t demand_owes(struct launch_device *device, uint64_t now_ns, bool *ret_turn);

/*
 * For the monitor of a tenant that goes before all others: it wants the device until its work has
 * begun, which nobody else can tell. True while it has not.
 */
bool demand_wishes(struct launch_device *device, uint64_t now_ns);

/* Beside others: the program waits for what it launched, and launches nothing before. */
void demand_rest(const struct launch_device *device);

/*
 * Tells the arbiter until when there is work of this process, which is at least to the next look at
 * it while any of it is not done, and when it should be done.
 */
void demand_publish(struct launch_device *device, uint64_t now_ns);

#endif
