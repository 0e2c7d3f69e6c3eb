/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/bounds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "control/message.h"
#include "ledger/snapshot.h"
#include "ledger/tenant.h"
#include "node/compute_words.h"
#include "text/units.h"

static const struct site_value *bounds_find(const struct bounds *b, enum site_key key)
{
	return b->member ? site_find(b->site, b->member, key) : NULL;
}

uint32_t bounds_tenants(const struct bounds *b, uint32_t most)
{
	const struct site_value *value = bounds_find(b, SITE_TENANTS);

	return value ? value->number : most;
}

/* --- Defaults --------------------------------------------------------------------------------- */

/* Returns true if it is more of some device; a part of unknown devices is not. */
static bool bounds_is_more(const struct bounds *b, struct size_spec size, struct size_spec most)
{
	if (size.bytes && most.bytes)
		return size.bytes > most.bytes;
	if (size.permille && most.permille)
		return size.permille > most.permille;
	for (unsigned int i = 0; i < b->devices->n; i++) {
		uint64_t total = b->devices->list[i].total_bytes;

		if (total && size_spec_resolve(size, total) > size_spec_resolve(most, total))
			return true;
	}
	return false;
}

static void bounds_complete_memory(const struct bounds *b, struct policy *policy)
{
	const struct site_value *value = bounds_find(b, SITE_MEMORY),
				*most = bounds_find(b, SITE_MEMORY_MAX);

	if (!value || (most && bounds_is_more(b, value->size, most->size)))
		value = most;
	for (uint32_t i = 0; value && i < policy->ndevices; i++) {
		policy->device[i].limit_bytes = value->size.bytes;
		policy->device[i].limit_permille = value->size.permille;
	}
}

/* A weight as the site counts it: a share is one, too. */
static bool bounds_is_heavier(const struct policy *policy, const struct site_value *most)
{
	return !policy_meters(policy) ||
	       policy_weight(policy, policy->device[0].uuid) > most->number * POLICY_WEIGHT_PERMILLE;
}

/* A part of the time that is given goes before a weight, which says less. */
static void bounds_complete_compute(const struct bounds *b, struct policy *policy)
{
	const struct site_value *share = bounds_find(b, SITE_COMPUTE),
				*most = bounds_find(b, SITE_COMPUTE_MAX),
				*weight = bounds_find(b, SITE_WEIGHT),
				*heaviest = bounds_find(b, SITE_WEIGHT_MAX);

	if (most && (!share || share->number > most->number))
		share = most;
	if (share)
		policy->compute = POLICY_COMPUTE_CAP;
	else if (weight || heaviest)
		policy->compute = POLICY_COMPUTE_SHARE;
	for (uint32_t i = 0; share && i < policy->ndevices; i++)
		policy->device[i].share_permille = share->number;
	if (weight || (!share && heaviest))
		policy->weight = weight ? weight->number : 1;
	if (heaviest && bounds_is_heavier(policy, heaviest))
		policy->weight = heaviest->number;
}

/* In the order of the site's file. */
static uint32_t bounds_rank(uint32_t priority)
{
	static const uint32_t rank[POLICY_PRIORITIES] = {
		[POLICY_PRIORITY_LOW] = 0, [POLICY_PRIORITY_NORMAL] = 1, [POLICY_PRIORITY_HIGH] = 2};

	return rank[priority];
}

static void bounds_complete_priority(const struct bounds *b, struct policy *policy)
{
	const struct site_value *most = bounds_find(b, SITE_PRIORITY_MAX);

	for (uint32_t p = 0; most && p < POLICY_PRIORITIES; p++)
		if (bounds_rank(policy->priority) > most->number && bounds_rank(p) == most->number)
			policy->priority = p;
}

/* Measured by default, but for what is swappable: what is measured cannot go to a disk yet. */
static void bounds_complete_meter(const struct bounds *b, struct policy *policy)
{
	const struct site_value *meter = bounds_find(b, SITE_METER);
	bool on = meter ? meter->number : !(policy->flags & POLICY_SWAPPABLE);

	policy->flags |= on ? POLICY_METER : 0u;
}

void bounds_complete(const struct bounds *b, uint32_t said, struct policy *policy)
{
	if (!(said & CONTROL_SAID_MEMORY))
		bounds_complete_memory(b, policy);
	if (!(said & CONTROL_SAID_COMPUTE))
		bounds_complete_compute(b, policy);
	if (!(said & CONTROL_SAID_METER))
		bounds_complete_meter(b, policy);
	if (!(said & CONTROL_SAID_PRIORITY))
		bounds_complete_priority(b, policy);
}

/* --- What there is ---------------------------------------------------------------------------- */

/* More is not read: ledgers are the user's, who may not keep others waiting by them. */
#define HELD_TENANTS 128
#define HELD_FIGURES 65536

/* This user's tenants, as far as they can be read. */
struct held {
	uid_t uid;
	size_t n, figures;
	struct {
		char name[POLICY_NAME_BYTES];
		struct snapshot *snapshot;
	} list[HELD_TENANTS];
};

static int bounds_hold_one(const char *name, const char *dir, void *arg)
{
	struct held *held = arg;
	struct snapshot *snapshot;
	uid_t owner;

	if (!tenant_name_owner(name, &owner) || owner != held->uid || held->n == HELD_TENANTS ||
	    held->figures >= HELD_FIGURES || snapshot_read(dir, &snapshot) < 0)
		return 0;
	held->figures += (size_t)snapshot->nprocesses * (size_t)snapshot->ndevices;
	strcpy(held->list[held->n].name, name);
	held->list[held->n++].snapshot = snapshot;
	return 0;
}

static const struct snapshot *bounds_held(const struct held *held, const char *name)
{
	for (size_t i = 0; i < held->n; i++)
		if (!strcmp(held->list[i].name, name))
			return held->list[i].snapshot;
	return NULL;
}

static void bounds_let_go(struct held *held)
{
	for (size_t i = 0; i < held->n; i++)
		snapshot_free(held->list[i].snapshot);
}

/* --- Sums ------------------------------------------------------------------------------------- */

struct sums {
	const struct bounds *b;
	const struct held *held;
	const struct device *device; /* zeroed: no driver tells of any */
	uint64_t promised;	     /* of all tenants */
	uint64_t bytes, share, weight; /* of this user's */
};

/* By the driver's figure where that counts (node/figures.c), as the tenant's processes noted it last. */
static uint64_t bounds_used_of(const struct snapshot *snapshot, const struct snapshot_device *device)
{
	if (snapshot->policy.flags & POLICY_ACCOUNTING_DRIVER)
		return sat_add_u64(device->driver_bytes, device->pending);
	return device->used_bytes;
}

/*
 * What a tenant of this user has of the device: it may be more than its quota, where that was made
 * smaller since. All where its ledger, which is the user's, does not tell.
 */
static uint64_t bounds_used(const struct sums *s, const char *name)
{
	const struct snapshot *snapshot = bounds_held(s->held, name);
	uint64_t used = 0;

	for (int d = 0; snapshot && d < snapshot->ndevices; d++)
		if (!s->device->total_bytes ||
		    !memcmp(snapshot->device[d].uuid, s->device->uuid, sizeof(s->device->uuid)))
			used = max_u64(used, bounds_used_of(snapshot, &snapshot->device[d]));
	return snapshot ? used : UINT64_MAX;
}

static void bounds_add_policy(struct sums *s, const struct policy *policy, bool own, uint64_t used)
{
	const struct policy_device *dev = policy_find(policy, s->device->uuid);
	uint64_t bytes;

	if (!dev) {
		s->bytes = sat_add_u64(s->bytes, used);
		return;
	}
	/* A part of nobody knows what may be all: what the policy has for a total is the user's word. */
	bytes = dev->limit_bytes ? dev->limit_bytes : UINT64_MAX;
	if (s->device->total_bytes)
		policy_limit(policy, s->device->uuid, s->device->total_bytes, &bytes);
	s->promised = sat_add_u64(s->promised, bytes);
	if (!own)
		return;
	s->bytes = sat_add_u64(s->bytes, max_u64(bytes, used));
	s->share = sat_add_u64(s->share, policy_share(policy, s->device->uuid));
	s->weight = sat_add_u64(s->weight, policy_weight(policy, s->device->uuid));
}

/* What nobody knows may be all. */
static void bounds_add_unknown(struct sums *s, bool own)
{
	s->promised = UINT64_MAX;
	if (own)
		s->bytes = s->share = s->weight = UINT64_MAX;
}

static int bounds_add_tenant(const char *name, const char *dir, void *arg)
{
	struct sums *s = arg;
	struct policy policy;
	uid_t owner;
	bool own;
	int r;

	/* It is added as it is to be. */
	if (!strcmp(name, s->b->name))
		return 0;
	own = s->b->member && tenant_name_owner(name, &owner) && owner == s->b->member->uid;
	r = policy_load(dir, &policy);
	if (r == 0)
		bounds_add_policy(s, &policy, own,
				  own && bounds_find(s->b, SITE_MEMORY_MAX) ? bounds_used(s, name) : 0);
	else if (r != -ENOENT) /* which was removed meanwhile */
		bounds_add_unknown(s, own);
	return 0;
}

/* --- Bounds ----------------------------------------------------------------------------------- */

static int bounds_check_memory(const struct sums *s, char words[static BOUNDS_WORDS])
{
	const struct site_value *most = bounds_find(s->b, SITE_MEMORY_MAX);
	uint64_t bytes, total = s->device->total_bytes;

	if (!most)
		return 0;
	if (most->size.permille && !total) {
		snprintf(words, BOUNDS_WORDS, "--memory: the site gives %s of a device, and allotd does "
			 "not know its size; have memory-max be in bytes, or allotd restarted where "
			 "the driver answers",
			 units_permille(most->size.permille).s);
		return -EDQUOT;
	}
	bytes = size_spec_resolve(most->size, total);
	if (s->bytes <= bytes)
		return 0;
	snprintf(words, BOUNDS_WORDS, "--memory: this user's tenants would have %s of %s, by quota or in "
		 "use, and the site gives %s; ask for less, or end others of yours",
		 s->bytes == UINT64_MAX ? "all" : units_bytes(s->bytes).s,
		 total ? units_uuid(s->device->uuid).s : "a device", units_bytes(bytes).s);
	return -EDQUOT;
}

static int bounds_check_compute(const struct sums *s, const struct policy *policy,
				char words[static BOUNDS_WORDS])
{
	const struct site_value *most = bounds_find(s->b, SITE_COMPUTE_MAX),
				*weight = bounds_find(s->b, SITE_WEIGHT_MAX);

	if (most && most->number < 1000 &&
	    (policy->compute != POLICY_COMPUTE_CAP || s->share > most->number)) {
		snprintf(words, BOUNDS_WORDS, "--compute: the site gives this user's tenants %s of a "
			 "device's time together, as a cap; write --compute with less, or end others "
			 "of yours",
			 units_permille(most->number).s);
		return -EDQUOT;
	}
	if (weight && (!policy_limits_compute(policy) ||
		       s->weight > (uint64_t)weight->number * POLICY_WEIGHT_PERMILLE)) {
		snprintf(words, BOUNDS_WORDS, "--weight: the site gives this user's tenants weights of "
			 "%u together, of which a share of %s is one; write less, or end others of "
			 "yours",
			 weight->number, units_permille(POLICY_WEIGHT_PERMILLE).s);
		return -EDQUOT;
	}
	return 0;
}

static int bounds_check_priority(const struct bounds *b, const struct policy *policy,
				 char words[static BOUNDS_WORDS])
{
	const struct site_value *most = bounds_find(b, SITE_PRIORITY_MAX);

	if (!most)
		return 0;
	if (bounds_rank(policy->priority) > most->number)
		snprintf(words, BOUNDS_WORDS, "--priority: the site does not give this user %s; write "
			 "less, as --priority low",
			 compute_priorities[policy->priority]);
	else if (policy_floor(policy) > POLICY_FLOOR_PERMILLE)
		snprintf(words, BOUNDS_WORDS, "--floor: the site does not give this user more than %s; "
			 "write less",
			 units_permille(POLICY_FLOOR_PERMILLE).s);
	else
		return 0;
	return -EDQUOT;
}

static int bounds_check_promise(const struct sums *s, char words[static BOUNDS_WORDS])
{
	uint64_t total = s->device->total_bytes;

	if (s->b->site->overpromise == SITE_ALLOW || !total || s->promised <= total)
		return 0;
	snprintf(words, BOUNDS_WORDS, "with it quotas on %s are %s together, and it has %s%s",
		 units_uuid(s->device->uuid).s,
		 s->promised == UINT64_MAX ? "more than can be said" : units_bytes(s->promised).s,
		 units_bytes(total).s,
		 s->b->site->overpromise == SITE_WARN ? "" : "; ask for less --memory");
	return s->b->site->overpromise == SITE_WARN ? 0 : -ENOSPC;
}

static int bounds_check_device(const struct bounds *b, const struct held *held,
			       const struct device *device, const struct policy *policy,
			       char words[static BOUNDS_WORDS])
{
	struct sums s = {.b = b, .held = held, .device = device};
	int r;

	/* One that it does not have. */
	if (!(policy->flags & POLICY_ALL_DEVICES) && !policy_find(policy, device->uuid))
		return 0;
	r = tenant_list(b->runtime, bounds_add_tenant, &s);
	if (r < 0)
		return r;
	bounds_add_policy(&s, policy, true, 0);
	r = bounds_check_memory(&s, words);
	if (r == 0)
		r = bounds_check_compute(&s, policy, words);
	return r ? r : bounds_check_promise(&s, words);
}

static bool bounds_knows(const struct devices *devices, const uint8_t uuid[16])
{
	for (unsigned int i = 0; i < devices->n; i++)
		if (!memcmp(devices->list[i].uuid, uuid, 16))
			return true;
	return false;
}

int bounds_check(const struct bounds *b, const struct policy *policy,
		 char words[static BOUNDS_WORDS])
{
	struct held held = {.uid = b->member ? b->member->uid : 0};
	int r = bounds_check_priority(b, policy, words);

	if (bounds_find(b, SITE_MEMORY_MAX))
		tenant_list_users(b->runtime, bounds_hold_one, &held);
	for (unsigned int i = 0; r == 0 && i < b->devices->n; i++)
		r = bounds_check_device(b, &held, &b->devices->list[i], policy, words);
	/* Devices of which only the policy tells; the entry for all stands for those. */
	for (uint32_t i = 0; r == 0 && i < policy->ndevices; i++) {
		struct device device = {.total_bytes = 0};

		memcpy(device.uuid, policy->device[i].uuid, sizeof(device.uuid));
		if ((i == 0 && (policy->flags & POLICY_ALL_DEVICES))
			    ? !b->devices->n
			    : !bounds_knows(b->devices, device.uuid))
			r = bounds_check_device(b, &held, &device, policy, words);
	}
	bounds_let_go(&held);
	return r;
}
