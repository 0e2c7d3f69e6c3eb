/* SPDX-License-Identifier: Apache-2.0 */
/* How long it takes that tenants' memory leaves and comes back, and so how long a turn is. */
#ifndef ALLOT_SCHED_RESIDENCY_TIME_H
#define ALLOT_SCHED_RESIDENCY_TIME_H

#include <stdint.h>

#include "sched/residency_tenant.h"

/* What a tenant has of a device, there or away. */
uint64_t residency_size(const struct residency_tenant *t, int d);

uint64_t residency_out_ns(const struct residency_params *params, const struct residency_tenant *t);
uint64_t residency_back_ns(const struct residency_params *params, const struct residency_tenant *t);

/* A turn, where moving takes so long. */
uint64_t residency_turn_of_ns(const struct residency_params *params, uint64_t change_ns);

/* How long `leaver` may stay where `comer` waits, if all of both has to move. */
uint64_t residency_turn_ns(const struct residency_params *params,
			   const struct residency_tenant *leaver,
			   const struct residency_tenant *comer);

/* How long all of it takes to leave and to come back. */
uint64_t residency_swap_ns(const struct residency_params *params,
			   const struct residency_tenant *tenant);

#endif
