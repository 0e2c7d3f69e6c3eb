/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/visible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "cli/say.h"
#include "cli/units.h"

#define CUDA "CUDA_VISIBLE_DEVICES"
#define ROCR "ROCR_VISIBLE_DEVICES"
#define HIP  "HIP_VISIBLE_DEVICES"

int visible_check(const char *list, const struct devices *devices, const struct selection *gpus)
{
	struct selection allowed;

	if (selection_visible(devices, &allowed) < 0)
		return 0;
	for (unsigned int i = 0; i < gpus->n; i++) {
		const struct device *d = &devices->list[gpus->index[i]];
		const char *variable = d->vendor == DEVICE_AMD ? ROCR : CUDA;

		if (!selection_has(&allowed, gpus->index[i]))
			return say_error("--gpu \"%s\": GPU %u is not among %s=%s; choose from "
					 "those, or unset that variable",
					 list, gpus->index[i], variable, getenv(variable));
	}
	return 0;
}

struct names {
	unsigned int n;
	char text[POLICY_DEVICES * (sizeof(struct units_text) + 1)];
};

static void add(struct names *names, const char *name)
{
	size_t len = strlen(names->text);

	snprintf(names->text + len, sizeof(names->text) - len, "%s%s", names->n ? "," : "", name);
	names->n++;
}

/*
 * By name, which CUDA, NVML and ROCm all understand alike. ROCm has none but the unique id: where a
 * GPU is without one its variable is left alone, and the order is the kernel's. HIP takes CUDA's
 * variable for its own where there is none for it, and would find nothing of AMD's in ours.
 */
int visible_set(const struct devices *devices, const struct selection *gpus,
		const struct policy *policy)
{
	unsigned int n = gpus ? gpus->n : policy->ndevices;
	struct names cuda = {0}, rocr = {0}, hip = {0};
	bool nameless = false;

	if (!gpus && (policy->flags & POLICY_ALL_DEVICES))
		return 0;
	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *uuid =
			gpus ? devices->list[gpus->index[i]].uuid : policy->device[i].uuid;
		struct units_text name = units_uuid(uuid), index;

		if (!amd_identity_is(uuid)) {
			add(&cuda, name.s);
			continue;
		}
		nameless = nameless || strncmp(name.s, "GPU-", 4);
		add(&rocr, name.s);
		snprintf(index.s, sizeof(index.s), "%u", hip.n);
		add(&hip, index.s);
	}
	if (cuda.n && (gpus || !getenv(CUDA))) {
		if (setenv(CUDA, cuda.text, 1) < 0 || (hip.n && setenv(HIP, hip.text, 0) < 0))
			return -ENOMEM;
	}
	return rocr.n && !nameless && setenv(ROCR, rocr.text, gpus != NULL) < 0 ? -ENOMEM : 0;
}

struct visible_text visible_words(void)
{
	static const char *const variables[] = {CUDA, ROCR};
	struct visible_text t = {""};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);
		size_t len = strlen(t.s);

		if (value)
			snprintf(t.s + len, sizeof(t.s) - len, " %s=%s", variables[i], value);
	}
	return t;
}
