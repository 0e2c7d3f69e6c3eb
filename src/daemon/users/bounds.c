/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/users/bounds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "control/message.h"
#include "ledger/reader/snapshot.h"
#include "ledger/tenant.h"
#include "node/compute_words.h"
#include "node/figures.h"
#include "node/tenants.h"
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

/* The usual floor, where the tenant asks for none, unless the site gives less. */
static void bounds_complete_floor(const struct bounds *b, struct policy *policy)
{
	const struct site_value *most = bounds_find(b, SITE_FLOOR_MAX);

	if (most && !policy->floor_permille && policy_floor(policy) > most->number)
		policy->floor_permille = most->number;
}

/*
 * Measured by default, except for swappable tenants: the state of a measurement cannot be written
 * to a disk yet.
 */
static void bounds_complete_meter(const struct bounds *b, struct policy *policy)
{
	const struct site_value *meter = bounds_find(b, SITE_METER);
	bool on = meter ? meter->number : !(policy->flags & POLICY_SWAPPABLE);

	policy->meter = on;
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
	bounds_complete_floor(b, policy);
}

/* --- What there is ---------------------------------------------------------------------------- */

/* No more are read: ledgers are the user's, who must not delay others by them. */
#define HELD_TENANTS 128

/* Read once for all devices of a request: a user may name many. */
struct held {
	/* The policies of all tenants but the one that is asked about. */
	size_t npolicies;
	struct held_policy {
		char name[POLICY_NAME_BYTES];
		bool own;   /* the requesting user's */
		bool known; /* it could be read */
		struct policy policy;
	} *policy;

	/* The user's tenants, as far as they can be read. */
	uid_t uid;
	struct snapshot_bound left;
	size_t n;
	bool full; /* the bound is reached: no other tenant is read */
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
	int r;

	if (!tenant_name_owner(name, &owner) || owner != held->uid || held->full)
		return 0;
	r = snapshot_read_within(dir, held->left, &snapshot);
	if (r == 0) {
		held->left.weight -= snapshot_weight(snapshot);
		strcpy(held->list[held->n].name, name);
		held->list[held->n++].snapshot = snapshot;
	}
	held->full = r == -E2BIG || held->n == HELD_TENANTS;
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
	free(held->policy);
}

struct holding {
	const struct bounds *b;
	struct held *held;
};

static int bounds_hold_policy(const char *name, const char *dir, void *arg)
{
	const struct holding *holding = arg;
	struct held *held = holding->held;
	struct held_policy *list;
	uid_t owner;
	int r;

	/* Its new policy is added instead. */
	if (!strcmp(name, holding->b->name))
		return 0;
	list = reallocarray(held->policy, held->npolicies + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	held->policy = list;
	list += held->npolicies;
	r = policy_load(dir, &list->policy);
	if (r == -ENOENT) /* it was removed meanwhile */
		return 0;
	snprintf(list->name, sizeof(list->name), "%s", name);
	list->known = r == 0;
	list->own = holding->b->member && tenant_name_owner(name, &owner) &&
		    owner == holding->b->member->uid;
	held->npolicies++;
	return 0;
}

/* For bounds_let_go, also on error. */
static int bounds_hold(const struct bounds *b, struct held *ret)
{
	struct holding holding = {.b = b, .held = ret};

	ret->uid = b->member ? b->member->uid : 0;
	ret->left = tenants_bound_of_user();
	if (bounds_find(b, SITE_MEMORY_MAX))
		tenant_list_users(b->runtime, bounds_hold_one, ret);
	return tenant_list(b->runtime, bounds_hold_policy, &holding);
}

/* --- Sums ------------------------------------------------------------------------------------- */

struct sums {
	const struct bounds *b;
	const struct held *held;
	/*
	 * NULL: any device that allotd does not know, as one that was plugged in a moment ago, or a
	 * part of one (MIG). Its size is not known either: quotas on it are counted in the unit of
	 * memory-max, bytes or permille.
	 */
	const struct device *device;
	struct size_spec most; /* memory-max; zeroed: there is none */
	uint64_t promised;     /* of all tenants */
	uint64_t memory, share, weight; /* of this user's */
};

static uint64_t bounds_total(const struct sums *s)
{
	return s->device ? s->device->total_bytes : 0;
}

static bool bounds_is_meant(const struct sums *s, const uint8_t uuid[16])
{
	return s->device ? !memcmp(uuid, s->device->uuid, sizeof(s->device->uuid))
			 : !devices_find(s->b->devices, uuid);
}

/* By the driver's figure where that counts (node/figures.c), as the tenant's processes noted it last. */
static uint64_t bounds_used_of(const struct snapshot *snapshot, const struct snapshot_device *device)
{
	return sat_add_u64(device->used_bytes, figures_decide(&snapshot->policy, device->uuid)
							? device->driver_bytes
							: 0);
}

/*
 * The device memory of a tenant of this user: it may exceed the quota, if that was lowered since.
 * UINT64_MAX if its ledger, which the user writes, does not tell.
 */
static uint64_t bounds_used(const struct sums *s, const char *name)
{
	const struct snapshot *snapshot = bounds_held(s->held, name);
	uint64_t used = 0;

	for (int d = 0; snapshot && d < snapshot->ndevices; d++)
		if (bounds_is_meant(s, snapshot->device[d].uuid))
			used = max_u64(used, bounds_used_of(snapshot, &snapshot->device[d]));
	return snapshot ? used : UINT64_MAX;
}

/* A policy cannot give nothing of a device: this is how it is written. */
#define NOTHING_BYTES 1

/* The memory that an entry gives of the device; all, if the device's size is not known. */
static uint64_t bounds_memory_of(const struct sums *s, const struct policy_device *dev)
{
	struct size_spec given = {dev->limit_bytes, dev->limit_permille};
	uint64_t total = bounds_total(s), bytes;

	if (given.bytes == NOTHING_BYTES)
		return 0;
	/* The policy's total is the user's word, so it may only lower the result. */
	if (total) {
		bytes = size_spec_resolve(given, total);
		return min_u64(bytes, total);
	}
	if (s->most.permille)
		return given.permille ? given.permille : UINT64_MAX;
	return given.bytes ? given.bytes : UINT64_MAX;
}

/* Of the entries of a policy that may be the device's, the most of each. */
struct given {
	bool any;
	uint64_t memory, share, weight;
};

static void bounds_take_entry(const struct sums *s, const struct policy *policy,
			      const struct policy_device *dev, struct given *given)
{
	given->any = true;
	given->memory = max_u64(given->memory, bounds_memory_of(s, dev));
	given->share = max_u64(given->share, policy_share(policy, dev->uuid));
	given->weight = max_u64(given->weight, policy_weight(policy, dev->uuid));
}

static struct given bounds_given(const struct sums *s, const struct policy *policy)
{
	uint32_t first = policy->flags & POLICY_ALL_DEVICES ? 1 : 0;
	struct given given = {.any = false};

	for (uint32_t i = first; i < policy->ndevices; i++)
		if (bounds_is_meant(s, policy->device[i].uuid)) {
			bounds_take_entry(s, policy, &policy->device[i], &given);
			if (s->device)
				return given;
		}
	if (first)
		bounds_take_entry(s, policy, &policy->device[0], &given);
	return given;
}

static void bounds_add_policy(struct sums *s, const struct policy *policy, bool own, uint64_t used)
{
	struct given given = bounds_given(s, policy);

	if (!bounds_total(s) && s->most.permille)
		used = 0; /* which part of the device that is, only the user's ledger says */
	s->promised = sat_add_u64(s->promised, given.memory);
	if (!own)
		return;
	s->memory = sat_add_u64(s->memory, max_u64(given.memory, used));
	s->share = sat_add_u64(s->share, given.share);
	s->weight = sat_add_u64(s->weight, given.weight);
}

/* An unknown amount may be all. */
static void bounds_add_unknown(struct sums *s, bool own)
{
	s->promised = UINT64_MAX;
	if (own)
		s->memory = s->share = s->weight = UINT64_MAX;
}

static void bounds_add_others(struct sums *s)
{
	bool uses = bounds_find(s->b, SITE_MEMORY_MAX);

	for (size_t i = 0; i < s->held->npolicies; i++) {
		const struct held_policy *p = &s->held->policy[i];

		if (p->known)
			bounds_add_policy(s, &p->policy, p->own,
					  p->own && uses ? bounds_used(s, p->name) : 0);
		else
			bounds_add_unknown(s, p->own);
	}
}

/* Nothing is added yet. */
static struct sums bounds_begin(const struct bounds *b, const struct held *held,
				const struct device *device)
{
	const struct site_value *most = bounds_find(b, SITE_MEMORY_MAX);
	struct sums s = {.b = b, .held = held, .device = device};

	if (most)
		s.most = most->size;
	return s;
}

/* --- Bounds ----------------------------------------------------------------------------------- */

static struct units_text bounds_words_of(const struct sums *s, uint64_t memory)
{
	struct units_text all = {"all"};

	if (memory == UINT64_MAX)
		return all;
	return !bounds_total(s) && s->most.permille ? units_permille((uint32_t)memory)
						    : units_bytes(memory);
}

static int bounds_check_memory(const struct sums *s, char words[static BOUNDS_WORDS])
{
	uint64_t total = bounds_total(s), most;

	if (!size_spec_is_said(s->most))
		return 0;
	most = total ? size_spec_resolve(s->most, total)
	       : s->most.permille ? s->most.permille : s->most.bytes;
	if (s->memory <= most)
		return 0;
	snprintf(words, BOUNDS_WORDS, "--memory: this user's tenants would have %s of %s, by quota or in "
		 "use, and the site gives %s; ask for less%s, or end others of yours",
		 bounds_words_of(s, s->memory).s,
		 s->device ? units_uuid(s->device->uuid).s : "a device that allotd does not know",
		 bounds_words_of(s, most).s,
		 total ? "" : s->most.permille ? ", as a percentage" : ", in bytes");
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

/* "line 7 of allotd's file", as the place of the key. */
static struct units_text bounds_where(const struct site_value *value)
{
	struct units_text text = {"if its file does not say"};

	if (value->line)
		snprintf(text.s, sizeof(text.s), "line %u of its file", value->line);
	return text;
}

static const char *bounds_priority_of(uint32_t rank)
{
	uint32_t p = 0;

	while (bounds_rank(p) != rank)
		p++;
	return compute_priorities[p];
}

static int bounds_check_latency(const struct bounds *b, const struct policy *policy,
				char words[static BOUNDS_WORDS])
{
	const struct site_value *least = bounds_find(b, SITE_LATENCY_MIN);

	if (!least || !policy->latency_us || policy->latency_us >= least->number)
		return 0;
	snprintf(words, BOUNDS_WORDS, "--latency: the site does not give this user less than %s "
		 "(allotd: latency-min, %s); write that, or more",
		 units_duration(least->number * NS_PER_US).s, bounds_where(least).s);
	return -EDQUOT;
}

static int bounds_check_priority(const struct bounds *b, const struct policy *policy,
				 char words[static BOUNDS_WORDS])
{
	const struct site_value *most = bounds_find(b, SITE_PRIORITY_MAX),
				*floor = bounds_find(b, SITE_FLOOR_MAX);

	if (most && bounds_rank(policy->priority) > most->number)
		snprintf(words, BOUNDS_WORDS, "--priority: the site does not give this user %s "
			 "(allotd: priority-max = %s, %s); write --priority %s",
			 compute_priorities[policy->priority], bounds_priority_of(most->number),
			 bounds_where(most).s, bounds_priority_of(most->number));
	else if (floor && policy_floor(policy) > floor->number)
		snprintf(words, BOUNDS_WORDS, "--floor: the site does not give this user more than %s "
			 "(allotd: floor-max, %s); write that, or less",
			 units_permille(floor->number).s, bounds_where(floor).s);
	else
		return bounds_check_latency(b, policy, words);
	return -EDQUOT;
}

int bounds_check_accounting(const struct bounds *b, const struct policy *policy,
			    char words[static BOUNDS_WORDS])
{
	const struct site_value *driver = bounds_find(b, SITE_ACCOUNTING_DRIVER);

	if (!driver || driver->number || !(policy->flags & POLICY_ACCOUNTING_DRIVER))
		return 0;
	snprintf(words, BOUNDS_WORDS, "--accounting driver: the site does not give this user that "
		 "(allotd: accounting-driver = off, %s); leave it out", bounds_where(driver).s);
	return -EDQUOT;
}

static int bounds_check_promise(const struct sums *s, char words[static BOUNDS_WORDS])
{
	uint64_t total = bounds_total(s);

	if (s->b->site->overpromise == SITE_ALLOW || !total || s->promised <= total)
		return 0;
	snprintf(words, BOUNDS_WORDS, "with it quotas on %s are %s together, and it has %s%s",
		 units_uuid(s->device->uuid).s,
		 s->promised == UINT64_MAX ? "more than can be said" : units_bytes(s->promised).s,
		 units_bytes(total).s,
		 s->b->site->overpromise == SITE_WARN ? "" : "; ask for less --memory");
	return s->b->site->overpromise == SITE_WARN ? 0 : -ENOSPC;
}

/* `policy` has the entries that are meant of `whole`. `device` NULL: any that allotd does not know. */
static int bounds_check_device(const struct bounds *b, const struct held *held,
			       const struct device *device, const struct policy *policy,
			       const struct policy *whole, char words[static BOUNDS_WORDS])
{
	struct sums s = bounds_begin(b, held, device);
	struct given given = bounds_given(&s, policy);
	int r;

	if (!given.any) /* it does not have that device */
		return 0;
	bounds_add_others(&s);
	bounds_add_policy(&s, policy, true, 0);
	r = given.memory ? bounds_check_memory(&s, words) : 0;
	if (r == 0)
		r = bounds_check_compute(&s, whole, words);
	return r ? r : bounds_check_promise(&s, words);
}

/* --- Devices that come later ------------------------------------------------------------------ */

static bool bounds_has_entry(const struct policy *policy, const uint8_t uuid[16])
{
	const struct policy_device *dev = policy_find(policy, uuid);

	return dev && dev != &policy->device[0];
}

/* Each known device gets an entry with the limits of the entry for all. */
static int bounds_add_entries(const struct bounds *b, struct policy *policy)
{
	for (unsigned int i = 0; i < b->devices->n; i++) {
		const struct device *device = &b->devices->list[i];

		if (bounds_has_entry(policy, device->uuid))
			continue;
		if (policy->ndevices == POLICY_DEVICES)
			return -E2BIG;
		policy->device[policy->ndevices] = policy->device[0];
		policy->device[policy->ndevices].total_bytes = device->total_bytes;
		memcpy(policy->device[policy->ndevices++].uuid, device->uuid, sizeof(device->uuid));
	}
	return 0;
}

/* The rest of memory-max on a device that allotd does not know, in the unit of memory-max. */
static int bounds_find_left(const struct bounds *b, struct size_spec most, struct sums *ret_sums,
			    uint64_t *ret)
{
	uint64_t all = most.permille ? most.permille : most.bytes;
	struct held held = {.n = 0};
	int r;

	r = bounds_hold(b, &held);
	*ret_sums = bounds_begin(b, &held, NULL);
	bounds_add_others(ret_sums);
	bounds_let_go(&held);
	*ret = ret_sums->memory < all ? all - ret_sums->memory : 0;
	return r;
}

int bounds_spell_out(const struct bounds *b, struct policy *policy,
		     char words[static BOUNDS_WORDS])
{
	const struct site_value *most = bounds_find(b, SITE_MEMORY_MAX);
	struct policy_device *all = &policy->device[0];
	struct sums s;
	uint64_t left;
	int r;

	if (!most || !(policy->flags & POLICY_ALL_DEVICES) || !b->devices->n)
		return 0;
	r = bounds_find_left(b, most->size, &s, &left);
	if (r < 0 || bounds_memory_of(&s, all) <= left)
		return r;
	if (bounds_add_entries(b, policy) < 0) {
		snprintf(words, BOUNDS_WORDS, "--memory: too many devices are named; name all that are "
			 "meant with --gpu");
		return -EDQUOT;
	}
	all->limit_permille = most->size.permille && left ? (uint32_t)left : 0;
	all->limit_bytes = all->limit_permille ? 0 : left ? left : NOTHING_BYTES;
	return 0;
}

/* --- All -------------------------------------------------------------------------------------- */

/* The entry for all applies to devices that are not known; others of these have entries. */
static int bounds_check_unknown(const struct bounds *b, const struct held *held,
				const struct policy *policy, char words[static BOUNDS_WORDS])
{
	uint32_t first = policy->flags & POLICY_ALL_DEVICES ? 1 : 0;
	struct policy rest = *policy;
	int r = 0;

	for (uint32_t i = first; r == 0 && i < policy->ndevices; i++) {
		struct device device = {.total_bytes = 0};

		memcpy(device.uuid, policy->device[i].uuid, sizeof(device.uuid));
		if (!devices_find(b->devices, device.uuid))
			r = bounds_check_device(b, held, &device, policy, policy, words);
	}
	rest.ndevices = 1;
	if (r == 0 && first)
		r = bounds_check_device(b, held, NULL, &rest, policy, words);
	return r;
}

int bounds_check(const struct bounds *b, const struct policy *policy,
		 char words[static BOUNDS_WORDS])
{
	struct held held = {.n = 0};
	int r = bounds_check_priority(b, policy, words);

	if (r == 0)
		r = bounds_hold(b, &held);
	for (unsigned int i = 0; r == 0 && i < b->devices->n; i++)
		r = bounds_check_device(b, &held, &b->devices->list[i], policy, policy, words);
	if (r == 0)
		r = bounds_check_unknown(b, &held, policy, words);
	bounds_let_go(&held);
	return r;
}
