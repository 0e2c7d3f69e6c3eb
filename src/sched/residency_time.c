/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/residency_time.h"

#include "base/now.h"
#include "base/number.h"

#define DEVICES RESIDENCY_DEVICES

uint64_t residency_size(const struct residency_tenant *t, int d)
{
	return t->here[d] + t->away[d];
}

static uint64_t residency_guess_ns(const struct residency_params *params,
				   const struct residency_tenant *t)
{
	uint64_t bytes = 0;

	for (int d = 0; d < DEVICES; d++)
		bytes += t->here[d] + t->away[d];
	return bytes / params->bytes_per_us * NS_PER_US;
}

uint64_t residency_out_ns(const struct residency_params *params, const struct residency_tenant *t)
{
	return t->out_ns ? t->out_ns : t->back_ns ? t->back_ns : residency_guess_ns(params, t);
}

uint64_t residency_back_ns(const struct residency_params *params, const struct residency_tenant *t)
{
	uint64_t guess = residency_guess_ns(params, t);

	/*
	 * What leaves for the first time waits for host memory to be found, what comes back does
	 * not.
	 */
	return t->back_ns ? t->back_ns : t->out_ns && t->out_ns < guess ? t->out_ns : guess;
}

uint64_t residency_swap_ns(const struct residency_params *params,
			   const struct residency_tenant *tenant)
{
	return residency_out_ns(params, tenant) + residency_back_ns(params, tenant);
}

uint64_t residency_turn_of_ns(const struct residency_params *params, uint64_t change_ns)
{
	return max_u64(params->turn_swaps * change_ns, params->turn_least_ns);
}

uint64_t residency_turn_ns(const struct residency_params *params,
			   const struct residency_tenant *leaver,
			   const struct residency_tenant *comer)
{
	return residency_turn_of_ns(params, residency_out_ns(params, leaver) +
						    residency_back_ns(params, comer));
}
