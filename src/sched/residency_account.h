/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of each tenant: the time that it had of the devices while others wanted them, by its
 * weight. Tenants that run at the same time share the device, so a tenant of weight w that runs
 * beside others for a time t has had t * w / (sum of the weights of all that run), and its account
 * grows by t / (that sum). If all that run are metered, the time that the device worked for each is
 * known and counts instead: what they lose by handing the device over to each other is nobody's. Of
 * the rest of t only what exceeds their work is divided as above, so programs that leave the device
 * idle have their turns at most twice as long. A tenant that runs alone has had all of the time.
 *
 * Accounts are compared among tenants of one priority that have memory on the same device: these
 * are rivals. The account of a tenant that begins to compete starts where the least of those that
 * run is. A tenant in nobody's way has had more than its rivals, and one that cannot come has had
 * less: neither counts for more than two rounds.
 */
#ifndef ALLOT_SCHED_RESIDENCY_ACCOUNT_H
#define ALLOT_SCHED_RESIDENCY_ACCOUNT_H

#include "sched/residency_tenant.h"

/*
 * Counts the time since the last step, and says to each tenant what it is entitled to. `devices`:
 * as many have memory of anybody.
 */
void residency_account_count(const struct residency_params *params, struct residency_tenant *tenant,
			     int n, int devices, uint64_t now_ns);

/*
 * How much longer `tenant` has to run until its account is half a turn ahead of that of `comer`, if
 * it runs alone; 0: it is.
 */
uint64_t residency_account_left_ns(const struct residency_tenant *tenant,
				   const struct residency_tenant *comer, uint64_t turn_ns);

#endif
