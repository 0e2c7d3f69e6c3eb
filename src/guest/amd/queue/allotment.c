/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/queue/allotment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/cu_mask.h"
#include "amd/identity.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/now.h"
#include "base/pages.h"
#include "base/word.h"
#include "ledger/cu_grant.h"
#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/role/role_file.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "ledger/tenant.h"
#include "roles/role.h"

/* How often one of the keepers looks which tenants have died. */
#define LOOK_NS (40 * NS_PER_MS)

/* Most tenants of one GPU. Any beyond keep the mask that they had, or have the smallest. */
#define TENANTS 256

struct allotment {
	struct role role; /* no process holds it for longer than a making */
};

struct member {
	struct ledger *ledger;
	struct device_time *time;
	bool had; /* `grant` is whole */
	struct cu_grant grant;
};

/* The state of one making, in memory of its own, since there may be many tenants. */
struct making {
	const uint8_t *uuid;
	uint32_t n;
	uint64_t names;
	struct member member[TENANTS];
	struct part part[TENANTS];
	struct cu_share share[TENANTS];
};

static uint64_t allotment_mix(uint64_t h, const void *data, size_t len)
{
	h = hash_bytes(h, data, len);
	return h ^ h >> 32;
}

int allotment_open(const char *tenant_dir, struct allotment **ret)
{
	struct allotment *a = pages_map(sizeof(*a));
	int r;

	if (!a)
		return -ENOMEM;
	r = role_open(&a->role, &role_file_units, tenant_dir);
	if (r < 0) {
		munmap(a, sizeof(*a));
		return r;
	}
	*ret = a;
	return 0;
}

void allotment_close(struct allotment *a)
{
	if (!a)
		return;
	role_close(&a->role);
	munmap(a, sizeof(*a));
}

bool allotment_part(const struct policy *policy, const uint8_t uuid[16], struct part *ret)
{
	uint32_t share = policy_share(policy, uuid);

	if (policy->compute == POLICY_COMPUTE_OFF ||
	    (policy->compute == POLICY_COMPUTE_CAP && share == 1000))
		return false;
	*ret = (struct part){
		.cap_permille = policy->compute == POLICY_COMPUTE_CAP ? share : 0,
		.weight = policy_weight(policy, uuid),
	};
	return true;
}

/* Adds the tenant if it lives, has queues on the GPU and a limit. */
static int allotment_add_member(const char *name, const char *dir, void *arg)
{
	struct making *making = arg;
	struct member *member = &making->member[making->n];
	struct policy policy;
	int device = -ENODEV;

	if (making->n == TENANTS || !slot_any_alive(dir) ||
	    ledger_open(dir, LEDGER_GUEST, &member->ledger))
		return 0;
	device = cu_grant_wanted(member->ledger, making->uuid);
	if (device < 0 || policy_load(dir, &policy) ||
	    !allotment_part(&policy, making->uuid, &making->part[making->n])) {
		ledger_close(member->ledger);
		return 0;
	}
	member->time = device_time_of(member->ledger, device);
	member->had = !cu_grant_read(member->time, &member->grant);
	making->names = allotment_mix(making->names, name, strlen(name) + 1);
	making->n++;
	return 0;
}

/* Whether all members have units of one making, which was for just these tenants and parts. */
static bool allotment_is_made(const struct making *making, uint64_t of)
{
	for (uint32_t i = 0; i < making->n; i++) {
		const struct cu_grant *grant = &making->member[i].grant;

		if (!making->member[i].had || grant->of != of ||
		    grant->made_ns != making->member[0].grant.made_ns)
			return false;
	}
	return true;
}

static int allotment_divide(struct making *making, const struct cu_map *map)
{
	int r = 0;

	for (uint32_t i = 0; i < making->n; i++) {
		struct cu_share *share = &making->share[i];

		share->permille = share->duty_permille = making->part[i].permille;
		if (map && making->member[i].had)
			memcpy(share->mask.word, making->member[i].grant.word,
			       sizeof(share->mask.word));
	}
	if (map)
		r = cu_mask_allot(map, making->share, making->n);
	return r;
}

/*
 * A process that is killed between two members leaves units of different makings. The next making
 * finds that they differ, and begins anew.
 */
static void allotment_write_all(const struct making *making, uint64_t of)
{
	struct cu_grant grant = {.made_ns = now_monotonic_ns(), .of = of};

	for (uint32_t i = 0; i < making->n; i++) {
		const struct cu_share *share = &making->share[i];

		grant.permille = share->permille;
		grant.duty_permille = share->duty_permille;
		memcpy(grant.word, share->mask.word, sizeof(grant.word));
		cu_grant_write(making->member[i].time, &grant);
	}
}

/* 1: something was changed. */
static int allotment_make_locked(struct allotment *a, struct making *making,
				 const struct cu_map *map)
{
	uint64_t of;
	int r;

	tenant_list(a->role.runtime, allotment_add_member, making);
	weights_divide(making->part, making->n);
	of = allotment_mix(making->names, &making->n, sizeof(making->n));
	for (uint32_t i = 0; i < making->n; i++)
		of = allotment_mix(of, &making->part[i].permille, sizeof(making->part[i].permille));
	if (allotment_is_made(making, of))
		return 0;
	FAULT_POINT(CU_LOCKED);
	r = allotment_divide(making, map);
	if (r < 0)
		return r;
	allotment_write_all(making, of);
	return 1;
}

static struct units_file *allotment_file(const struct allotment *a)
{
	return a->role.map;
}

int allotment_make(struct allotment *a, const uint8_t uuid[16], const struct cu_map *map, bool wait)
{
	CLEANUP_CLOSE int fd = role_file_open(&role_file_units, a->role.runtime, O_RDWR);
	struct making *making;
	int r;

	if (fd < 0)
		return fd;
	making = pages_map(sizeof(*making));
	if (!making)
		return -ENOMEM;
	making->uuid = uuid;
	r = wait ? shared_file_lock_wait(fd, role_file_units.lock, 1) : shared_file_lock(fd, role_file_units.lock, 1);
	if (!r) {
		r = allotment_make_locked(a, making, map);
		shared_file_unlock(fd, role_file_units.lock, 1);
	}
	for (uint32_t i = 0; i < making->n; i++)
		ledger_close(making->member[i].ledger);
	munmap(making, sizeof(*making));
	/* A tenant may come and go between two looks: with 0 here the next look finds a change. */
	if (r > 0) {
		word_publish(&allotment_file(a)->present, 0);
		role_ring(&a->role);
	}
	return r < 0 ? r : 0;
}

/* Adds a number for each GPU on which a living process of the tenant has queues. */
static int allotment_add_present(const char *name, const char *dir, void *arg)
{
	uint64_t *present = arg, tenant = allotment_mix(1, name, strlen(name));
	struct ledger_device_info info;
	struct ledger *ledger;

	if (!slot_any_alive(dir) || ledger_open(dir, LEDGER_GUEST, &ledger))
		return 0;
	for (int d = 0; !ledger_device_info(ledger, d, &info); d++)
		if (amd_identity_is(info.uuid) && cu_grant_wanted(ledger, info.uuid) >= 0)
			*present += allotment_mix(tenant, info.uuid, sizeof(info.uuid));
	ledger_close(ledger);
	return 0;
}

/* A last look that lies ahead is damage, or is from before the machine was started anew. */
void allotment_look(struct allotment *a, uint64_t now)
{
	struct units_file *file = allotment_file(a);
	uint64_t looked = word_read(&file->looked_ns), present = 1;

	if (looked <= now && now - looked < LOOK_NS)
		return;
	if (!word_swap_if(&file->looked_ns, looked, now))
		return;
	tenant_list(a->role.runtime, allotment_add_present, &present);
	if (word_publish_swap(&file->present, present) != present)
		role_ring(&a->role);
}

uint32_t allotment_changes(const struct allotment *a)
{
	return role_rung(&a->role);
}

void allotment_sleep(const struct allotment *a, uint32_t seen, uint64_t until_ns)
{
	role_sleep(&a->role, seen, until_ns);
}
