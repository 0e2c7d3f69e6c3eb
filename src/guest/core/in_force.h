/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy in force in this process: the tenant's, lowered by the process's own configuration
 * (dropin/config.h). Of several limits the smallest applies.
 */
#ifndef ALLOT_GUEST_CORE_IN_FORCE_H
#define ALLOT_GUEST_CORE_IN_FORCE_H

#include "guest/core/guest.h"

/*
 * The policy in force now, of whichever GPUs: what `allot set` wrote last, with no more compute
 * than the configuration gives. Memory is lowered by guest_limit, where the device's total is
 * known. Errors of policy_read; guest_explain_policy says them to a person.
 */
int in_force_policy(const struct guest *guest, struct policy *ret);

/*
 * Lowers the shares of a policy in this way. A configured share is a cap, also for a tenant with a
 * weight.
 */
void in_force_lower(const struct guest *guest, struct policy *policy);

#endif
