/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/space.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "guest/core/in_force.h"
#include "guest/process/complain.h"
#include "nvidia/mps.h"

/* Not for ever: once a daemon is started again the program's next attempt succeeds. */
__attribute__((format(printf, 2, 3))) static CUresult space_refuse(struct guest *guest,
								   const char *why, ...)
{
	char complaint[224];
	va_list ap;

	if (atomic_exchange(&guest->space.refused, true))
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	va_start(ap, why);
	vsnprintf(complaint, sizeof(complaint), why, ap);
	va_end(ap);
	complain_refusal(complaint);
	return CUDA_ERROR_MPS_CONNECTION_FAILED;
}

static CUresult space_read_policy(struct guest *guest, struct policy *ret)
{
	char why[200];
	int r = in_force_policy(guest, ret);

	if (!r)
		return CUDA_SUCCESS;
	guest_explain_policy(guest, r, why, sizeof(why));
	return space_refuse(guest, "%s", why);
}

/* Less than that is the program's own affair; no number is the whole device. */
static CUresult space_check_part_asked(struct guest *guest, uint32_t most, uint32_t *ret_permille)
{
	const char *asked = getenv(MPS_PART), *by_context = getenv(MPS_PART_BY_CONTEXT);
	uint32_t permille;

	if (!asked)
		return space_refuse(guest, MPS_PART " is gone from the environment; "
						    "start the program with `allot run`");
	/* With a "%" it is none for MPS either. */
	if (strchr(asked, '%') || parse_permille(asked, &permille))
		return space_refuse(guest,
				    MPS_PART "=%.20s is no percentage in steps of "
					     "0.1; start the program with `allot run`",
				    asked);
	if (permille > most)
		return space_refuse(guest,
				    MPS_PART "=%.20s is more than the tenant's %s; "
					     "start the program anew with `allot run`",
				    asked, mps_part_text(most).s);
	if (by_context && strcmp(by_context, "0"))
		return space_refuse(guest,
				    MPS_PART_BY_CONTEXT " would let each context have a part of "
							"its own; unset it, or use --mode turns");
	*ret_permille = permille;
	return CUDA_SUCCESS;
}

/* A tenant of high priority may yield; another may not do without. */
static CUresult space_check_priority(struct guest *guest, bool yields, bool *ret_yields)
{
	const char *asked = getenv(MPS_PRIORITY);

	if (yields && !asked)
		return space_refuse(guest, MPS_PRIORITY " is gone from the environment; "
							"start the program with `allot run`");
	if (yields && strcmp(asked, MPS_PRIORITY_BELOW))
		return space_refuse(guest,
				    MPS_PRIORITY
				    "=%.20s is not 1, with which the tenant yields "
				    "to high priority; start the program anew with `allot run`",
				    asked);
	*ret_yields = asked && !strcmp(asked, MPS_PRIORITY_BELOW);
	return CUDA_SUCCESS;
}

static CUresult space_check_part(struct guest *guest, const struct policy *policy)
{
	uint32_t part, asked;
	bool yields = false;
	CUresult e;

	if (policy_part(policy, &part))
		return space_refuse(
			guest,
			"tenant %.60s has no part of the SMs that is below 100%% and the "
			"same on all devices; give it one with `allot set --compute`",
			policy->name);
	e = space_check_part_asked(guest, part, &asked);
	if (!e)
		e = space_check_priority(guest, policy_yields(policy), &yields);
	if (e)
		return e;
	atomic_store(&guest->space.permille, asked);
	atomic_store(&guest->space.yields, yields);
	return CUDA_SUCCESS;
}

static CUresult space_check_daemon(struct guest *guest)
{
	const char *pipe = getenv(MPS_PIPE);
	int r;

	if (!pipe)
		return space_refuse(guest, MPS_PIPE " is gone from the environment; "
						    "start the program with `allot run`");
	r = mps_probe(pipe);
	if (r)
		return space_refuse(guest,
				    "no MPS daemon answers in %.100s (%s); `allot run` starts one",
				    pipe, strerror(-r));
	return CUDA_SUCCESS;
}

CUresult space_expect(struct guest *guest)
{
	struct policy policy;
	CUresult e = space_read_policy(guest, &policy);

	if (e || policy.mode != POLICY_MODE_SPACE)
		return e;
	e = space_check_part(guest, &policy);
	return e ? e : space_check_daemon(guest);
}

CUresult space_confirm(struct guest *guest, int count)
{
	struct policy policy;
	CUresult e = space_read_policy(guest, &policy);

	if (e || policy.mode != POLICY_MODE_SPACE)
		return e;
	for (int i = 0; i < count; i++) {
		int mps = 0;

		if (DRIVER(cuDeviceGetAttribute, (&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, i)))
			return space_refuse(guest,
					    "this driver does not tell whether it runs under MPS; "
					    "update it, or use --mode turns");
		if (!mps)
			return space_refuse(guest,
					    "the driver runs without MPS though a daemon answers; "
					    "see the daemon's log, or use --mode turns");
	}
	atomic_store(&guest->space.confirmed, true);
	return CUDA_SUCCESS;
}

/* By what was asked for at cuInit, not by the policy of now: a process that runs keeps its part. */
CUresult space_context(struct guest *guest)
{
	uint32_t asked;
	bool yields;
	CUresult e;

	if (!atomic_load(&guest->space.confirmed))
		return CUDA_SUCCESS;
	e = space_check_part_asked(guest, atomic_load(&guest->space.permille), &asked);
	return e ? e : space_check_priority(guest, atomic_load(&guest->space.yields), &yields);
}
