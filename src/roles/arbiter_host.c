/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/arbiter_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/futex.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/word.h"
#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/role/role_file.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "ledger/tenant.h"
#include "ledger/trace/trace.h"
#include "ledger/turn.h"
#include "roles/role.h"
#include "roles/roster.h"
#include "sched/arbiter.h"
#include "sched/tuning.h"
#include "sched/waits.h"

/* A device that a tenant was not given, and so has nothing to do with. */
#define NO_PLACE 64

/* So long before the work of a higher priority is done others may launch: what a wake-up takes. */
#define BEHIND_NS UINT64_C(300000)

/* Work that is later than expected is looked at again so soon, or when its owner rings. */
#define LATE_NS NS_PER_MS
/* Nobody waits longer for a tenant that was closed, and a turn that waits is looked at so soon. */
#define MISSED_MOST_NS NS_PER_S
#define WITHHELD_NS    UINT64_C(100000)

/* Work that ranks do at once is billed one after the other, and so much apart. */
#define APART_NS UINT64_C(100000000)

/* How often tenants are told how long they waited. */
#define SAY_WAITS_NS NS_PER_S

/* How often it is asked which of the tenants have died. */
#define LOOK_NS UINT64_C(50000000)
/* What an arbiter wrote that was there so long ago says who has had how much. */
#define INHERIT_NS UINT64_C(300000000)

/* The arbiter's part of a roster's entry; the scheduler's is the same number of `state`. */
struct member {
	struct turn *turn;     /* NULL: it takes no turns */
	struct ledger *ledger; /* likewise */
	struct trace *trace;   /* NULL: what is decided of it is not recorded */
	uint64_t begun_ns;     /* of a turn whose begin was recorded; 0: there is none */
	bool withheld;	       /* its turn was, at the last step */
	uint64_t id, generation;
	bool apart;	 /* in a container: it has a bell of its own, in its ledger */
	uint32_t heard;	 /* of that */
	uint64_t said_ns; /* when it was last told how long it waited */
	uint64_t rung_ns; /* when it was last found rung */
	int ndevices;
	struct device_time *time[POLICY_DEVICES];
	uint64_t busy_ns[POLICY_DEVICES]; /* at the last look */
	uint64_t used_ns[POLICY_DEVICES]; /* since it joined, see count */
	uint8_t bit[POLICY_DEVICES]; /* its place in `uuid`, or NO_PLACE */
};

struct arbiter_host {
	struct role role;
	uint32_t heard; /* of its bell */
	uint64_t now_ns, ids;
	bool busy;
	bool withheld; /* a turn that began is not told yet, see arbiter_host_is_taken */
	/* Devices that are wanted, or were a moment ago; by several tenants. */
	uint64_t wanted, contested;
	int known, nuuids;
	/* Places of devices: the machine's first, for good, then others, while somebody has them. */
	uint8_t uuid[64][16];
	uint16_t users[64];
	struct roster roster;
	struct member member[ARBITER_TENANTS];
	struct arbiter_tenant state[ARBITER_TENANTS];
	/* Kept while the tenant has no entry, as while the role rests, until another needs the place. */
	struct waits waits[ARBITER_TENANTS];
	uint64_t waits_of[ARBITER_TENANTS]; /* its policy's key; 0: nobody's */
};

_Static_assert(ROSTER_TENANTS == ARBITER_TENANTS, "one of each");

static const struct roster_job arbiter_job;

/* `enter` is role_open, for a tenant's directory, or role_claim. */
static int arbiter_host_make(const char *dir,
			     int (*enter)(struct role *, const struct role_file *, const char *),
			     struct arbiter_host **ret)
{
	struct arbiter_host *host = pages_map(sizeof(*host));
	int r;

	if (!host)
		return -ENOMEM;
	r = enter(&host->role, &role_file_arbiter, dir);
	if (r < 0) {
		munmap(host, sizeof(*host));
		return r;
	}
	host->role.stopped_ns = TUNING_STOPPED_NS;
	host->role.gap_ns = TUNING_STOPPED_NS / 2;
	host->roster.job = &arbiter_job;
	host->roster.arg = host;
	*ret = host;
	return 0;
}

int arbiter_host_open(const char *tenant_dir, struct arbiter_host **ret)
{
	int r = arbiter_host_make(tenant_dir, role_open, ret);

	if (!r)
		word_publish_add(role_file_comers((*ret)->role.map), 1);
	return r;
}

int arbiter_host_claim(const char *runtime, struct arbiter_host **ret)
{
	return arbiter_host_make(runtime, role_claim, ret);
}

int arbiter_host_find_file(const char *runtime, struct stat *ret)
{
	char path[PATH_MAX];
	int r = role_file_path(&role_file_arbiter, runtime, path);

	if (r < 0)
		return r;
	return lstat(path, ret) < 0 ? -errno : 0;
}

bool arbiter_host_has_daemon(const char *runtime)
{
	char path[PATH_MAX];
	CLEANUP_CLOSE int fd = -EBADF;

	if (role_file_path(&role_file_arbiter, runtime, path) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && shared_file_locked(fd, role_file_arbiter.claim, 1) == 1;
}

int arbiter_host_await(const char *runtime)
{
	CLEANUP_CLOSE int fd = role_file_join(&role_file_arbiter, runtime);

	return fd < 0 ? fd : shared_file_await(fd, role_file_arbiter.claim, 1);
}

bool arbiter_host_is_claimed(struct arbiter_host *host)
{
	return role_is_claimed(&host->role);
}

bool arbiter_host_held(const struct arbiter_host *host)
{
	return role_held(&host->role);
}

bool arbiter_host_busy(const struct arbiter_host *host)
{
	return host->busy;
}

static void arbiter_host_give_places_back(struct arbiter_host *host, struct member *member)
{
	for (int d = 0; d < member->ndevices; d++)
		if (member->bit[d] != NO_PLACE)
			host->users[member->bit[d]]--;
	member->ndevices = 0;
}

static void arbiter_host_member_rest(struct arbiter_host *host, struct member *member)
{
	arbiter_host_give_places_back(host, member);
	turn_close(member->turn);
	ledger_close(member->ledger);
	trace_close(member->trace);
	member->trace = NULL;
	member->begun_ns = 0;
	member->turn = NULL;
	member->ledger = NULL;
}

static void arbiter_host_leave(void *arg, int i)
{
	struct arbiter_host *host = arg;

	arbiter_host_member_rest(host, &host->member[i]);
	memset(&host->member[i], 0, sizeof(host->member[i]));
	memset(&host->state[i], 0, sizeof(host->state[i]));
}

bool arbiter_host_rest(struct arbiter_host *host)
{
	bool kept = false;

	for (int i = 0; i < host->roster.n; i++) {
		if (roster_has(&host->roster, i) && !host->member[i].apart)
			roster_leave(&host->roster, i);
		kept |= host->member[i].apart;
	}
	roster_expire(&host->roster);
	return kept;
}

static void arbiter_host_forget(struct arbiter_host *host)
{
	roster_leave_all(&host->roster);
	host->nuuids = host->known;
}

bool arbiter_host_take(struct arbiter_host *host, uint64_t now_ns)
{
	if (arbiter_host_held(host))
		return true;
	arbiter_host_forget(host);
	return role_take(&host->role, now_ns);
}

void arbiter_host_drop(struct arbiter_host *host)
{
	arbiter_host_forget(host);
	role_drop(&host->role);
}

void arbiter_host_close(struct arbiter_host *host)
{
	if (!host)
		return;
	arbiter_host_forget(host);
	role_close(&host->role);
	munmap(host, sizeof(*host));
}

static int arbiter_host_place_of(struct arbiter_host *host, const uint8_t uuid[16])
{
	int place = -1;

	for (int i = 0; i < host->nuuids; i++) {
		if (!memcmp(host->uuid[i], uuid, 16))
			return i;
		if (place < 0 && i >= host->known && !host->users[i])
			place = i;
	}
	if (place < 0 && host->nuuids == 64)
		return 63; /* more devices than a machine has: they take turns together */
	if (place < 0)
		place = host->nuuids++;
	memcpy(host->uuid[place], uuid, 16);
	return place;
}

void arbiter_host_know(struct arbiter_host *host, const uint8_t uuid[static 16])
{
	if (host->known == 64 || host->nuuids > host->known)
		return;
	for (int i = 0; i < host->known; i++)
		if (!memcmp(host->uuid[i], uuid, 16))
			return;
	memcpy(host->uuid[host->known++], uuid, 16);
	host->nuuids = host->known;
}

/* Of who takes no turns no more is mapped than the policy that says so: most tenants may be such. */
static bool arbiter_host_takes_turns(struct arbiter_host *host, int i, const struct policy *policy)
{
	struct member *member = &host->member[i];
	char dir[PATH_MAX];

	if (!policy_limits_compute(policy) || policy->mode != POLICY_MODE_TURNS) {
		arbiter_host_member_rest(host, member);
		return false;
	}
	if (member->turn)
		return true;
	/* A tenant of another user is not to be able to end our process. A daemon survives it. */
	if (tenant_path(host->role.runtime, host->roster.entry[i].name, dir, sizeof(dir)) < 0 ||
	    ledger_open(dir, member->apart && !host->role.claim ? LEDGER_WATCH : LEDGER_GUEST,
			&member->ledger))
		return false;
	if (turn_open(dir, &member->turn)) {
		arbiter_host_member_rest(host, member);
		return false;
	}
	member->id = ++host->ids;
	host->state[i].inherited_ns = turn_silent(member->turn, host->now_ns, INHERIT_NS)
					      ? 0
					      : word_read(&member->turn->virtual_ns);
	return true;
}

/* A container's processes can cut any file that they see short: a tenant's arbiter maps none of them. */
static void arbiter_host_follow_trace(struct arbiter_host *host, int i, bool on)
{
	struct member *member = &host->member[i];
	char dir[PATH_MAX];

	if (!tenant_path(host->role.runtime, host->roster.entry[i].name, dir, sizeof(dir)))
		trace_follow_roles(dir, on && (host->role.claim || !member->apart), &member->trace);
	if (!member->trace)
		member->begun_ns = 0;
}

/* What its policy says, and the devices that its processes met so far. */
static void arbiter_host_describe_member(struct arbiter_host *host, int i)
{
	struct member *member = &host->member[i];
	struct arbiter_tenant *state = &host->state[i];
	struct policy_map *map = host->roster.entry[i].policy;
	struct ledger_device_info info;
	struct policy policy;

	if (policy_read(map, &policy)) {
		arbiter_host_member_rest(host, member);
		return;
	}
	member->generation = policy_generation(map);
	member->said_ns = 0;
	if (!arbiter_host_takes_turns(host, i, &policy))
		return;
	arbiter_host_follow_trace(host, i, policy.trace);
	arbiter_host_give_places_back(host, member);
	state->priority = roster_level(&policy);
	state->floor_permille = policy_floor(&policy);
	state->latency_ns = policy.latency_us * NS_PER_US;
	state->slice_ns = policy.slice_us * NS_PER_US;
	state->cap_permille = 0;
	state->weight = 1;
	state->devices = 0;
	while (member->ndevices < POLICY_DEVICES &&
	       !ledger_device_info(member->ledger, member->ndevices, &info)) {
		uint32_t weight = policy_weight(&policy, info.uuid);
		int d = member->ndevices++;

		member->time[d] = device_time_of(member->ledger, d);
		member->bit[d] = NO_PLACE;
		/* A tenant can write into its ledger what it was not given. */
		if (!policy_find(&policy, info.uuid))
			continue;
		member->bit[d] = (uint8_t)arbiter_host_place_of(host, info.uuid);
		host->users[member->bit[d]]++;
		state->weight = weight > state->weight ? weight : state->weight;
		if (policy.compute == POLICY_COMPUTE_CAP)
			state->cap_permille = (uint32_t)max_u64(
				state->cap_permille, policy_share(&policy, info.uuid));
	}
}

/* A tenant in a container cannot announce its processes, so it counts as present from its creation. */
static bool arbiter_host_lives(const char *dir)
{
	return tenant_is_open_to_all(dir) || slot_any_alive(dir);
}

static int arbiter_host_find_waits(const struct arbiter_host *host, uint64_t of)
{
	for (int i = 0; i < ARBITER_TENANTS; i++)
		if (host->waits_of[i] == of)
			return i;
	return -1;
}

/* Takes up again what the tenant of entry `i` has waited so far; what was kept there is moved. */
static void arbiter_host_find_waited(struct arbiter_host *host, int i)
{
	uint64_t of = policy_key(host->roster.entry[i].policy);
	int k = arbiter_host_find_waits(host, of);
	struct waits waits = {0};

	if (k >= 0)
		waits = host->waits[k];
	else
		k = arbiter_host_find_waits(host, 0);
	if (k >= 0) {
		host->waits[k] = host->waits[i];
		host->waits_of[k] = host->waits_of[i];
	}
	host->waits[i] = waits;
	host->waits_of[i] = of;
}

static int arbiter_host_join(void *arg, int i, const char *dir)
{
	struct arbiter_host *host = arg;

	arbiter_host_find_waited(host, i);
	host->member[i].apart = tenant_is_open_to_all(dir);
	return 0;
}

static const struct roster_job arbiter_job = {
	.lives = arbiter_host_lives,
	.join = arbiter_host_join,
	.leave = arbiter_host_leave,
	.look_ns = LOOK_NS,
};

static void arbiter_host_scan(struct arbiter_host *host, uint64_t now_ns)
{
	if (!roster_scan(&host->roster, &host->role, now_ns))
		return;
	for (int i = 0; i < host->roster.n; i++)
		if (roster_has(&host->roster, i))
			arbiter_host_describe_member(host, i);
}

/* An instant that a tenant wrote: none lies so far ahead unless it is damaged. */
static uint64_t arbiter_host_instant(const uint64_t *word, uint64_t now_ns)
{
	uint64_t at = word_read(word);

	return at > now_ns + DEVICE_TIME_AHEAD_NS ? 0 : at;
}

/*
 * What a tenant used, as if its devices were one: that of the busiest. One that lies behind is
 * taken along, or work on it would count for nothing until it has caught up with all of the past.
 */
static uint64_t arbiter_host_count(struct member *member)
{
	uint64_t most = 0;

	for (int d = 0; d < member->ndevices; d++) {
		uint64_t busy = word_read(&member->time[d]->busy_ns);

		member->used_ns[d] += busy > member->busy_ns[d] ? busy - member->busy_ns[d] : 0;
		member->busy_ns[d] = busy;
		most = member->used_ns[d] > most ? member->used_ns[d] : most;
	}
	for (int d = 0; d < member->ndevices; d++)
		if (member->used_ns[d] + APART_NS < most)
			member->used_ns[d] = most - APART_NS;
	return most;
}

/*
 * Work that is late, or of unknown length, goes on: nobody is let in before its end is seen. How
 * much of it is such a guess.
 */
static uint64_t arbiter_host_done_ns(const struct device_time *time, uint64_t now_ns,
				     uint64_t *ret_guess_ns)
{
	uint64_t due = arbiter_host_instant(&time->due_ns, now_ns);
	uint64_t work = arbiter_host_instant(&time->work_until_ns, now_ns);
	bool unforeseen = arbiter_host_instant(&time->unforeseen_until_ns, now_ns) > now_ns;

	*ret_guess_ns = 0;
	if (work <= now_ns || (!unforeseen && due > now_ns) || due > now_ns + LATE_NS)
		return due;
	*ret_guess_ns = now_ns + LATE_NS - max_u64(due, now_ns);
	return now_ns + LATE_NS;
}

static void arbiter_host_look(struct arbiter_host *host, int i, uint64_t now_ns)
{
	struct member *member = &host->member[i];
	struct arbiter_tenant *state = &host->state[i];
	struct ledger_device_info info;
	uint64_t demand = 0;

	if (member->ledger && ledger_look(member->ledger))
		arbiter_host_member_rest(host, member);
	if (policy_generation(host->roster.entry[i].policy) != member->generation ||
	    (member->turn && !ledger_device_info(member->ledger, member->ndevices, &info)))
		arbiter_host_describe_member(host, i);
	state->id = member->turn ? member->id : 0;
	state->done_ns = state->guess_ns = state->devices = 0;
	state->burst_ns = state->unit_ns = 0;
	state->rests = true;
	for (int d = 0; d < member->ndevices; d++) {
		const struct device_time *time = member->time[d];
		uint64_t work = arbiter_host_instant(&time->work_until_ns, now_ns);
		uint64_t want = arbiter_host_instant(&time->demand_until_ns, now_ns);
		uint64_t guess, done = arbiter_host_done_ns(time, now_ns, &guess),
				burst = word_read(&time->burst_ns),
				unit = device_time_unit_ns(member->ledger, d);

		if (member->bit[d] == NO_PLACE)
			continue;
		if (work || want || word_read(&time->busy_ns))
			state->devices |= UINT64_C(1) << member->bit[d];
		if (done > state->done_ns) {
			state->done_ns = done;
			state->guess_ns = guess;
		}
		if (done >
		    arbiter_host_instant(&time->rests_until_ns, now_ns) + arbiter_defaults.lead_ns)
			state->rests = false;
		state->burst_ns = burst > state->burst_ns ? burst : state->burst_ns;
		/* A graph of some milliseconds that is waited for is not in the way for longer. */
		state->unit_ns = max_u64(state->unit_ns, burst ? min_u64(unit, burst) : unit);
		demand = want > demand ? want : demand;
		demand = work > demand ? work : demand;
	}
	/*
	 * A tenant that goes first needs only time to finish: others may queue up behind it, unless
	 * it would find them there when it goes on.
	 */
	if (state->priority > 0 && !state->returns && state->done_ns > BEHIND_NS)
		state->done_ns -= BEHIND_NS;
	state->busy_ns = arbiter_host_count(member);
	state->wants = demand > now_ns || state->done_ns > now_ns;
	host->busy |= state->wants;
}

/*
 * A tenant that was just closed may have launched while that was decided: then it says so by now,
 * and its neighbour waits for that work as for any. (See demand_claim in guest/launch/demand.c.)
 */
static bool arbiter_host_is_taken(const struct arbiter_host *host, int i, uint64_t now_ns)
{
	const struct arbiter_tenant *state = &host->state[i];

	for (int k = 0; k < host->roster.n; k++) {
		const struct arbiter_tenant *other = &host->state[k];
		const struct member *member = &host->member[k];

		if (k == i || !other->id || other->open ||
		    (other->priority != state->priority && !state->lifted) ||
		    !(other->devices & state->devices) ||
		    now_ns > other->left_ns + MISSED_MOST_NS || ledger_look(member->ledger))
			continue;
		for (int d = 0; d < member->ndevices; d++) {
			uint64_t guess;

			if (arbiter_host_done_ns(member->time[d], now_ns, &guess) >
			    now_ns + arbiter_defaults.lead_ns)
				return true;
		}
	}
	return false;
}

/* `until`: 0 if the tenant has no turn. A turn may also end with the time that was written for it. */
static void arbiter_host_trace(struct member *member, const struct arbiter_tenant *state, bool opened,
			       uint64_t until, uint64_t now_ns)
{
	const struct turn *turn = member->turn;
	bool awaited = state->leaving && !state->urged;
	uint64_t work = sat_sub_u64(state->done_ns, now_ns);

	if (member->begun_ns && (opened || !until)) {
		uint64_t ended_ns = min_u64(now_ns, word_read(&turn->open_until_ns));

		trace_put(member->trace, TRACE_TURN_ENDED, -1, sat_sub_u64(ended_ns, member->begun_ns),
			  work, state->guess_ns);
		member->begun_ns = 0;
	}
	if (opened) {
		member->begun_ns = now_ns;
		trace_put(member->trace, TRACE_TURN_BEGUN, -1, sat_sub_u64(state->open_until_ns, now_ns),
			  state->entitled_permille, sat_sub_u64(state->open_from_ns, now_ns));
	}
	if (awaited && !(word_read(&turn->flags) & TURN_AWAITED))
		trace_put(member->trace, TRACE_TURN_LATE, -1, work, state->guess_ns, 0);
}

static bool arbiter_host_wants(const struct arbiter_host *host, int i, uint64_t now_ns)
{
	const struct arbiter_tenant *state = &host->state[i];

	return state->id && (state->wants || now_ns < state->idle_since_ns + NS_PER_MS);
}

static void arbiter_host_note_wanted(struct arbiter_host *host, uint64_t now_ns)
{
	host->wanted = host->contested = 0;
	for (int i = 0; i < host->roster.n; i++) {
		uint64_t devices = arbiter_host_wants(host, i, now_ns) ? host->state[i].devices : 0;

		host->contested |= host->wanted & devices;
		host->wanted |= devices;
	}
}

/* The tenant's devices that others want, as struct turn has them. */
static uint32_t arbiter_host_shared(const struct arbiter_host *host, int i, uint64_t now_ns)
{
	const struct member *member = &host->member[i];
	uint64_t others = arbiter_host_wants(host, i, now_ns) ? host->contested : host->wanted;
	uint32_t shared = 0;

	for (int d = 0; d < member->ndevices && d < 32; d++)
		if (member->bit[d] != NO_PLACE && others >> member->bit[d] & 1)
			shared |= UINT32_C(1) << d;
	return shared;
}

static void arbiter_host_tell(struct arbiter_host *host, int i, uint64_t now_ns)
{
	struct member *member = &host->member[i];
	struct turn *turn = member->turn;
	const struct arbiter_tenant *state = &host->state[i];
	uint64_t until = state->open ? state->open_until_ns : 0;
	uint64_t before = word_read(&turn->open_until_ns);
	bool opened = until > now_ns && before <= now_ns;
	bool withheld = opened && !state->first && arbiter_host_is_taken(host, i, now_ns);

	if (withheld) {
		host->withheld = true;
		if (!member->withheld)
			trace_to(member->trace, TRACE_TURN_WITHHELD, -1, 0, 0, 0);
		opened = false;
		until = 0;
	}
	member->withheld = withheld;
	if (member->trace)
		arbiter_host_trace(member, state, opened, until, now_ns);
	word_write(&turn->flags, (state->contended ? (uint32_t)TURN_CONTENDED : 0) |
					 (state->urged ? (uint32_t)TURN_URGED : 0) |
					 (state->first ? (uint32_t)TURN_FIRST : 0) |
					 (state->leaving && !state->urged ? (uint32_t)TURN_AWAITED
									  : 0));
	word_write(&turn->urgent_us,
		   state->urgent_ns / 1000 < UINT32_MAX ? (uint32_t)(state->urgent_ns / 1000) : 0);
	word_write(&turn->entitled_permille, state->entitled_permille);
	word_write(&turn->shared, arbiter_host_shared(host, i, now_ns));
	word_write(&turn->virtual_ns, state->virtual_ns);
	word_release(&turn->open_from_ns, state->open_from_ns);
	word_release(&turn->open_until_ns, until ? until : min_u64(before, now_ns));
	word_release(&turn->beat_ns, now_ns);
	if (!opened)
		return;
	word_publish_add(&turn->seq, 1);
	futex_wake_all(&turn->seq);
}

/* Another user's tenant is not named, and in a container none is. */
static const char *arbiter_host_name_for(const struct arbiter_host *host, int i, int other)
{
	const char *of = strchr(host->roster.entry[i].name, '@');
	const char *name = other < 0 ? "" : host->roster.entry[other].name;
	const char *at = strchr(name, '@');

	return host->member[i].apart || strcmp(of ? of : "", at ? at : "") ? "" : name;
}

static void arbiter_host_say_waits(struct arbiter_host *host, int i, uint64_t now_ns)
{
	const struct arbiter_tenant *state = &host->state[i];
	uint64_t least_us = state->least_latency_ns / NS_PER_US;
	struct turn_waits record = {.at_ns = now_ns};
	struct waits_sum sum;

	waits_sum(&host->waits[i], now_ns, &sum);
	record.n = sum.n;
	record.p50_us = sum.p50_us;
	record.p99_us = sum.p99_us;
	record.longest_us = sum.longest_us;
	record.behind_us = sum.behind_us;
	record.least_us = (uint32_t)min_u64(least_us, TURN_LATENCY_NONE);
	_Static_assert(sizeof(record.behind) == sizeof(sum.behind), "one name");
	memcpy(record.behind, sum.behind, sizeof(record.behind));
	turn_say_waits(host->member[i].turn, &record);
	host->member[i].said_ns = now_ns;
}

static void arbiter_host_follow_waits(struct arbiter_host *host, int i, uint64_t now_ns)
{
	const struct arbiter_tenant *state = &host->state[i];

	if (state->waited_ns)
		waits_add(&host->waits[i], now_ns, state->waited_ns,
			  arbiter_host_name_for(host, i, state->behind), state->behind_ns);
	if (now_ns - host->member[i].said_ns >= SAY_WAITS_NS)
		arbiter_host_say_waits(host, i, now_ns);
}

uint64_t arbiter_host_step(struct arbiter_host *host, uint64_t now_ns)
{
	uint64_t next;

	host->now_ns = now_ns;
	arbiter_host_scan(host, now_ns);
	host->busy = false;
	for (int i = 0; i < host->roster.n; i++)
		if (roster_has(&host->roster, i))
			arbiter_host_look(host, i, now_ns);
	next = arbiter_step(&arbiter_defaults, host->state, host->roster.n, now_ns);
	arbiter_host_note_wanted(host, now_ns);
	/* Close first: a tenant that launches all the same is seen before another is let in. */
	host->withheld = false;
	for (int open = 0; open < 2; open++) {
		for (int i = 0; i < host->roster.n; i++)
			if (host->member[i].turn && host->state[i].open == open)
				arbiter_host_tell(host, i, now_ns);
		word_fence();
	}
	for (int i = 0; i < host->roster.n; i++)
		if (host->member[i].turn)
			arbiter_host_follow_waits(host, i, now_ns);
	if (host->withheld && next > now_ns + WITHHELD_NS)
		next = now_ns + WITHHELD_NS;
	role_beat(&host->role, next);
	return next;
}

uint64_t arbiter_host_due_ns(const struct arbiter_host *host)
{
	return role_due_ns(&host->role);
}

void arbiter_host_ring(struct arbiter_host *host)
{
	role_ring(&host->role);
}

void arbiter_host_announce(const char *runtime)
{
	role_file_tell(&role_file_arbiter, runtime);
}

void arbiter_host_listen(struct arbiter_host *host)
{
	uint64_t now_ns = now_monotonic_ns();

	host->heard = role_rung(&host->role);
	for (int i = 0; i < host->roster.n; i++) {
		struct member *member = &host->member[i];
		uint32_t bell = member->apart && member->ledger && !ledger_look(member->ledger)
					? ledger_rung(member->ledger)
					: member->heard;

		if (bell == member->heard)
			continue;
		member->heard = bell;
		member->rung_ns = now_ns;
	}
}

/*
 * Of containers it is not known who is in them: one that rings all the time has its bell passed over
 * for as long as others wait between two rings.
 */
void arbiter_host_sleep(struct arbiter_host *host, uint64_t until_ns)
{
	struct futex_seen bell[FUTEX_ANY_MOST] = {{role_file_bell(host->role.map), host->heard}};
	uint64_t now_ns = now_monotonic_ns();
	int n = 1;

	for (int i = 0; i < host->roster.n && n < FUTEX_ANY_MOST; i++) {
		const struct member *member = &host->member[i];

		if (!member->apart || !member->ledger)
			continue;
		if (now_ns < member->rung_ns + TUNING_RING_NS)
			until_ns = min_u64(until_ns, member->rung_ns + TUNING_RING_NS);
		else
			bell[n++] = (struct futex_seen){ledger_bell(member->ledger), member->heard};
	}
	if (n == 1)
		role_sleep(&host->role, host->heard, until_ns);
	else if (futex_wait_any_until(bell, n, until_ns)) /* an old kernel: they are looked at */
		role_sleep(&host->role, host->heard, min_u64(until_ns, now_ns + NS_PER_MS));
}
