/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side that looks from outside: simulated devices of its own, tenants, programs that run in
 * them with liballot preloaded, and a conversation with each. A program says what it did; before
 * it goes on, the simulator's own count is held against the quota and against the ledger.
 */
#ifndef ALLOT_TESTS_FAMILIES_HOST_H
#define ALLOT_TESTS_FAMILIES_HOST_H

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "families_note.h"
#include "ledger/reader/snapshot.h"
#include "ledger/tenant.h"
#include "sim/truth.h"
#include "tests/check.h"

#define MAX_DEVICES 4

static char host_dir[64] = "/dev/shm/allot-test-XXXXXX";
static pid_t host_pid;
static const char *host_library; /* liballot.so */
static struct sim_truth *truth;

struct tenant {
	char dir[256];
	const char *name;
	uint64_t quota[MAX_DEVICES];
	bool by_driver; /* keeps no totals of its own */
};

/* A program in a tenant. */
struct program {
	struct tenant *tenant;
	const char *label; /* in front of complaints */
	pid_t pid;
	int socket;
	uint64_t empty[MAX_DEVICES]; /* what was used when it had a context and nothing else */
};

static inline int host_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline void host_end(void)
{
	if (getpid() == host_pid)
		nftw(host_dir, host_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void host_begin(const char *library, const char *gpus, const char *memory,
			      const char *context)
{
	char runtime[96];

	CHECK(mkdtemp(host_dir));
	host_pid = getpid();
	host_library = library;
	atexit(host_end);
	setenv("ALLOT_SIM_DIR", host_dir, 1);
	setenv("ALLOT_SIM_GPUS", gpus, 1);
	setenv("ALLOT_SIM_MEMORY", memory, 1);
	setenv("ALLOT_SIM_CONTEXT", context, 1);
	snprintf(runtime, sizeof(runtime), "%s/run", host_dir);
	setenv("ALLOT_RUNTIME_DIR", runtime, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_MODULE_LOADING");
	unsetenv("LD_PRELOAD");
	CHECK_EQ(sim_truth_create(host_dir, &truth), 0);
}

/* In a forked child, with devices of its own: what others leave behind is not its affair. */
static inline void host_again(void)
{
	const char *library = host_library, *gpus = getenv("ALLOT_SIM_GPUS");

	strcpy(host_dir, "/dev/shm/allot-test-XXXXXX");
	host_begin(library, gpus, getenv("ALLOT_SIM_MEMORY"), getenv("ALLOT_SIM_CONTEXT"));
}

/*
 * A quota for each device; the same for all when there is one. Zero: not granted. With FAMILIES_SWAPPABLE
 * set what it holds is backed by us.
 */
static inline void tenant_new(struct tenant *t, const char *name, const uint64_t *quota, int n,
			      uint32_t flags)
{
	struct policy policy = {.flags = flags};

	memset(t, 0, sizeof(*t));
	t->name = name;
	if (getenv("FAMILIES_SWAPPABLE"))
		policy.flags |= POLICY_SWAPPABLE;
	t->by_driver = flags & POLICY_ACCOUNTING_DRIVER;
	snprintf(policy.name, sizeof(policy.name), "%s", name);
	for (int i = 0; i < sim_truth_devices(truth); i++) {
		struct policy_device *d = &policy.device[policy.ndevices];

		t->quota[i] = quota[n == 1 ? 0 : i];
		if (!t->quota[i])
			continue;
		sim_truth_uuid(truth, i, d->uuid);
		d->total_bytes = sim_truth_total(truth, i);
		d->limit_bytes = t->quota[i];
		policy.ndevices++;
	}
	CHECK_EQ(tenant_create(getenv("ALLOT_RUNTIME_DIR"), name, &policy, t->dir,
			       sizeof(t->dir)), 0);
}

static inline void tenant_end(struct tenant *t)
{
	CHECK_EQ(tenant_remove(getenv("ALLOT_RUNTIME_DIR"), t->name), 0);
}

static inline int host_set_quota(struct policy *policy, void *arg)
{
	const struct tenant *t = arg;

	for (uint32_t k = 0; k < policy->ndevices; k++)
		for (int i = 0; i < sim_truth_devices(truth); i++) {
			uint8_t uuid[16];

			sim_truth_uuid(truth, i, uuid);
			if (!memcmp(uuid, policy->device[k].uuid, 16))
				policy->device[k].limit_bytes = t->quota[i];
		}
	return 0;
}

/* As `allot set` does, to a running tenant. */
static inline void tenant_set(struct tenant *t, uint64_t quota)
{
	for (int i = 0; i < MAX_DEVICES; i++)
		t->quota[i] = t->quota[i] ? quota : 0;
	CHECK_EQ(policy_update(t->dir, host_set_quota, t), 0);
}

/* The tenant's use of a device as people see it; `row` gets it by category. */
static inline uint64_t tenant_used(const struct tenant *t, int device, struct snapshot_device *row)
{
	struct snapshot *snapshot;
	uint8_t uuid[16];
	uint64_t used = 0;

	memset(row, 0, sizeof(*row));
	sim_truth_uuid(truth, device, uuid);
	CHECK_EQ(snapshot_read(t->dir, &snapshot), 0);
	for (int i = 0; i < snapshot->ndevices; i++)
		if (!memcmp(snapshot->device[i].uuid, uuid, 16)) {
			*row = snapshot->device[i];
			used = row->used_bytes;
		}
	snapshot_free(snapshot);
	return used;
}

/* The program's descriptor NOTE_FD is its end of the conversation. */
static inline void program_start(struct program *p, struct tenant *t, const char *label,
				 char *const argv[])
{
	int pair[2];

	*p = (struct program){.tenant = t, .label = label};
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	fflush(NULL);
	p->pid = fork();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		setenv("LD_PRELOAD", host_library, 1);
		if (t)
			setenv("ALLOT_TENANT_DIR", t->dir, 1);
		if (pair[1] == NOTE_FD) /* dup2 of itself would leave it to be closed */
			pair[1] = dup(pair[1]);
		if (dup2(pair[1], NOTE_FD) == NOTE_FD)
			execv(argv[0], argv);
		_exit(127);
	}
	close(pair[1]);
	p->socket = pair[0];
}

static inline void complain(const struct program *p, const struct note *n, const char *what)
{
	struct snapshot_device row;

	fprintf(stderr, "%s: at \"%s\" (%c): %s\n", p->label, n->text, n->what, what);
	for (int i = 0; i < sim_truth_devices(truth); i++) {
		uint64_t ledger = tenant_used(p->tenant, i, &row);

		fprintf(stderr,
			"  device %d: quota %" PRIu64 " peak %" PRIu64 " used %" PRIu64
			" ledger %" PRIu64 " driver %" PRIu64 " refusals %" PRIu64 " (",
			i, p->tenant->quota[i], sim_truth_peak(truth, i), sim_truth_used(truth, i),
			ledger, row.driver_bytes, row.refusals);
		for (int c = 0; c < CAT_N; c++)
			if (row.used[c])
				fprintf(stderr, " %s %" PRIu64, category_name((enum category)c),
					row.used[c]);
		fprintf(stderr, " pending %" PRIu64 " )\n", row.pending);
	}
}

/* Holds a note against the count. NULL, or what is wrong. */
static inline const char *judge(struct program *p, const struct note *n)
{
	const struct tenant *t = p->tenant;
	uint64_t used, peak, ledger, quota = t->quota[n->device];
	struct snapshot_device row;

	used = sim_truth_used(truth, n->device);
	peak = sim_truth_peak(truth, n->device);
	ledger = tenant_used(t, n->device, &row);
	if (peak > quota + n->slack)
		return "was above the quota";
	if ((used > quota) != (n->what == NOTE_OVER))
		return used > quota ? "is above the quota" : "is not above the quota";
	if (row.pending)
		return "left bytes pending";
	if (!t->by_driver && ledger != used && n->what != NOTE_QUOTA)
		return "the ledger differs from the simulator's count";
	switch (n->what) {
	case NOTE_EMPTY:
		p->empty[n->device] = used;
		return NULL;
	case NOTE_FULL:
		if (!row.refusals && n->a <= quota)
			return "no refusal was counted";
		return used + n->a <= quota ? "was refused too early" : NULL;
	case NOTE_FREED:
		return used != p->empty[n->device] ? "not everything came back" : NULL;
	case NOTE_USED:
		return used != p->empty[n->device] + n->a ? "uses something else" : NULL;
	case NOTE_OVER:
	case NOTE_LEDGER:
	case NOTE_QUOTA:
		return NULL;
	default:
		return "unknown note";
	}
}

/* One note of the program and its answer. False when there are no more. */
static inline bool program_step(struct program *p)
{
	struct note n;
	ssize_t got = recv(p->socket, &n, sizeof(n), 0);
	const char *wrong;

	if (got == 0 || (got < 0 && errno == ECONNRESET))
		return false;
	CHECK_EQ(got, sizeof(n));
	if (n.what == NOTE_LIMIT) {
		tenant_set(p->tenant, n.a);
		sim_truth_reset_peak(truth, n.device);
		wrong = NULL;
	} else {
		wrong = judge(p, &n);
	}
	if (wrong)
		complain(p, &n, wrong);
	send(p->socket, wrong ? "n" : "y", 1, MSG_NOSIGNAL);
	return true;
}

/* Until the program ends. Its exit status, or 128 plus the signal. */
static inline int program_finish(struct program *p)
{
	int status;

	while (program_step(p))
		;
	close(p->socket);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Nobody runs any more: nothing may be held, by either count. */
static inline bool host_clean(const struct tenant *t, const char *label)
{
	struct snapshot_device row;

	for (int i = 0; i < sim_truth_devices(truth); i++) {
		uint64_t ledger = tenant_used(t, i, &row), used = sim_truth_used(truth, i);

		if (!ledger && !used)
			continue;
		fprintf(stderr, "%s: afterwards device %d: used %" PRIu64 " ledger %" PRIu64 "\n",
			label, i, used, ledger);
		return false;
	}
	return true;
}

#endif
