/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/strangers.h"

#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "daemon/audit/unenforced.h"

/* A list takes a while: it was asked for before it was heard. */
#define LIST_NS (5 * NS_PER_S)

/* By its Pod alone: one that begins a program each second is no other one each second. */
static void strangers_print(const struct pod *pod, char ret[static FAULT_WORDS])
{
	if (*pod->name)
		snprintf(ret, FAULT_WORDS, "Pod %.40s/%.60s uses it without a part of it", pod->space, pod->name);
	else
		snprintf(ret, FAULT_WORDS, "container %.40s of the Pod with uid %.40s uses it without a part of it",
			 pod->container, pod->uid);
}

/* When the first one was seen there; it is noted where there was none. */
static uint64_t strangers_since_ns(const struct strangers *before, struct strangers *now,
				   const uint8_t uuid[static 16], uint64_t now_ns)
{
	uint64_t since_ns = now_ns;

	for (unsigned int i = 0; i < before->n; i++)
		if (!memcmp(before->list[i].uuid, uuid, 16))
			since_ns = before->list[i].since_ns;
	if (now->n < POLICY_DEVICES) {
		memcpy(now->list[now->n].uuid, uuid, 16);
		now->list[now->n++].since_ns = since_ns;
	}
	return since_ns;
}

static bool strangers_has(const struct strangers *strangers, const uint8_t uuid[static 16])
{
	for (unsigned int i = 0; i < strangers->n; i++)
		if (!memcmp(strangers->list[i].uuid, uuid, 16))
			return true;
	return false;
}

void strangers_look(struct strangers *strangers, const struct counts *counts, const struct audit_report *audit,
		    uint64_t now_ns, struct faults *ret)
{
	const struct strangers before = *strangers;

	strangers->n = 0;
	*ret = (struct faults){.n = 0};
	for (size_t i = 0; counts->whole_ns && counts->devices && i < audit->n; i++) {
		const struct outsider_found *f = &audit->finding[i].found;
		const struct outsider *o = &f->outsider;
		struct fault *fault = &ret->list[ret->n];

		if (o->standing != OUTSIDER_UNLIMITED || !*f->process.pod.uid ||
		    strangers_has(strangers, o->uuid) || unenforced_holds(counts, &f->process.pod, o->uuid) ||
		    strangers_since_ns(&before, strangers, o->uuid, now_ns) + LIST_NS > counts->whole_ns)
			continue;
		memcpy(fault->uuid, o->uuid, 16);
		strangers_print(&f->process.pod, fault->words);
		ret->n++;
	}
}
