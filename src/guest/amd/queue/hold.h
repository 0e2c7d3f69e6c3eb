/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of a tenant's queues on a GPU. They follow from the policy, and from the units that
 * the tenants of the GPU were given. If one of these cannot be read, the tenant gets less, never
 * more.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_HOLD_H
#define ALLOT_GUEST_AMD_QUEUE_HOLD_H

#include "guest/amd/queue/queues.h"

/*
 * Brings a device's hold up to date. With `wait` it waits for the lock of the units where another
 * process has it. 0, or an error of allotment_make: then the hold is a safe one, and the caller is
 * to try again.
 */
int queue_hold_refresh(struct queues *queues, int device, bool wait);

/* True if the policy has changed since the hold was computed. */
bool queue_hold_is_old(struct queues *queues, int device);

#endif
