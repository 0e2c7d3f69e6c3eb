/* SPDX-License-Identifier: Apache-2.0 */
#include "node/compute_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sched/controller.h"
#include "text/units.h"

const char *const compute_policies[POLICY_COMPUTES] = {
	[POLICY_COMPUTE_OFF] = "off",
	[POLICY_COMPUTE_CAP] = "cap",
	[POLICY_COMPUTE_SHARE] = "share",
};

const char *const compute_modes[POLICY_MODES] = {
	[POLICY_MODE_TURNS] = "turns",
	[POLICY_MODE_SPACE] = "space",
};

const char *const compute_priorities[POLICY_PRIORITIES] = {
	[POLICY_PRIORITY_NORMAL] = "normal",
	[POLICY_PRIORITY_LOW] = "low",
	[POLICY_PRIORITY_HIGH] = "high",
};

__attribute__((format(printf, 2, 3))) static void compute_words_append(struct compute_text *t,
								       const char *fmt, ...)
{
	size_t len = strlen(t->s);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->s + len, sizeof(t->s) - len, fmt, ap);
	va_end(ap);
}

/* `share_permille` 0: the share is not wanted, or there is none. */
static struct compute_text compute_words_how(const struct policy *p, uint32_t share_permille)
{
	bool by_weight = p->compute == POLICY_COMPUTE_SHARE && p->weight;
	struct compute_text t = {""};

	if (!by_weight)
		compute_words_append(&t, "%s", compute_policies[p->compute]);
	if (!by_weight && share_permille)
		compute_words_append(&t, " %s", units_permille(share_permille).s);
	if (p->weight)
		compute_words_append(&t, "%sweight %u", by_weight ? "" : ", ", p->weight);
	if (p->floor_permille)
		compute_words_append(&t, ", floor %s",
				     p->floor_permille == POLICY_FLOOR_NONE
					     ? "off"
					     : units_permille(p->floor_permille).s);
	if (p->priority != POLICY_PRIORITY_NORMAL)
		compute_words_append(&t, ", %s", compute_priorities[p->priority]);
	return t;
}

struct compute_text compute_how(const struct policy *policy)
{
	return compute_words_how(policy, 0);
}

struct compute_text compute_words(const struct policy *policy, unsigned int i)
{
	struct compute_text t = {"off"};

	if (policy->compute == POLICY_COMPUTE_OFF) {
		if (policy->meter)
			compute_words_append(&t, ", measured");
		return t;
	}
	t = compute_words_how(policy, policy->device[i].share_permille);
	if (policy->mode != POLICY_MODE_TURNS)
		compute_words_append(&t, ", %s", compute_modes[policy->mode]);
	if (policy->controller != CONTROLLER_DEFICIT)
		compute_words_append(&t, ", %s", controller_by_id(policy->controller)->name);
	if (policy->inflight_us)
		compute_words_append(&t, ", %s in flight",
				     units_duration(policy->inflight_us * UINT64_C(1000)).s);
	if (policy->latency_us)
		compute_words_append(&t, ", latency %s",
				     units_duration(policy->latency_us * UINT64_C(1000)).s);
	if (policy->slice_us)
		compute_words_append(&t, ", slice %s",
				     units_duration(policy->slice_us * UINT64_C(1000)).s);
	/* A limited tenant is measured in any case. */
	if (policy->meter && !policy_limits_compute(policy))
		compute_words_append(&t, ", measured");
	return t;
}
