/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residency: who has its memory on the devices, of tenants whose memory does not fit there
 * together. A pure function: it is told what each tenant holds, where that is and whether somebody
 * waits for it, and answers who is to leave and who is to come. It moves nothing, and knows no
 * clock.
 *
 * A tenant leaves only for another one that waits, or if it is to leave when it is idle
 * (idle_suspend_ns). Tenants that wait are served by priority, then by their accounts
 * (residency_account.h), the least first; one that has waited for long goes before all others. For each
 * is planned which tenants have to leave:
 *
 *	1. idle ones: those that are ready to leave, and then the longest idle first
 *	2. ones of a lower priority, after as long as moving takes
 *	3. those whose turn is over, the largest account first
 *
 * Of each, as much leaves as the one that waits needs, and it does not run then: so more of it may
 * follow for others ahead of what is in use. Who waits comes as soon as all who make room for it
 * are on their way, and takes what they leave.
 *
 * A turn is several times as long as moving takes: who leaves there and who comes back, as
 * measured. So tenants that all compute lose a bounded part of the time to moving. A turn goes on until
 * the tenant's account is half a turn ahead of the account of the one that waits; for that the longest
 * turn of all rivals counts. So each has its part of the device by weight, whatever its size and
 * whatever moving it takes. If a plan needs somebody whose turn goes on, nobody of it leaves yet. What a
 * plan frees is kept for whom it was made, so no number of small tenants keeps a large one out: its
 * account stands still while those of the others grow.
 */
#ifndef ALLOT_SCHED_RESIDENCY_H
#define ALLOT_SCHED_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/residency_tenant.h"

/*
 * Decides for `n` entries on RESIDENCY_DEVICES devices. Answers whether anybody waits: then step
 * again when something has changed, or soon.
 */
bool residency_step(const struct residency_params *params, struct residency_tenant *tenant, int n,
		    const struct residency_device device[static RESIDENCY_DEVICES], uint64_t now_ns);

/*
 * When a tenant leaves though nobody waits, if it does not use its memory until then; UINT64_MAX: it
 * stays, or it cannot leave. Then is the time for a step.
 */
uint64_t residency_leaves_idle_ns(const struct residency_tenant *t);
/* True if there is such a time, or would be without `fixed`. */
bool residency_may_leave_idle(const struct residency_tenant *t);

#endif
