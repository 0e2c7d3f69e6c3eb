/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant's queues on a GPU are held to: from the policy, and from the units that all tenants
 * of the GPU have been given. What cannot be found out makes it less, never more.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_HOLD_H
#define ALLOT_GUEST_AMD_QUEUE_HOLD_H

#include "guest/amd/queue/queues.h"

/*
 * Brings a device's hold up to date; with `wait` somebody else's lock is waited for. 0, or an error
 * of allotment_make: the hold is a safe one, and this is to be called again.
 */
int queue_hold_refresh(struct queues *queues, int device, bool wait);

/* Whether the policy has changed since. */
bool queue_hold_is_old(struct queues *queues, int device);

#endif
