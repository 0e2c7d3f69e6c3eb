/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs with queues on emulated AMD devices in tenants, and what the emulator's own roster says
 * of these queues.
 */
#ifndef ALLOT_TESTS_SIM_QUEUES_H
#define ALLOT_TESTS_SIM_QUEUES_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include "amd/abi/kfd.h"
#include "amd/identity.h"
#include "amd/topology_read.h"
#include "base/fd.h"
#include "base/now.h"
#include "sim/kfd/roster.h"
#include "tests/sim/queue_puppet.h"
#include "tests/unit/tenant_fixture.h"

#define MS NS_PER_MS
#define WAIT_NS (10000 * MS) /* for what is promised within 100 ms, on a busy machine */

#define AQL  KFD_IOC_QUEUE_TYPE_COMPUTE_AQL
#define PM4  KFD_IOC_QUEUE_TYPE_COMPUTE
#define SDMA KFD_IOC_QUEUE_TYPE_SDMA

static char *queues_allot, *queues_puppet;
static struct roster *queues_roster;

struct puppet {
	pid_t pid; /* of who has the queues */
	pid_t child;
	int to, from;
};

static inline struct queue_told puppet_try(struct puppet *p, struct queue_ask ask)
{
	struct queue_told told;

	CHECK_EQ(write(p->to, &ask, sizeof(ask)), sizeof(ask));
	CHECK_EQ(read(p->from, &told, sizeof(told)), sizeof(told));
	p->pid = told.pid;
	return told;
}

/*
 * In a tenant of that name, by `allot run` with these options; without a name in none. It is there.
 */
static inline struct puppet puppet_start(const char *name, const char *const options[])
{
	const char *argv[24] = {queues_allot, "run", "--name", name};
	struct puppet p = {0};
	int in[2], out[2], n = 4;

	while (options && *options)
		argv[n++] = *options++;
	argv[n++] = "--";
	argv[n++] = queues_puppet;
	CHECK(!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC));
	p.pid = p.child = fork();
	CHECK(p.pid >= 0);
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execv(name ? queues_allot : queues_puppet, (char **)(name ? argv : &argv[n - 1]));
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	p.to = in[1];
	p.from = out[0];
	CHECK_EQ(puppet_try(&p, (struct queue_ask){.op = QUEUE_NOTHING}).result, 0);
	return p;
}

/* As above, and it must succeed; the id of the queue, if there is a new one. */
static inline uint32_t puppet(struct puppet *p, struct queue_ask ask)
{
	struct queue_told told = puppet_try(p, ask);

	CHECK_EQ(told.result, 0);
	return told.id;
}

static inline uint32_t puppet_make(struct puppet *p, uint32_t gpu, uint32_t type)
{
	return puppet(p, (struct queue_ask){
				 .op = QUEUE_MAKE, .gpu = gpu, .type = type, .percent = 100});
}

static inline void puppet_end(struct puppet *p)
{
	int status;

	close(p->to);
	CHECK_EQ(waitpid(p->child, &status, 0), p->child);
	CHECK_EQ(status, 0);
	close(p->from);
}

static inline void puppet_kill(struct puppet *p)
{
	int status;

	kill(p->pid, SIGKILL);
	CHECK_EQ(waitpid(p->child, &status, 0), p->child);
	close(p->to);
	close(p->from);
}

/* What the hardware has; false: no such queue. */
static inline bool roster_find(const struct puppet *p, uint32_t id, struct roster_queue *ret,
			       struct roster_times *ret_times)
{
	static struct roster_times times[64];
	static struct roster_queue is[64];
	uint32_t n = roster_read(queues_roster, 64, is, times);

	for (uint32_t i = 0; i < n && i < 64; i++)
		if (is[i].pid == p->pid && is[i].id == id) {
			*ret = is[i];
			if (ret_times)
				*ret_times = times[i];
			return true;
		}
	return false;
}

static inline struct roster_queue roster_get(const struct puppet *p, uint32_t id)
{
	struct roster_queue is;

	CHECK(roster_find(p, id, &is, NULL));
	return is;
}

static inline int bits_of(const struct roster_queue *is)
{
	int n = 0;

	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		n += __builtin_popcount(is->mask[i]);
	return n;
}

static inline int bits(const struct puppet *p, uint32_t id)
{
	struct roster_queue is = roster_get(p, id);

	return bits_of(&is);
}

/* Until a queue's mask has so many bits; answers how long that took, in ms. */
static inline uint64_t wait_bits(const struct puppet *p, uint32_t id, int n)
{
	uint64_t since = now_monotonic_ns();

	while (bits(p, id) != n && now_monotonic_ns() < since + WAIT_NS)
		usleep(500);
	CHECK_EQ(bits(p, id), n);
	return (now_monotonic_ns() - since) / MS;
}

static inline bool disjoint(const struct puppet *p, uint32_t id, const struct puppet *q,
			    uint32_t other)
{
	struct roster_queue a = roster_get(p, id), b = roster_get(q, other);

	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		if (a.mask[i] & b.mask[i])
			return false;
	return true;
}

/* Entries of a directory of the process, in /proc. */
static inline int count_in(const struct puppet *p, const char *what, const char *comm)
{
	char path[300], text[32];
	struct dirent *entry;
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", p->pid, what);
	dir = opendir(path);
	CHECK(dir);
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/%s/%.20s/comm", p->pid, what, entry->d_name);
		n += entry->d_name[0] != '.' &&
		     (!comm || (fd_read_text(AT_FDCWD, path, text, sizeof(text)) > 0 &&
				!strncmp(text, comm, strlen(comm))));
	}
	closedir(dir);
	return n;
}

static inline bool has_keeper(const struct puppet *p)
{
	return count_in(p, "task", "allot-keeper");
}

static inline int count_fds(const struct puppet *p)
{
	return count_in(p, "fd", NULL);
}

/* As `allot set` does it, which takes a process more. */
static inline int set_share(struct policy *policy, void *arg)
{
	uint32_t permille = *(const uint32_t *)arg;

	policy->compute = permille ? POLICY_COMPUTE_CAP : POLICY_COMPUTE_OFF;
	for (uint32_t i = 0; i < policy->ndevices; i++)
		policy->device[i].share_permille = permille;
	return 0;
}

static inline void tenant_edit(const char *name, int (*edit)(struct policy *policy, void *arg),
			       void *arg)
{
	char dir[PATH_MAX];

	CHECK_EQ(tenant_path(fixture_runtime_dir(), name, dir, sizeof(dir)), 0);
	CHECK_EQ(policy_update(dir, edit, arg), 0);
}

static inline void tenant_set(const char *name, uint32_t permille)
{
	tenant_edit(name, set_share, &permille);
}

static inline void queues_begin(char **argv)
{
	char root[PATH_MAX];

	queues_allot = argv[1];
	queues_puppet = argv[2];
	setenv("ALLOT_RUNTIME_DIR", fixture_runtime_dir(), 1);
	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	CHECK_EQ(roster_open(root, false, &queues_roster), 0);
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
