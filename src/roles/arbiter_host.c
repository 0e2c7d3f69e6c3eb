/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/arbiter_host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/now.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "ledger/tenant.h"
#include "ledger/trace.h"
#include "ledger/turn.h"
#include "sched/arbiter.h"
#include "sched/tuning.h"

/* A device that a tenant was not given, and so has nothing to do with. */
#define NO_PLACE 64

/* No tenant can have this name. */
#define ARBITER_FILE  ".arbiter"
#define ARBITER_BYTES 4096
#define LOCK_AT	      (INT64_C(1) << 40)
#define CLAIM_AT      (LOCK_AT + 1)

/* So long before the work of a higher priority is done others may launch: what a wake-up takes. */
#define BEHIND_NS UINT64_C(300000)

/* Work that is later than expected is looked at again so soon, or when its owner rings. */
#define LATE_NS NS_PER_MS
/* Nobody waits longer for a tenant that was closed, and a turn that waits is looked at so soon. */
#define MISSED_MOST_NS NS_PER_S
#define WITHHELD_NS    UINT64_C(100000)

/* Work that ranks do at once is billed one after the other, and so much apart. */
#define APART_NS UINT64_C(100000000)

/* Who of those that take part has died is asked for so often. */
#define SCAN_NS UINT64_C(50000000)
/* What an arbiter wrote that was there so long ago says who has had how much. */
#define INHERIT_NS UINT64_C(300000000)
/*
 * A tenant that comes says so, and then all tenants are looked at, of which most may be long dead;
 * and once in this time, in case that was missed.
 */
#define LIST_NS NS_PER_S

struct arbiter_file {
	uint32_t bell;	 /* a futex, rung by tenants */
	uint32_t comers; /* so many processes have come */
	uint32_t claims; /* so often it was claimed */
	uint32_t term;	 /* so often the role was taken from somebody who was stopped */
	uint64_t due_ns; /* whoever has the role makes the next step by then */
	uint64_t reserved_words[5];
	uint8_t reserved[ARBITER_BYTES - 64];
};
_Static_assert(sizeof(struct arbiter_file) == ARBITER_BYTES, "layout");

/* A tenant as the arbiter holds it; the entry of the same number in `state` is its part of it. */
struct member {
	char name[POLICY_NAME_BYTES]; /* empty: free */
	struct policy_map *policy;
	struct turn *turn;     /* NULL: it takes no turns */
	struct ledger *ledger; /* likewise */
	struct trace *trace;   /* NULL: what is decided of it is not recorded */
	uint64_t begun_ns;     /* when it last got a turn */
	uint64_t id, generation;
	bool seen;	 /* in this scan */
	bool apart;	 /* in a container: it has a bell of its own, in its ledger */
	uint32_t heard;	 /* of that */
	uint64_t rung_ns; /* when it was last found rung */
	int ndevices;
	struct device_time *time[POLICY_DEVICES];
	uint64_t busy_ns[POLICY_DEVICES]; /* at the last look */
	uint64_t used_ns[POLICY_DEVICES]; /* since it joined, see count */
	uint8_t bit[POLICY_DEVICES]; /* its place in `uuid`, or NO_PLACE */
};

struct arbiter_host {
	char runtime[256];
	struct arbiter_file *file; /* holds no lock */
	void *role;		   /* the mapping that keeps the lock; NULL: not held */
	uint32_t term;		   /* that it is of */
	uint64_t silent_ns;	   /* since when whoever has it instead makes no step, ... */
	uint64_t silent_due_ns;	   /* ... which was due then, ... */
	uint64_t tried_ns;	   /* ... as of this last try to have it */
	void *claim;		   /* likewise, of a daemon */
	uint32_t claims;	   /* at the last look */
	uint32_t heard;		   /* of the bell */
	uint64_t now_ns, scanned_ns, listed_ns, ids;
	uint32_t comers; /* when the tenants were listed */
	bool busy;
	bool withheld; /* a turn that began is not told yet, see arbiter_host_is_taken */
	int known, nuuids, n;
	/* Places of devices: the machine's first, for good, then others, while somebody has them. */
	uint8_t uuid[64][16];
	uint16_t users[64];
	struct member member[ARBITER_TENANTS];
	struct arbiter_tenant state[ARBITER_TENANTS];
};

static void *arbiter_host_map_file(int fd)
{
	void *map = mmap(NULL, ARBITER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	if (madvise(map, ARBITER_BYTES, MADV_DONTFORK) == 0)
		return map;
	munmap(map, ARBITER_BYTES);
	return NULL;
}

static int arbiter_host_make(const char *runtime, struct arbiter_host **ret)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct arbiter_host *host;

	if (strlen(runtime) >= sizeof(host->runtime))
		return -EINVAL;
	host = mmap(NULL, sizeof(*host), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (host == MAP_FAILED)
		return -ENOMEM;
	strcpy(host->runtime, runtime);
	fd = shared_file_join(host->runtime, ARBITER_FILE, ARBITER_BYTES);
	host->file = fd < 0 ? NULL : arbiter_host_map_file(fd);
	if (!host->file) {
		munmap(host, sizeof(*host));
		return fd < 0 ? fd : -ENOMEM;
	}
	*ret = host;
	return 0;
}

int arbiter_host_open(const char *tenant_dir, struct arbiter_host **ret)
{
	char runtime[sizeof((*ret)->runtime)];
	int r = tenant_runtime_of(tenant_dir, runtime, sizeof(runtime));

	if (!r)
		r = arbiter_host_make(runtime, ret);
	if (!r)
		word_publish_add(&(*ret)->file->comers, 1);
	return r;
}

/* As slots do: the mapping keeps the lock, and nothing inherits it. NULL: somebody has it. */
static void *arbiter_host_lock(const struct arbiter_host *host, int64_t at)
{
	CLEANUP_CLOSE int fd = shared_file_join(host->runtime, ARBITER_FILE, ARBITER_BYTES);

	return fd < 0 || shared_file_lock(fd, at, 1) ? NULL : arbiter_host_map_file(fd);
}

static bool arbiter_host_is_claimed_by_other(const struct arbiter_host *host)
{
	CLEANUP_CLOSE int fd = shared_file_join(host->runtime, ARBITER_FILE, ARBITER_BYTES);

	return fd < 0 || (!host->claim && shared_file_locked(fd, CLAIM_AT, 1) == 1);
}

static void arbiter_host_say_claim(struct arbiter_host *host)
{
	word_publish_add(&host->file->claims, 1);
	arbiter_host_ring(host);
}

static int arbiter_host_path(const char *runtime, char ret[static PATH_MAX])
{
	int n = snprintf(ret, PATH_MAX, "%s/" ARBITER_FILE, runtime);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int arbiter_host_find_file(const char *runtime, struct stat *ret)
{
	char path[PATH_MAX];
	int r = arbiter_host_path(runtime, path);

	if (r < 0)
		return r;
	return lstat(path, ret) < 0 ? -errno : 0;
}

bool arbiter_host_has_daemon(const char *runtime)
{
	char path[PATH_MAX];
	CLEANUP_CLOSE int fd = -EBADF;

	if (arbiter_host_path(runtime, path) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && shared_file_locked(fd, CLAIM_AT, 1) == 1;
}

int arbiter_host_await(const char *runtime)
{
	CLEANUP_CLOSE int fd = shared_file_join(runtime, ARBITER_FILE, ARBITER_BYTES);

	return fd < 0 ? fd : shared_file_await(fd, CLAIM_AT, 1);
}

int arbiter_host_claim(const char *runtime, struct arbiter_host **ret)
{
	struct arbiter_host *host;
	int r = arbiter_host_make(runtime, &host);

	if (r < 0)
		return r;
	host->claim = arbiter_host_lock(host, CLAIM_AT);
	if (!host->claim) {
		arbiter_host_close(host);
		return -EAGAIN;
	}
	arbiter_host_say_claim(host);
	*ret = host;
	return 0;
}

/*
 * Whoever has the role has made no step since it was first tried for. It may have slept until then,
 * as a daemon does while nobody works, but it has been rung for.
 */
static bool arbiter_host_is_stopped(struct arbiter_host *host, uint64_t now_ns)
{
	uint64_t due_ns = arbiter_host_due_ns(host);

	if (due_ns != host->silent_due_ns || now_ns > host->tried_ns + TUNING_STOPPED_NS / 2)
		host->silent_ns = now_ns;
	host->silent_due_ns = due_ns;
	host->tried_ns = now_ns;
	return due_ns && now_ns >= max_u64(due_ns, host->silent_ns) + TUNING_STOPPED_NS;
}

/* Each term's lock, of which the first one is beside the claim's. */
static int64_t arbiter_host_term_at(uint32_t term)
{
	return term ? CLAIM_AT + term : LOCK_AT;
}

/*
 * Who takes it from another has the next term's lock before that term begins, so that nobody else
 * can have either; and a step of it is due by then, so that nobody takes that one for stopped.
 */
static bool arbiter_host_lock_role(struct arbiter_host *host, uint64_t now_ns)
{
	uint32_t now = word_check(&host->file->term), term = now;
	bool stopped = arbiter_host_is_stopped(host, now_ns);

	if (!stopped && arbiter_host_is_claimed_by_other(host))
		return false;
	host->role = arbiter_host_lock(host, arbiter_host_term_at(term));
	if (!host->role && stopped) {
		host->role = arbiter_host_lock(host, arbiter_host_term_at(++term));
		if (host->role) {
			word_release(&host->file->due_ns, now_ns);
			word_swap_if_u32(&host->file->term, now, term);
		}
	}
	host->term = term;
	return host->role;
}

/* Who has claimed the role, and lost it as it was stopped, says so again. */
bool arbiter_host_take(struct arbiter_host *host, uint64_t now_ns)
{
	bool had = host->role;

	if (arbiter_host_held(host))
		return true;
	arbiter_host_drop(host);
	if (had && host->claim)
		arbiter_host_say_claim(host);
	if (!arbiter_host_lock_role(host, now_ns))
		return false;
	if (!arbiter_host_held(host))
		arbiter_host_drop(host);
	return host->role;
}

/* The word says when to ask; the lock is the answer, as anybody may write the word. */
bool arbiter_host_is_claimed(struct arbiter_host *host)
{
	uint32_t claims = word_check(&host->file->claims);
	CLEANUP_CLOSE int fd = -EBADF;

	if (host->claim || claims == host->claims)
		return false;
	host->claims = claims;
	fd = shared_file_join(host->runtime, ARBITER_FILE, ARBITER_BYTES);
	return fd >= 0 && shared_file_locked(fd, CLAIM_AT, 1) == 1;
}

bool arbiter_host_held(const struct arbiter_host *host)
{
	return host->role && word_check(&host->file->term) == host->term;
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
	member->turn = NULL;
	member->ledger = NULL;
}

static void arbiter_host_member_leave(struct arbiter_host *host, int i)
{
	struct member *member = &host->member[i];

	arbiter_host_member_rest(host, member);
	policy_close(member->policy);
	memset(member, 0, sizeof(*member));
	memset(&host->state[i], 0, sizeof(host->state[i]));
}

bool arbiter_host_rest(struct arbiter_host *host)
{
	bool kept = false;

	for (int i = 0; i < host->n; i++) {
		if (host->member[i].name[0] && !host->member[i].apart)
			arbiter_host_member_leave(host, i);
		kept |= host->member[i].apart;
	}
	host->scanned_ns = host->listed_ns = 0;
	return kept;
}

void arbiter_host_drop(struct arbiter_host *host)
{
	for (int i = 0; i < host->n; i++)
		if (host->member[i].name[0])
			arbiter_host_member_leave(host, i);
	host->n = 0;
	host->nuuids = host->known;
	host->scanned_ns = host->listed_ns = 0;
	if (arbiter_host_held(host))
		word_release(&host->file->due_ns, 0);
	if (host->role)
		munmap(host->role, ARBITER_BYTES);
	host->role = NULL;
}

void arbiter_host_close(struct arbiter_host *host)
{
	if (!host)
		return;
	arbiter_host_drop(host);
	if (host->claim)
		munmap(host->claim, ARBITER_BYTES);
	munmap(host->file, ARBITER_BYTES);
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
	if (tenant_path(host->runtime, member->name, dir, sizeof(dir)) < 0 ||
	    ledger_open(dir, member->apart && !host->claim ? LEDGER_WATCH : LEDGER_GUEST,
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

/* A container's processes can cut any file that they see short: a tenant's process maps none of them. */
static void arbiter_host_follow_trace(const struct arbiter_host *host, struct member *member, bool on)
{
	char dir[PATH_MAX];

	if (!tenant_path(host->runtime, member->name, dir, sizeof(dir)))
		trace_follow_roles(dir, on && (host->claim || !member->apart), &member->trace);
}

/* What its policy says, and the devices that its processes met so far. */
static void arbiter_host_describe_member(struct arbiter_host *host, int i)
{
	struct member *member = &host->member[i];
	struct arbiter_tenant *state = &host->state[i];
	static const int32_t level[POLICY_PRIORITIES] = {
		[POLICY_PRIORITY_LOW] = -1,
		[POLICY_PRIORITY_NORMAL] = 0,
		[POLICY_PRIORITY_HIGH] = 1,
	};
	struct ledger_device_info info;
	struct policy policy;

	if (policy_read(member->policy, &policy)) {
		arbiter_host_member_rest(host, member);
		return;
	}
	member->generation = policy_generation(member->policy);
	if (!arbiter_host_takes_turns(host, i, &policy))
		return;
	arbiter_host_follow_trace(host, member, policy.trace);
	arbiter_host_give_places_back(host, member);
	state->priority = level[policy.priority];
	state->floor_permille = policy_floor(&policy);
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

static int arbiter_host_member_join(struct arbiter_host *host, const char *name, const char *dir)
{
	struct member *member;
	int i = 0;

	while (i < host->n && host->member[i].name[0])
		i++;
	if (i == ARBITER_TENANTS)
		return -ENOSPC;
	member = &host->member[i];
	if (policy_open(dir, &member->policy)) {
		arbiter_host_member_leave(host, i);
		return 0;
	}
	strncpy(member->name, name, sizeof(member->name) - 1);
	member->apart = tenant_is_open_to_all(dir);
	if (i == host->n)
		host->n++;
	return i;
}

/* One in a container cannot say that it has come, so it is one from the beginning. */
static bool arbiter_host_is_there(const char *dir)
{
	return tenant_is_open_to_all(dir) || slot_any_alive(dir);
}

/* Opening one takes long beside asking whether anybody is there. */
static int arbiter_host_look_at_member(const char *name, const char *dir, void *arg)
{
	struct arbiter_host *host = arg;
	int i = 0;

	if (!arbiter_host_is_there(dir))
		return 0;
	while (i < host->n && strcmp(host->member[i].name, name))
		i++;
	/* One that has ended, and was started again at once. */
	if (i < host->n && !policy_is_of(host->member[i].policy, dir)) {
		arbiter_host_member_leave(host, i);
		i = host->n;
	}
	if (i == host->n)
		i = arbiter_host_member_join(host, name, dir);
	if (i >= 0 && i < host->n && !strcmp(host->member[i].name, name))
		host->member[i].seen = true;
	return 0;
}

static void arbiter_host_look_for_members(struct arbiter_host *host)
{
	char dir[PATH_MAX];

	for (int i = 0; i < host->n; i++) {
		struct member *member = &host->member[i];

		member->seen = member->name[0] &&
			       !tenant_path(host->runtime, member->name, dir, sizeof(dir)) &&
			       arbiter_host_is_there(dir);
	}
}

static void arbiter_host_look_for_all(struct arbiter_host *host, uint64_t now_ns)
{
	host->comers = word_read(&host->file->comers);
	host->listed_ns = now_ns;
	for (int i = 0; i < host->n; i++)
		host->member[i].seen = false;
	tenant_list(host->runtime, arbiter_host_look_at_member, host);
}

static void arbiter_host_scan(struct arbiter_host *host, uint64_t now_ns)
{
	if (host->comers != word_read(&host->file->comers) || now_ns >= host->listed_ns + LIST_NS)
		arbiter_host_look_for_all(host, now_ns);
	else if (now_ns >= host->scanned_ns + SCAN_NS)
		arbiter_host_look_for_members(host);
	else
		return;
	host->scanned_ns = now_ns;
	for (int i = 0; i < host->n; i++) {
		if (!host->member[i].name[0])
			continue;
		if (host->member[i].seen)
			arbiter_host_describe_member(host, i);
		else
			arbiter_host_member_leave(host, i);
	}
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
	if (policy_generation(member->policy) != member->generation ||
	    (member->turn && !ledger_device_info(member->ledger, member->ndevices, &info)))
		arbiter_host_describe_member(host, i);
	state->id = member->turn ? member->id : 0;
	state->done_ns = state->guess_ns = state->devices = state->burst_ns = 0;
	state->rests = true;
	for (int d = 0; d < member->ndevices; d++) {
		const struct device_time *time = member->time[d];
		uint64_t work = arbiter_host_instant(&time->work_until_ns, now_ns);
		uint64_t want = arbiter_host_instant(&time->demand_until_ns, now_ns);
		uint64_t guess, done = arbiter_host_done_ns(time, now_ns, &guess),
				burst = word_read(&time->burst_ns);

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

	for (int k = 0; k < host->n; k++) {
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

static void arbiter_host_trace(struct member *member, const struct arbiter_tenant *state, bool opened,
			       bool awaited, uint64_t now_ns)
{
	const struct turn *turn = member->turn;
	bool was = word_read(&turn->open_until_ns) > now_ns;
	uint64_t work = sat_sub_u64(state->done_ns, now_ns);

	if (opened) {
		member->begun_ns = now_ns;
		trace_put(member->trace, TRACE_TURN_BEGUN, -1, sat_sub_u64(state->open_until_ns, now_ns),
			  state->entitled_permille, sat_sub_u64(state->open_from_ns, now_ns));
	} else if (was && !state->open) {
		trace_put(member->trace, TRACE_TURN_ENDED, -1,
			  member->begun_ns ? now_ns - member->begun_ns : 0, work, state->guess_ns);
	}
	if (awaited && !(word_read(&turn->flags) & TURN_AWAITED))
		trace_put(member->trace, TRACE_TURN_LATE, -1, work, state->guess_ns, 0);
}

static void arbiter_host_tell(struct arbiter_host *host, int i, uint64_t now_ns)
{
	struct turn *turn = host->member[i].turn;
	const struct arbiter_tenant *state = &host->state[i];
	uint64_t until = state->open ? state->open_until_ns : 0;
	bool opened = until > now_ns && word_read(&turn->open_until_ns) <= now_ns;

	if (opened && !state->first && arbiter_host_is_taken(host, i, now_ns)) {
		host->withheld = true;
		trace_to(host->member[i].trace, TRACE_TURN_WITHHELD, -1, 0, 0, 0);
		opened = false;
		until = 0;
	}
	if (host->member[i].trace)
		arbiter_host_trace(&host->member[i], state, opened, state->leaving && !state->urged, now_ns);
	word_write(&turn->flags, (state->contended ? (uint32_t)TURN_CONTENDED : 0) |
					 (state->urged ? (uint32_t)TURN_URGED : 0) |
					 (state->first ? (uint32_t)TURN_FIRST : 0) |
					 (state->leaving && !state->urged ? (uint32_t)TURN_AWAITED
									  : 0));
	word_write(&turn->urgent_us,
		   state->urgent_ns / 1000 < UINT32_MAX ? (uint32_t)(state->urgent_ns / 1000) : 0);
	word_write(&turn->entitled_permille, state->entitled_permille);
	word_write(&turn->virtual_ns, state->virtual_ns);
	word_release(&turn->open_from_ns, state->open_from_ns);
	word_release(&turn->open_until_ns, until);
	word_release(&turn->beat_ns, now_ns);
	if (!opened)
		return;
	word_publish_add(&turn->seq, 1);
	futex_wake_all(&turn->seq);
}

uint64_t arbiter_host_step(struct arbiter_host *host, uint64_t now_ns)
{
	uint64_t next;

	host->now_ns = now_ns;
	arbiter_host_scan(host, now_ns);
	host->busy = false;
	for (int i = 0; i < host->n; i++)
		if (host->member[i].name[0])
			arbiter_host_look(host, i, now_ns);
	next = arbiter_step(&arbiter_defaults, host->state, host->n, now_ns);
	/* Close first: a tenant that launches all the same is seen before another is let in. */
	host->withheld = false;
	for (int open = 0; open < 2; open++) {
		for (int i = 0; i < host->n; i++)
			if (host->member[i].turn && host->state[i].open == open)
				arbiter_host_tell(host, i, now_ns);
		word_fence();
	}
	if (host->withheld && next > now_ns + WITHHELD_NS)
		next = now_ns + WITHHELD_NS;
	word_release(&host->file->due_ns, next);
	return next;
}

uint64_t arbiter_host_due_ns(const struct arbiter_host *host)
{
	return word_acquire(&host->file->due_ns);
}

static void arbiter_host_ring_file(struct arbiter_file *file)
{
	word_publish_add(&file->bell, 1);
	futex_wake_all(&file->bell);
}

void arbiter_host_ring(struct arbiter_host *host)
{
	arbiter_host_ring_file(host->file);
}

void arbiter_host_announce(const char *runtime)
{
	CLEANUP_CLOSE int fd = shared_file_open(runtime, ARBITER_FILE, O_RDWR, ARBITER_BYTES);
	struct arbiter_file *file = fd < 0 ? NULL : arbiter_host_map_file(fd);

	if (!file)
		return;
	word_publish_add(&file->comers, 1);
	arbiter_host_ring_file(file);
	munmap(file, ARBITER_BYTES);
}

void arbiter_host_listen(struct arbiter_host *host)
{
	uint64_t now_ns = now_monotonic_ns();

	host->heard = word_check(&host->file->bell);
	for (int i = 0; i < host->n; i++) {
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
	struct futex_seen bell[FUTEX_ANY_MOST] = {{&host->file->bell, host->heard}};
	uint64_t now_ns = now_monotonic_ns();
	int n = 1;

	for (int i = 0; i < host->n && n < FUTEX_ANY_MOST; i++) {
		const struct member *member = &host->member[i];

		if (!member->apart || !member->ledger)
			continue;
		if (now_ns < member->rung_ns + TUNING_RING_NS)
			until_ns = min_u64(until_ns, member->rung_ns + TUNING_RING_NS);
		else
			bell[n++] = (struct futex_seen){ledger_bell(member->ledger), member->heard};
	}
	if (n == 1)
		futex_wait_until(bell[0].word, bell[0].seen, until_ns);
	else if (futex_wait_any_until(bell, n, until_ns)) /* an old kernel: they are looked at */
		futex_wait_until(bell[0].word, bell[0].seen, min_u64(until_ns, now_ns + NS_PER_MS));
}
