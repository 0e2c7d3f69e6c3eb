/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device/visible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "cli/say/say.h"
#include "text/units.h"

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

static void visible_append(struct names *names, const char *name)
{
	size_t len = strlen(names->text);

	snprintf(names->text + len, sizeof(names->text) - len, "%s%s", names->n ? "," : "", name);
	names->n++;
}

/* The devices that are chosen, of either vendor: by `--gpu`, or by the policy, in its order. */
static const uint8_t *visible_chosen(const struct devices *devices, const struct selection *gpus,
				     const struct policy *policy, unsigned int i)
{
	if (gpus)
		return i < gpus->n ? devices->list[gpus->index[i]].uuid : NULL;
	return i < policy->ndevices ? policy->device[i].uuid : NULL;
}

/* The AMD devices that the command shall see, in order. */
static void visible_choose_amd(const struct devices *devices, const struct selection *gpus,
			       const struct policy *policy, const struct devices *amd,
			       struct selection *ret)
{
	struct selection left = {.n = 0};
	const uint8_t *uuid;

	ret->n = 0;
	if (!gpus && getenv(ROCR)) {
		selection_visible(amd, &left);
		for (unsigned int i = 0; i < left.n; i++)
			if (policy_find(policy, amd->list[left.index[i]].uuid))
				ret->index[ret->n++] = left.index[i];
		return;
	}
	for (unsigned int i = 0; (uuid = visible_chosen(devices, gpus, policy, i)); i++)
		for (unsigned int k = 0; k < amd->n; k++)
			if (!memcmp(amd->list[k].uuid, uuid, sizeof(amd->list[k].uuid)))
				ret->index[ret->n++] = k;
}

/* With the id of its board, which its other partitions have as well, or with our word for the partition. */
static bool visible_is_partition(const struct devices *amd, unsigned int index)
{
	for (unsigned int i = 0; i < amd->n; i++)
		if (i != index &&
		    amd_identity_is_same_board(amd->list[i].uuid, amd->list[index].uuid))
			return true;
	return strchr(units_uuid(amd->list[index].uuid).s, '.');
}

/*
 * ROCm knows a GPU by its unique id. A GPU without one of its own is known by its number among those
 * that the library shows, which are the tenant's.
 */
static struct units_text visible_name_for_rocm(const struct devices *amd, unsigned int index,
					       const struct policy *policy)
{
	struct units_text name = units_uuid(amd->list[index].uuid);
	unsigned int before = 0;

	if (!strncmp(name.s, "GPU-", 4) && !visible_is_partition(amd, index))
		return name;
	for (unsigned int i = 0; i < index; i++)
		before += policy_find(policy, amd->list[i].uuid) != NULL;
	snprintf(name.s, sizeof(name.s), "%u", before);
	return name;
}

/*
 * A caller's list is written again even if it does not change: it may count GPUs that the library
 * hides. HIP reads CUDA's variable if its own is not set, and would find none of AMD's in ours.
 */
static int visible_set_amd(const struct devices *devices, const struct selection *gpus,
			   const struct policy *policy, bool cuda_is_ours)
{
	struct names rocr = {0}, hip = {0};
	static struct devices amd;
	struct selection shown;

	devices_read_amd(&amd);
	if (!amd.n)
		return 0;
	visible_choose_amd(devices, gpus, policy, &amd, &shown);
	for (unsigned int i = 0; i < shown.n; i++) {
		struct units_text index;

		visible_append(&rocr, visible_name_for_rocm(&amd, shown.index[i], policy).s);
		snprintf(index.s, sizeof(index.s), "%u", i);
		visible_append(&hip, index.s);
	}
	if ((shown.n || getenv(ROCR)) && setenv(ROCR, rocr.text, 1) < 0)
		return -ENOMEM;
	return shown.n && cuda_is_ours && setenv(HIP, hip.text, 0) < 0 ? -ENOMEM : 0;
}

int visible_set(const struct devices *devices, const struct selection *gpus,
		const struct policy *policy)
{
	struct names cuda = {0};
	const uint8_t *uuid;
	bool ours, amd = false;

	if (!gpus && (policy->flags & POLICY_ALL_DEVICES))
		return 0;
	for (unsigned int i = 0; (uuid = visible_chosen(devices, gpus, policy, i)); i++) {
		if (amd_identity_is(uuid))
			amd = true;
		else
			visible_append(&cuda, units_uuid(uuid).s);
	}
	ours = cuda.n && (gpus || !getenv(CUDA));
	if (ours && setenv(CUDA, cuda.text, 1) < 0)
		return -ENOMEM;
	return amd ? visible_set_amd(devices, gpus, policy, ours) : 0;
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
