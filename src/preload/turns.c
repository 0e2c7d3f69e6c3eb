/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/futex.h"
#include "ledger/compute.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/region.h"
#include "ledger/slot.h"
#include "ledger/tenant.h"
#include "share/arbiter.h"

/* No tenant can have this name. */
#define ARBITER_FILE  ".arbiter"
#define ARBITER_BYTES 4096
#define LOCK_AT	      (INT64_C(1) << 40)

/* So long before the work of a higher priority is done others may launch: what a wake-up takes. */
#define BEHIND_NS UINT64_C(300000)

/* Work that ranks do at once is billed one after the other, and so much apart. */
#define APART_NS UINT64_C(100000000)

/* Who of those that take part has died is asked for so often. */
#define SCAN_NS UINT64_C(50000000)
/*
 * Who comes says so; all tenants, of which most may be long dead, are looked at only then, and now
 * and then in case that was missed.
 */
#define LIST_NS UINT64_C(1000000000)

struct arbiter_file {
	uint32_t bell;	 /* a futex, rung by tenants */
	uint32_t comers; /* so many processes have come */
	uint32_t pad[14];
	uint8_t reserved[ARBITER_BYTES - 64];
};
_Static_assert(sizeof(struct arbiter_file) == ARBITER_BYTES, "layout");

/* A tenant as the arbiter holds it; the entry of the same number in `state` is its part of it. */
struct member {
	char name[POLICY_NAME_BYTES]; /* empty: free */
	struct policy_map *policy;
	struct policy_turn *turn;
	struct ledger *ledger;
	uint64_t id, generation;
	bool seen, turns; /* in this scan; takes turns at all */
	int ndevices;
	struct compute *compute[POLICY_DEVICES];
	uint64_t busy_ns[POLICY_DEVICES]; /* at the last look */
	uint64_t used_ns[POLICY_DEVICES]; /* since it joined, see count */
	uint8_t bit[POLICY_DEVICES]; /* of `uuid` */
};

struct turns {
	char runtime[256];
	struct arbiter_file *file; /* holds no lock */
	void *role;		   /* the mapping that keeps the lock; NULL: not held */
	uint64_t scanned_ns, listed_ns, ids;
	uint32_t comers; /* when the tenants were listed */
	bool busy;
	int nuuids, n;
	uint8_t uuid[64][16];
	struct member member[ARBITER_TENANTS];
	struct arbiter_tenant state[ARBITER_TENANTS];
};

static void *map_file(int fd)
{
	void *map = mmap(NULL, ARBITER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	if (madvise(map, ARBITER_BYTES, MADV_DONTFORK) == 0)
		return map;
	munmap(map, ARBITER_BYTES);
	return NULL;
}

int turns_open(const char *tenant_dir, struct turns **ret)
{
	const char *slash = strrchr(tenant_dir, '/');
	CLEANUP_CLOSE int fd = -EBADF;
	struct turns *turns;

	if (!slash || slash == tenant_dir || slash - tenant_dir >= (long)sizeof(turns->runtime))
		return -EINVAL;
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (turns == MAP_FAILED)
		return -ENOMEM;
	memcpy(turns->runtime, tenant_dir, (size_t)(slash - tenant_dir));
	fd = region_join(turns->runtime, ARBITER_FILE, ARBITER_BYTES);
	turns->file = fd < 0 ? NULL : map_file(fd);
	if (!turns->file) {
		munmap(turns, sizeof(*turns));
		return fd < 0 ? fd : -ENOMEM;
	}
	__atomic_fetch_add(&turns->file->comers, 1, __ATOMIC_SEQ_CST);
	*ret = turns;
	return 0;
}

/* As slots do: the mapping keeps the lock, and nothing inherits it. */
bool turns_take(struct turns *turns)
{
	CLEANUP_CLOSE int fd = -EBADF;

	if (turns->role)
		return true;
	fd = region_join(turns->runtime, ARBITER_FILE, ARBITER_BYTES);
	if (fd < 0 || region_lock(fd, LOCK_AT, 1))
		return false;
	turns->role = map_file(fd);
	turns->scanned_ns = turns->listed_ns = 0;
	return turns->role;
}

bool turns_held(const struct turns *turns)
{
	return turns->role;
}

bool turns_busy(const struct turns *turns)
{
	return turns->busy;
}

static void leave(struct turns *turns, int i)
{
	struct member *member = &turns->member[i];

	policy_turn_close(member->turn);
	policy_close(member->policy);
	ledger_close(member->ledger);
	memset(member, 0, sizeof(*member));
	memset(&turns->state[i], 0, sizeof(turns->state[i]));
}

void turns_drop(struct turns *turns)
{
	for (int i = 0; i < turns->n; i++) {
		if (!turns->member[i].name[0])
			continue;
		atomic_release(&turns->member[i].turn->beat_ns, 0);
		leave(turns, i);
	}
	if (turns->role)
		munmap(turns->role, ARBITER_BYTES);
	turns->role = NULL;
	turns->n = 0;
	turns->nuuids = 0;
}

static int bit_of(struct turns *turns, const uint8_t uuid[16])
{
	for (int i = 0; i < turns->nuuids; i++)
		if (!memcmp(turns->uuid[i], uuid, 16))
			return i;
	if (turns->nuuids == 64)
		return 63; /* more devices than a machine has: they take turns together */
	memcpy(turns->uuid[turns->nuuids], uuid, 16);
	return turns->nuuids++;
}

/* What its policy says, and the devices that its processes met so far. */
static void describe(struct turns *turns, int i)
{
	struct member *member = &turns->member[i];
	struct arbiter_tenant *state = &turns->state[i];
	static const int32_t level[POLICY_PRIORITIES] = {
		[POLICY_PRIORITY_LOW] = -1,
		[POLICY_PRIORITY_NORMAL] = 0,
		[POLICY_PRIORITY_HIGH] = 1,
	};
	struct ledger_device_info info;
	struct policy policy;

	member->turns = false;
	if (policy_read(member->policy, &policy))
		return;
	member->generation = policy_generation(member->policy);
	member->turns = policy.compute != POLICY_COMPUTE_OFF && policy.mode == POLICY_MODE_TURNS;
	member->ndevices = 0;
	state->priority = level[policy.priority];
	state->weight = 1;
	state->devices = 0;
	while (member->ndevices < POLICY_DEVICES &&
	       !ledger_device_info(member->ledger, member->ndevices, &info)) {
		int bit = bit_of(turns, info.uuid);
		uint32_t weight = policy_weight(&policy, info.uuid);

		member->compute[member->ndevices] = compute_of(member->ledger, member->ndevices);
		member->bit[member->ndevices++] = (uint8_t)bit;
		state->weight = weight > state->weight ? weight : state->weight;
	}
}

static int join(struct turns *turns, const char *name, const char *dir)
{
	struct member *member;
	int i = 0;

	while (i < turns->n && turns->member[i].name[0])
		i++;
	if (i == ARBITER_TENANTS)
		return -ENOSPC;
	member = &turns->member[i];
	if (policy_open(dir, &member->policy) || ledger_open(dir, LEDGER_GUEST, &member->ledger) ||
	    policy_turn_open(dir, &member->turn)) {
		leave(turns, i);
		return 0;
	}
	strncpy(member->name, name, sizeof(member->name) - 1);
	member->id = ++turns->ids;
	if (i == turns->n)
		turns->n++;
	return i;
}

/* Opening one takes long beside asking whether anybody is there. */
static int look_at(const char *name, const char *dir, void *arg)
{
	struct turns *turns = arg;
	int i = 0;

	if (!slot_any_alive(dir))
		return 0;
	while (i < turns->n && strcmp(turns->member[i].name, name))
		i++;
	if (i == turns->n)
		i = join(turns, name, dir);
	if (i >= 0 && i < turns->n && !strcmp(turns->member[i].name, name))
		turns->member[i].seen = true;
	return 0;
}

static void look_for_members(struct turns *turns)
{
	char dir[sizeof(turns->runtime) + POLICY_NAME_BYTES + 1];

	for (int i = 0; i < turns->n; i++) {
		struct member *member = &turns->member[i];

		snprintf(dir, sizeof(dir), "%s/%s", turns->runtime, member->name);
		member->seen = member->name[0] && slot_any_alive(dir);
	}
}

static void look_for_all(struct turns *turns, uint64_t now_ns)
{
	turns->comers = atomic_peek(&turns->file->comers);
	turns->listed_ns = now_ns;
	for (int i = 0; i < turns->n; i++)
		turns->member[i].seen = false;
	tenant_list(turns->runtime, look_at, turns);
}

static void scan(struct turns *turns, uint64_t now_ns)
{
	if (turns->comers != atomic_peek(&turns->file->comers) ||
	    now_ns >= turns->listed_ns + LIST_NS)
		look_for_all(turns, now_ns);
	else if (now_ns >= turns->scanned_ns + SCAN_NS)
		look_for_members(turns);
	else
		return;
	turns->scanned_ns = now_ns;
	for (int i = 0; i < turns->n; i++) {
		if (!turns->member[i].name[0])
			continue;
		if (turns->member[i].seen)
			describe(turns, i);
		else
			leave(turns, i);
	}
}

/* An instant that a tenant wrote: none lies so far ahead unless it is damaged. */
static uint64_t instant(const uint64_t *word, uint64_t now_ns)
{
	uint64_t at = atomic_peek(word);

	return at > now_ns + COMPUTE_AHEAD_NS ? 0 : at;
}

/*
 * What a tenant used, as if its devices were one: that of the busiest. One that lies behind is
 * taken along, or work on it would count for nothing until it has caught up with all of the past.
 */
static uint64_t count(struct member *member)
{
	uint64_t most = 0;

	for (int d = 0; d < member->ndevices; d++) {
		uint64_t busy = atomic_peek(&member->compute[d]->busy_ns);

		member->used_ns[d] += busy > member->busy_ns[d] ? busy - member->busy_ns[d] : 0;
		member->busy_ns[d] = busy;
		most = member->used_ns[d] > most ? member->used_ns[d] : most;
	}
	for (int d = 0; d < member->ndevices; d++)
		if (member->used_ns[d] + APART_NS < most)
			member->used_ns[d] = most - APART_NS;
	return most;
}

static void look(struct turns *turns, int i, uint64_t now_ns)
{
	struct member *member = &turns->member[i];
	struct arbiter_tenant *state = &turns->state[i];
	struct ledger_device_info info;
	uint64_t demand = 0;

	if (policy_generation(member->policy) != member->generation ||
	    !ledger_device_info(member->ledger, member->ndevices, &info))
		describe(turns, i);
	state->id = member->turns ? member->id : 0;
	state->done_ns = state->devices = 0;
	for (int d = 0; d < member->ndevices; d++) {
		const struct compute *compute = member->compute[d];
		uint64_t work = instant(&compute->work_until_ns, now_ns);
		uint64_t want = instant(&compute->demand_until_ns, now_ns);

		if (work || want || atomic_peek(&compute->busy_ns))
			state->devices |= UINT64_C(1) << member->bit[d];
		state->done_ns = work > state->done_ns ? work : state->done_ns;
		demand = want > demand ? want : demand;
	}
	/*
	 * Who is let in at any time need only be let finish: others may queue up behind, unless it
	 * would find them there when it goes on.
	 */
	if (state->priority > 0 && !state->returns && state->done_ns > BEHIND_NS)
		state->done_ns -= BEHIND_NS;
	state->busy_ns = count(member);
	state->wants = demand > now_ns || state->done_ns > now_ns;
	turns->busy |= state->wants;
}

static void tell(struct turns *turns, int i, uint64_t now_ns)
{
	struct policy_turn *turn = turns->member[i].turn;
	const struct arbiter_tenant *state = &turns->state[i];
	uint64_t until = state->open ? state->open_until_ns : 0;
	bool opened = until > now_ns && atomic_peek(&turn->open_until_ns) <= now_ns;

	atomic_poke(&turn->flags, (state->contended ? (uint32_t)POLICY_TURN_CONTENDED : 0) |
					  (state->urged ? (uint32_t)POLICY_TURN_URGED : 0) |
					  (state->first ? (uint32_t)POLICY_TURN_FIRST : 0));
	atomic_poke(&turn->entitled_permille, state->entitled_permille);
	atomic_release(&turn->open_from_ns, state->open_from_ns);
	atomic_release(&turn->open_until_ns, until);
	atomic_release(&turn->beat_ns, now_ns);
	if (!opened)
		return;
	__atomic_fetch_add(&turn->seq, 1, __ATOMIC_SEQ_CST);
	futex_wake_all(&turn->seq);
}

uint64_t turns_step(struct turns *turns, uint64_t now_ns)
{
	uint64_t next;

	scan(turns, now_ns);
	turns->busy = false;
	for (int i = 0; i < turns->n; i++)
		if (turns->member[i].name[0])
			look(turns, i, now_ns);
	next = arbiter_step(&arbiter_defaults, turns->state, turns->n, now_ns);
	for (int i = 0; i < turns->n; i++)
		if (turns->member[i].name[0] && turns->member[i].turns)
			tell(turns, i, now_ns);
	return next;
}

void turns_ring(struct turns *turns)
{
	__atomic_fetch_add(&turns->file->bell, 1, __ATOMIC_SEQ_CST);
	futex_wake_all(&turns->file->bell);
}

uint32_t turns_bell(const struct turns *turns)
{
	return __atomic_load_n(&turns->file->bell, __ATOMIC_SEQ_CST);
}

void turns_sleep(struct turns *turns, uint32_t seen, uint64_t until_ns)
{
	futex_wait_until(&turns->file->bell, seen, until_ns);
}
