/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pidns.h"
#include "ledger/ledger.h"
#include "ledger/life.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"
#include "node/ended.h"
#include "node/members.h"
#include "node/process/allowance.h"
#include "node/process/mapped.h"
#include "node/process/process.h"

/*
 * The note is a symbolic link that leads nowhere, because a link is made whole or not at all. Its
 * text is "<inode of the PID namespace>:<pid>:<enum tenant_kind>:<when that process began>".
 */
#define NOTE TENANT_NOTE

/* Likewise; its text is a path. */
#define LIBRARY_NOTE "library"

/*
 * A process of another PID namespace is not in our /proc, unless ours is the first. So a tenant
 * that one began, and that nobody holds, is kept for a day.
 */
#define FOREIGN_GRACE_S (24 * 3600)

/* Making a tenant takes milliseconds. Files of a killed maker are removed after this time. */
#define MAKING_S 10
/* Its note is there a moment after its name. */
#define NOTING_S      1
#define NOTING_NAP_US 10000

const char *tenants_error_words(int err)
{
	switch (err) {
	case -EPROTO:
		return "written by another version of allot, or damaged";
	case -EPERM:
		return "belongs to another user, or is open to others";
	case -ELOOP:
		return "is a symbolic link";
	case -EBADMSG:
	case -ENODATA:
		return "damaged";
	case -ENOENT:
		return "policy or ledger is missing";
	case -ENOLCK:
		return "its file system loses locks, as an overlay does";
	case -E2BIG:
		return "its user's tenants have more processes on more devices than are read of one";
	}
	return strerror(-err);
}

static const char *const states[] = {
	[TENANT_RUNNING] = "running",
	[TENANT_IDLE] = "idle",
	[TENANT_KEPT] = "kept",
	[TENANT_ENDED] = "ended",
};

static unsigned int tenants_count(const struct snapshot *snapshot, unsigned int swap_states)
{
	unsigned int n = 0;

	for (int i = 0; i < snapshot->nprocesses; i++)
		n += snapshot->process[i].live && (swap_states >> snapshot->process[i].swap & 1);
	return n;
}

#define STATE(name) (1u << SWAP_##name)

const char *tenants_state_word(const struct tenant_entry *entry)
{
	const struct snapshot *s = entry->snapshot;

	if (!s || !(s->policy.flags & POLICY_SWAPPABLE) ||
	    (entry->state != TENANT_RUNNING && entry->state != TENANT_IDLE))
		return states[entry->state];
	if (tenants_count(s, STATE(SUSPENDING) | STATE(READY)))
		return "suspending";
	if (tenants_count(s, STATE(RESUMING) | STATE(RETURNED)))
		return "resuming";
	if (swap_phase_is_out(s->swap) || tenants_count(s, STATE(SUSPENDED)))
		return "suspended";
	return states[entry->state];
}

/* When a process began, in the kernel's ticks; 0: there is none, or it has ended. */
static uint64_t tenants_process_start(pid_t pid)
{
	struct process_mark mark;

	return process_read_mark(pid, &mark) < 0 ? 0 : mark.start;
}

int tenants_mark(const char *dir, enum tenant_kind kind, pid_t pid)
{
	char path[PATH_MAX + sizeof("/" NOTE)], text[96];
	uint64_t start = tenants_process_start(pid);

	/* Without a start time a later process with the same pid would be taken for it. */
	if (kind == TENANT_CONTAINER && !start)
		return -ESRCH;
	snprintf(path, sizeof(path), "%s/" NOTE, dir);
	snprintf(text, sizeof(text), "%" PRIu64 ":%ld:%d:%" PRIu64, pidns_self(), (long)pid,
		 (int)kind, start);
	return symlink(text, path) < 0 ? -errno : 0;
}

int tenants_note_library(const char *dir, const char *path)
{
	char note[PATH_MAX + sizeof("/" LIBRARY_NOTE)];

	snprintf(note, sizeof(note), "%s/" LIBRARY_NOTE, dir);
	return symlink(path, note) < 0 ? -errno : 0;
}

int tenants_read_library(const char *dir, char ret[static PATH_MAX])
{
	char note[PATH_MAX + sizeof("/" LIBRARY_NOTE)], path[PATH_MAX];
	ssize_t n;

	snprintf(note, sizeof(note), "%s/" LIBRARY_NOTE, dir);
	n = fd_read_link(AT_FDCWD, note, path, sizeof(path));
	if (n < 0)
		return (int)n;
	if (*path != '/' || strpbrk(path, " :"))
		return -EINVAL;
	strcpy(ret, path);
	return 0;
}

bool tenants_is_anothers(const struct tenant_entry *entry)
{
	uid_t owner;

	return entry->error && geteuid() && tenant_name_owner(entry->name, &owner) &&
	       owner != geteuid();
}

struct note {
	uint64_t pidns;
	long pid;
	uint64_t start; /* of that process; 0: not noted */
	enum tenant_kind kind;
	time_t began_s;
};

static int tenants_read_note(const char *dir, struct note *ret)
{
	char path[PATH_MAX + sizeof("/" NOTE)], text[96];
	struct note note = {.kind = TENANT_NAMED};
	struct stat st;
	int kind;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/" NOTE, dir);
	n = fd_read_link(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return (int)n;
	if (lstat(path, &st) < 0)
		return err_errno();
	if (sscanf(text, "%" SCNu64 ":%ld:%d:%" SCNu64, &note.pidns, &note.pid, &kind,
		   &note.start) < 3 ||
	    note.pid <= 0 || kind < 0 || kind > TENANT_CONTAINER)
		return -EINVAL;
	note.kind = (enum tenant_kind)kind;
	note.began_s = st.st_mtime;
	*ret = note;
	return 0;
}

static uint64_t tenants_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* By the policy, also where the ledger cannot be read: then it is loaded now. */
static uint64_t tenants_promised(const struct tenant_entry *entry, const uint8_t uuid[static 16],
				 uint64_t total_bytes)
{
	const struct policy *policy = entry->snapshot ? &entry->snapshot->policy : NULL;
	struct policy loaded;
	uint64_t bytes = 0;

	if (!policy && !policy_load(entry->dir, &loaded))
		policy = &loaded;
	if (policy)
		policy_limit(policy, uuid, total_bytes, &bytes);
	return bytes;
}

bool tenants_measured(const struct snapshot_device *device)
{
	return device->compute.measured && !amd_identity_is(device->uuid);
}

struct tenants_sum tenants_sum(const struct tenants *tenants, const uint8_t uuid[static 16],
			       uint64_t total_bytes)
{
	struct tenants_sum sum = {.measured = !amd_identity_is(uuid)};

	for (size_t i = 0; i < tenants->n; i++) {
		const struct snapshot_device *device =
			snapshot_device_of(tenants->list[i].snapshot, uuid);

		sum.promised_bytes = tenants_add(
			sum.promised_bytes, tenants_promised(&tenants->list[i], uuid, total_bytes));
		if (!device)
			continue;
		sum.used_bytes = tenants_add(sum.used_bytes, device->used_bytes);
		sum.measured &= !device->used_bytes || tenants_measured(device);
	}
	return sum;
}

/* A hostile tenant names a process in another's container as its own. */
static void tenants_find_container(struct tenant_entry *entry, pid_t pid)
{
	int r;

	container_of_process(pid, entry->container);
	r = *entry->container ? mapped_ledger(pid, &entry->ledger) : 0;
	if (r == -ENOENT || mapped_is_unknown(r))
		*entry->container = '\0';
}

void tenants_find_containers(struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->n; i++) {
		const struct snapshot *s = tenants->list[i].snapshot;
		int p = 0;

		if (tenants->list[i].apart)
			continue;
		while (s && p < s->nprocesses && !(s->process[p].live && s->process[p].host_pid))
			p++;
		if (s && p < s->nprocesses)
			tenants_find_container(&tenants->list[i],
					       (pid_t)s->process[p].host_pid);
	}
}

unsigned int tenants_live(const struct snapshot *snapshot)
{
	unsigned int n = 0;

	for (int i = 0; i < snapshot->nprocesses; i++)
		n += snapshot->process[i].live;
	return n;
}

/*
 * True if it may have processes that /proc does not show here as its own. The first namespace shows
 * all processes, but not the tenant of those in a container: their environment has a path of the
 * container's.
 */
static bool tenants_is_foreign(const struct note *note)
{
	uint64_t self = pidns_self();

	return note->pidns != self &&
	       (self != PIDNS_FIRST || note->kind == TENANT_CONTAINER) &&
	       time(NULL) - note->began_s <= FOREIGN_GRACE_S;
}

/*
 * A user's container names a process of that user, or it could name one that never ends. Where that
 * cannot be seen, as of another user's tenant, it is believed.
 */
static bool tenants_may_name(const char *dir, pid_t pid)
{
	const char *name = strrchr(dir, '/');
	uid_t owner;

	return !name || !tenant_name_owner(name + 1, &owner) || process_is_of_user(pid, owner) != 0;
}

/* A container lives as long as its first process: the kernel, or the runtime, ends all with it. */
static bool tenants_container_runs(const char *dir, const struct note *note)
{
	pid_t pid = (pid_t)note->pid;

	return note->kind == TENANT_CONTAINER && note->pidns == pidns_self() && note->start &&
	       note->start == tenants_process_start(pid) && tenants_may_name(dir, pid);
}

/* When it was made, as far as the note knows, else as long as its directory was left alone. */
static int64_t tenants_began_s(const char *dir, const struct note *note)
{
	struct stat st;

	if (note)
		return note->began_s;
	return stat(dir, &st) < 0 ? time(NULL) : st.st_mtime;
}

int64_t tenants_began(const char *dir)
{
	struct note note;
	bool noted = tenants_read_note(dir, &note) >= 0;

	if (!noted && access(dir, F_OK) < 0)
		return -1;
	return tenants_began_s(dir, noted ? &note : NULL);
}

/* No process has had a slot in the tenant so far. */
static bool tenants_is_fresh(const char *dir)
{
	struct ledger *ledger;
	bool fresh;

	if (ledger_open(dir, LEDGER_READ, &ledger) < 0)
		return false;
	fresh = !slot_count(ledger);
	ledger_close(ledger);
	return fresh;
}

/*
 * The process that the note names still lives. This process is none: it knows what it makes. A
 * container's is none either: it lives in the tenant, or keeps nothing of it.
 */
static bool tenants_maker_lives(const struct note *note)
{
	return note->kind != TENANT_CONTAINER && note->pidns == pidns_self() &&
	       note->pid != getpid() && note->start &&
	       note->start == tenants_process_start((pid_t)note->pid);
}

/* A tenant has its name first, then its note, and then a process that holds it. */
static bool tenants_is_being_made(const char *dir, const struct note *note)
{
	int64_t age_s = time(NULL) - tenants_began_s(dir, note);

	if (age_s < 0 || age_s > (note ? MAKING_S : NOTING_S))
		return false;
	return (!note || tenants_maker_lives(note)) && tenants_is_fresh(dir);
}

/* `note` is NULL for a tenant that `allot run` did not make: only its processes know of it. */
static enum tenant_state tenants_find_state(const char *dir, const struct note *note,
					    struct members *members, pid_t *ret_pid)
{
	pid_t pid = 0;

	*ret_pid = 0;
	if (slot_any_alive(dir))
		return TENANT_RUNNING;
	if (life_is_held(dir) || (note && (pid = members_find(members, dir)))) {
		*ret_pid = pid;
		return TENANT_IDLE;
	}
	if (note && tenants_container_runs(dir, note)) {
		*ret_pid = (pid_t)note->pid;
		return TENANT_IDLE;
	}
	if (note && note->kind == TENANT_PREPARED)
		return TENANT_KEPT;
	if (tenants_is_being_made(dir, note))
		return TENANT_IDLE;
	return note && tenants_is_foreign(note) ? TENANT_IDLE : TENANT_ENDED;
}

enum tenant_state tenants_state(const char *dir, pid_t *ret_pid)
{
	struct members members = {0};
	enum tenant_state state;
	struct note note;
	int r = tenants_read_note(dir, &note);

	state = tenants_find_state(dir, r < 0 ? NULL : &note, &members, ret_pid);
	members_free(&members);
	return state;
}

/* A tenant that cannot be read may be of another version, and in use. Then its ledger is mapped. */
static bool tenants_is_mapped(const char *dir)
{
	struct stat ledger;

	return !mapped_find_ledger(dir, &ledger) && mapped_by_any(&ledger);
}

/*
 * Limits of reading one user's tenants. A tenant with 1000 processes on 8 devices is within both.
 */
#define WEIGHT_OF_USER	98304
#define TIME_OF_USER_NS (100 * NS_PER_MS)
/* Time for removing one user's ended tenants; the next sweep removes the rest. */
#define SWEEP_OF_USER_NS (30 * NS_PER_MS)

struct snapshot_bound tenants_bound_of_user(void)
{
	return (struct snapshot_bound){.weight = WEIGHT_OF_USER,
				       .until_ns = now_thread_ns() + TIME_OF_USER_NS};
}

/*
 * Readings of one user's tenants. Each tenant of root's has a share of its own, since they include
 * containers that do not trust each other.
 */
struct reader_share {
	char name[POLICY_NAME_BYTES]; /* "@UID", or the tenant's */
	size_t weight;
	uint64_t took_ns;
	bool over; /* the bound is reached: no more is read */
};

struct reader_shares {
	size_t n;
	struct reader_share *list;
};

static const char *tenants_share_name(const char *tenant)
{
	const char *user = strchr(tenant, '@');

	return user ? user : tenant;
}

static struct reader_share *tenants_share(struct reader_shares *shares, const char *tenant)
{
	const char *name = tenants_share_name(tenant);
	struct reader_share *list;

	for (size_t i = 0; i < shares->n; i++)
		if (!strcmp(shares->list[i].name, name))
			return &shares->list[i];
	list = reallocarray(shares->list, shares->n + 1, sizeof(*list));
	if (!list)
		return NULL;
	shares->list = list;
	list[shares->n] = (struct reader_share){.weight = 0};
	snprintf(list[shares->n].name, sizeof(list->name), "%s", name);
	return &list[shares->n++];
}

static void tenants_put_off(struct reader_share *share)
{
	uid_t owner = 0;

	if (share->over)
		return;
	tenant_name_owner(share->name, &owner);
	allowance_put_off(ALLOWANCE_FIGURES, owner);
	share->over = true;
}

/*
 * The walk over all processes, which the first tenant causes for all of them, does not count as its
 * time.
 */
static uint64_t tenants_began_ns(uint64_t began_ns, bool had_members, const struct members *members)
{
	return had_members == members->read ? began_ns : now_thread_ns();
}

static int tenants_remove_one(const char *runtime, const char *name, const char *dir,
			      bool ended_only, struct members *members)
{
	struct snapshot *snapshot = NULL;
	enum tenant_state state;
	struct note note;
	bool noted = !tenants_read_note(dir, &note);
	int64_t began_s = tenants_began_s(dir, noted ? &note : NULL);
	pid_t pid;
	int r, readable;

	state = tenants_find_state(dir, noted ? &note : NULL, members, &pid);
	if (state == TENANT_RUNNING || state == TENANT_IDLE || (ended_only && state == TENANT_KEPT))
		return -EBUSY;
	readable = snapshot_read_within(dir, tenants_bound_of_user(), &snapshot);
	r = readable < 0 && readable != -E2BIG && ended_only && tenants_is_mapped(dir)
		    ? readable
		    : tenant_remove(runtime, name);
	if (r == 0 && readable == 0)
		ended_note(runtime, name, snapshot, began_s);
	snapshot_free(snapshot);
	return r;
}

/* Returns true if the note is still to be written, or its maker was killed just now. */
static bool tenants_awaits_note(const char *dir)
{
	struct note note;

	return tenants_read_note(dir, &note) == -ENOENT && !slot_any_alive(dir) &&
	       !life_is_held(dir) && tenants_is_being_made(dir, NULL);
}

void tenants_await_note(const char *dir)
{
	uint64_t until_ns = now_monotonic_ns() + (NOTING_S + 1) * NS_PER_S;
	unsigned int nap = NOTING_NAP_US;

	while (!access(dir, F_OK) && tenants_awaits_note(dir) && now_monotonic_ns() < until_ns)
		shared_file_nap(&nap, NOTING_NAP_US);
}

int tenants_remove(const char *runtime, const char *name, bool ended_only)
{
	struct members members = {0};
	char dir[PATH_MAX];
	int r = tenant_path(runtime, name, dir, sizeof(dir));

	if (r < 0)
		return r;
	if (access(dir, F_OK) < 0)
		return -ENOENT;
	r = tenants_remove_one(runtime, name, dir, ended_only, &members);
	members_free(&members);
	return r;
}

struct sweep {
	const char *runtime;
	uid_t owner; /* 0: any user */
	struct members members;
	struct reader_shares shares;
};

static int tenants_sweep_one(const char *name, const char *dir, void *arg)
{
	struct sweep *sweep = arg;
	struct reader_share *share;
	bool had_members = sweep->members.read;
	uint64_t began_ns = now_thread_ns();
	uid_t owner;

	if (sweep->owner && !(tenant_name_owner(name, &owner) && owner == sweep->owner))
		return 0;
	share = tenants_share(&sweep->shares, name);
	if (!share || share->over)
		return 0;
	tenants_remove_one(sweep->runtime, name, dir, true, &sweep->members);
	began_ns = tenants_began_ns(began_ns, had_members, &sweep->members);
	share->took_ns += now_thread_ns() - began_ns;
	if (share->took_ns > SWEEP_OF_USER_NS)
		tenants_put_off(share);
	return 0;
}

static void tenants_end_sweep(struct sweep *sweep)
{
	members_free(&sweep->members);
	free(sweep->shares.list);
}

void tenants_remove_ended(const char *runtime)
{
	struct sweep sweep = {.runtime = runtime};

	tenant_list(runtime, tenants_sweep_one, &sweep);
	tenants_end_sweep(&sweep);
}

void tenants_remove_ended_of(const char *runtime, uid_t uid)
{
	struct sweep sweep = {.runtime = runtime, .owner = uid};

	tenant_list_users(runtime, tenants_sweep_one, &sweep);
	tenants_end_sweep(&sweep);
}

/*
 * For all users together: the longest page has 30 MB. 1000 tenants of 10 processes on a device fit.
 */
#define WEIGHT_OF_ALL (3 * WEIGHT_OF_USER)
/* After this time of all users, each of the others has the second: an honest one needs no more. */
#define TIME_OF_ALL_NS (300 * NS_PER_MS)
#define TIME_BEHIND_NS (5 * NS_PER_MS)

struct load {
	struct tenants tenants;
	struct members members;
	struct reader_shares shares;
	size_t weight;
	uint64_t took_ns;
};

/* Frees the readings of a user's tenants. */
static void tenants_drop(struct load *load, struct reader_share *share)
{
	for (size_t i = 0; i < load->tenants.n; i++) {
		struct tenant_entry *e = &load->tenants.list[i];

		if (!e->snapshot || strcmp(tenants_share_name(e->name), share->name) != 0)
			continue;
		snapshot_free(e->snapshot);
		e->snapshot = NULL;
		e->error = -E2BIG;
	}
	load->weight -= share->weight;
	share->weight = 0;
	tenants_put_off(share);
}

/* While all together are over the limit, frees the readings of the user with the most. */
static void tenants_fit(struct load *load)
{
	while (load->weight > WEIGHT_OF_ALL) {
		struct reader_share *most = &load->shares.list[0];

		for (size_t i = 1; i < load->shares.n; i++)
			if (load->shares.list[i].weight > most->weight)
				most = &load->shares.list[i];
		tenants_drop(load, most);
	}
}

static struct snapshot_bound tenants_left(const struct load *load, const struct reader_share *share,
					  uint64_t began_ns)
{
	struct snapshot_bound bound = tenants_bound_of_user();
	uint64_t most_ns = load->took_ns < TIME_OF_ALL_NS ? TIME_OF_USER_NS : TIME_BEHIND_NS;

	bound.weight -= share->weight;
	bound.until_ns = began_ns + sat_sub_u64(most_ns, share->took_ns);
	return bound;
}

/*
 * A tenant of a user over the bound is not asked whether it lives, which takes time, and counts as
 * living.
 */
static int tenants_read_one(struct load *load, struct reader_share *share, const struct note *note,
			    struct tenant_entry *e)
{
	uint64_t began_ns = now_thread_ns();
	bool had_members = load->members.read;
	pid_t pid;
	int r;

	e->state = TENANT_IDLE;
	if (share->over)
		return -E2BIG;
	e->state = tenants_find_state(e->dir, note, &load->members, &pid);
	began_ns = tenants_began_ns(began_ns, had_members, &load->members);
	r = snapshot_read_within(e->dir, tenants_left(load, share, began_ns), &e->snapshot);
	if (r == -E2BIG)
		tenants_put_off(share);
	if (r == 0 && e->state != TENANT_ENDED) {
		share->weight += snapshot_weight(e->snapshot);
		load->weight += snapshot_weight(e->snapshot);
	}
	share->took_ns += now_thread_ns() - began_ns;
	load->took_ns += now_thread_ns() - began_ns;
	return r;
}

static int tenants_load_one(const char *name, const char *dir, void *arg)
{
	struct load *load = arg;
	struct reader_share *share = tenants_share(&load->shares, name);
	struct tenants *t = &load->tenants;
	struct tenant_entry *list, *e;
	struct note note;
	bool noted;

	list = share ? reallocarray(t->list, t->n + 1, sizeof(*list)) : NULL;
	if (!list)
		return -ENOMEM;
	t->list = list;
	e = &list[t->n];
	memset(e, 0, sizeof(*e));
	snprintf(e->name, sizeof(e->name), "%s", name);
	snprintf(e->dir, sizeof(e->dir), "%s", dir);
	if (mapped_find_ledger(dir, &e->ledger) < 0)
		e->ledger = (struct stat){0};
	if (pod_read(dir, &e->pod) < 0)
		e->pod = (struct pod){""};
	noted = !tenants_read_note(dir, &note);
	e->generated = noted && note.kind == TENANT_GENERATED;
	e->error = tenants_read_one(load, share, noted ? &note : NULL, e);
	if (e->error == -ENOENT && access(dir, F_OK) < 0)
		return 0; /* removed meanwhile */
	if (!e->error && e->state == TENANT_ENDED) {
		snapshot_free(e->snapshot);
		return 0;
	}
	t->n++;
	tenants_fit(load);
	return 0;
}

int tenants_find_host_pids(const struct tenants *t, size_t from)
{
	struct snapshot **list = calloc(t->n - from + 1, sizeof(*list));
	int r;

	if (!list)
		return -ENOMEM;
	for (size_t i = from; i < t->n; i++)
		list[i - from] = t->list[i].snapshot;
	r = snapshot_find_host_pids(list, t->n - from);
	free(list);
	return r;
}

/* Adds to the present tenants, whose figures are complete. */
static int tenants_load_by(int (*lister)(const char *runtime,
					 int (*fn)(const char *name, const char *dir, void *arg),
					 void *arg),
			   const char *runtime, struct tenants *tenants)
{
	struct load load = {.tenants = *tenants};
	int r = lister(runtime, tenants_load_one, &load);
	int found = tenants_find_host_pids(&load.tenants, tenants->n);

	members_free(&load.members);
	free(load.shares.list);
	*tenants = load.tenants;
	return r < 0 && r != -ENOENT ? r : found;
}

int tenants_load(const char *runtime, struct tenants *ret)
{
	struct tenants tenants = {.n = 0};
	int r = tenants_load_by(tenant_list, runtime, &tenants);

	snprintf(tenants.runtime, sizeof(tenants.runtime), "%s", runtime);
	if (r < 0)
		tenants_free(&tenants);
	else
		*ret = tenants;
	return r;
}

int tenants_load_named(const char *runtime, const char *name, struct tenants *ret)
{
	struct load load = {.weight = 0};
	char dir[PATH_MAX];
	int r = tenant_name_valid(name) ? tenant_path(runtime, name, dir, sizeof(dir)) : -ENOENT;

	if (!r && access(dir, F_OK) < 0)
		r = -ENOENT;
	if (!r)
		r = tenants_load_one(name, dir, &load);
	members_free(&load.members);
	free(load.shares.list);
	if (!r && !load.tenants.n)
		r = -ENOENT; /* it has ended */
	if (r < 0)
		tenants_free(&load.tenants);
	else
		*ret = load.tenants;
	return r;
}

int tenants_add_users(struct tenants *tenants, const char *runtime)
{
	return tenants_load_by(tenant_list_users, runtime, tenants);
}

void tenants_free(struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->n; i++)
		snapshot_free(tenants->list[i].snapshot);
	free(tenants->list);
	tenants->list = NULL;
	tenants->n = 0;
}
