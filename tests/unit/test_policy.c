/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/fault.h"
#include "ledger/layout.h"
#include "ledger/turn.h"
#include "tests/unit/tenant_fixture.h"

static const uint8_t uuid_a[16] = "aaaaaaaaaaaaaaa", uuid_b[16] = "bbbbbbbbbbbbbbb";

static int set_limit(struct policy *policy, void *arg)
{
	/* All of the policy changes, so that a torn copy shows. */
	for (uint32_t i = 0; i < policy->ndevices; i++)
		policy->device[i].limit_bytes = *(uint64_t *)arg;
	return 0;
}

static int spoil(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes = 0;
	return 0;
}

static int refuse(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes = 1;
	return -ECANCELED;
}

static void check_nonsense(void)
{
	struct policy ok = fixture_policy(GIB), p;

	CHECK_EQ(policy_check(&ok), 0);
#define BAD(change)                               \
	do {                                      \
		p = ok;                           \
		change;                           \
		CHECK_EQ(policy_check(&p), -EINVAL); \
	} while (0)
	BAD(p.ndevices = 0);
	BAD(p.ndevices = POLICY_DEVICES + 1);
	BAD(p.ndevices = UINT32_MAX);
	BAD(p.flags = 1u << 31);
	BAD(p.device[0].limit_bytes = 0); /* never "unlimited" */
	BAD(p.device[0].limit_permille = 500); /* both */
	BAD((p.device[0].limit_bytes = 0, p.device[0].limit_permille = 1001));
	BAD(p.device[0].limit_bytes = UINT64_MAX);
	BAD(p.device[0].share_permille = 1001);
	BAD((p.ndevices = 2, p.flags = 0, p.device[1] = p.device[0],
	     memcpy(p.device[0].uuid, uuid_a, sizeof(uuid_a)),
	     memcpy(p.device[1].uuid, uuid_a, sizeof(uuid_a))));
	BAD(p.compute = POLICY_COMPUTES);
	BAD(p.mode = POLICY_MODES);
	BAD(p.controller = CONTROLLERS);
	BAD(p.priority = POLICY_PRIORITIES);
	BAD(p.weight = POLICY_WEIGHT_MAX + 1);
	BAD(memset(p.name, 'x', sizeof(p.name)));
	BAD(strcpy(p.swap_dir, "/var/tmp")); /* nothing of it leaves */
	ok.flags |= POLICY_SWAPPABLE;
	BAD(strcpy(p.swap_dir, "var/tmp"));
	BAD(memset(p.swap_dir, '/', sizeof(p.swap_dir)));
	strcpy(ok.swap_dir, "/var/tmp");
	CHECK_EQ(policy_check(&ok), 0);
	BAD(p.flags |= POLICY_LOOKS); /* which of the two? */
	ok.flags |= POLICY_LOOK_BYTES;
	CHECK_EQ(policy_check(&ok), 0);
	BAD((p.flags &= ~(uint32_t)POLICY_SWAPPABLE, *p.swap_dir = 0));
	ok.flags ^= POLICY_LOOKS;
	CHECK_EQ(policy_check(&ok), 0);
	BAD(p.ndevices = 2); /* the second says nothing */
#undef BAD
	p = ok;
	p.device[0].limit_bytes = 0;
	CHECK_EQ(policy_create(fixture_runtime_dir(), &p), -EINVAL);
}

static void check_limits(void)
{
	struct policy p = fixture_policy(8 * GIB);
	uint64_t bytes = 7;

	CHECK_EQ(policy_limit(&p, uuid_a, 80 * GIB, &bytes), 0);
	CHECK_EQ(bytes, 8 * GIB);
	CHECK_EQ(policy_limit(&p, uuid_a, 4 * GIB, &bytes), 0);
	CHECK_EQ(bytes, 4 * GIB); /* never more than there is */
	CHECK_EQ(policy_limit(&p, uuid_a, 0, &bytes), 0);
	CHECK_EQ(bytes, 8 * GIB);
	p.ndevices = 3;
	memcpy(p.device[1].uuid, uuid_a, 16);
	p.device[1].limit_permille = 250;
	memcpy(p.device[2].uuid, uuid_b, 16);
	p.device[2].limit_permille = 1000;
	p.device[2].total_bytes = 24 * GIB;
	CHECK_EQ(policy_limit(&p, uuid_a, 80 * GIB, &bytes), 0);
	CHECK_EQ(bytes, 20 * GIB);
	CHECK_EQ(policy_limit(&p, uuid_a, 0, &bytes), -ENODATA);
	CHECK_EQ(bytes, 20 * GIB);
	CHECK_EQ(policy_limit(&p, uuid_b, 0, &bytes), 0);
	CHECK_EQ(bytes, 24 * GIB);
	CHECK_EQ(policy_limit(&p, fixture_uuid, 0, &bytes), 0);
	CHECK_EQ(bytes, 8 * GIB);
	p.flags = 0;
	CHECK_EQ(policy_limit(&p, fixture_uuid, 80 * GIB, &bytes), -ENODEV);
	/* Without the flag the first entry is one like the others. */
	memcpy(p.device[0].uuid, fixture_uuid, 16);
	CHECK_EQ(policy_limit(&p, fixture_uuid, 80 * GIB, &bytes), 0);
}

static void check_part(void)
{
	struct policy p = fixture_policy(GIB);
	uint32_t permille = 7;

	p.compute = POLICY_COMPUTE_CAP;
	CHECK_EQ(policy_part(&p, &permille), -ENODATA);
	p.device[0].share_permille = 1000;
	CHECK_EQ(policy_part(&p, &permille), -ENODATA);
	p.weight = 3; /* says nothing of a part */
	CHECK_EQ(policy_part(&p, &permille), -ENODATA);
	p.device[0].share_permille = 125;
	p.device[1] = p.device[0];
	p.ndevices = 2;
	p.device[1].share_permille = 126;
	CHECK_EQ(policy_part(&p, &permille), -EINVAL);
	CHECK_EQ(permille, 7);
	p.device[1].share_permille = 125;
	CHECK_EQ(policy_part(&p, &permille), 0);
	CHECK_EQ(permille, 125);
	p.compute = POLICY_COMPUTE_OFF;
	CHECK_EQ(policy_part(&p, &permille), -ENODATA);
}

static void check_yields(void)
{
	struct policy p = fixture_policy(GIB);

	CHECK(policy_yields(&p));
	p.priority = POLICY_PRIORITY_LOW;
	CHECK(policy_yields(&p));
	p.priority = POLICY_PRIORITY_HIGH;
	CHECK(!policy_yields(&p));
}

static int set_permille(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes = 0;
	policy->device[0].limit_permille = *(const uint32_t *)arg;
	policy->device[0].before_bytes = 1000 * GIB; /* it is not for whoever edits to say */
	return 0;
}

static int name_a(struct policy *policy, void *arg)
{
	const uint64_t *limit = arg;

	policy->ndevices = 2;
	memcpy(policy->device[1].uuid, uuid_a, 16);
	policy->device[1].limit_bytes = *limit;
	return 0;
}

static uint64_t ever(const char *dir, const uint8_t uuid[16], uint64_t total)
{
	struct policy p;
	uint64_t bytes = 0;

	CHECK_EQ(policy_load(dir, &p), 0);
	CHECK_EQ(policy_limit_ever(&p, uuid, total, &bytes), 0);
	return bytes;
}

/* What was given once is known when the limit is lower, and only what the policy's writers gave. */
static void check_limit_ever(void)
{
	char dir[PATH_MAX];
	struct policy p = fixture_policy(2 * GIB);
	uint64_t limit = 3 * GIB;
	uint32_t permille = 500;

	p.device[0].before_bytes = 1000 * GIB;
	snprintf(dir, sizeof(dir), "%s/ever", fixture_runtime_dir());
	CHECK_EQ(mkdir(dir, 0700), 0);
	CHECK_EQ(policy_create(dir, &p), 0);
	CHECK_EQ(ever(dir, uuid_b, 80 * GIB), 2 * GIB);
	CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
	CHECK_EQ(ever(dir, uuid_b, 80 * GIB), 3 * GIB);
	limit = GIB;
	CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
	CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
	CHECK_EQ(ever(dir, uuid_b, 80 * GIB), 3 * GIB);
	CHECK_EQ(ever(dir, uuid_b, 0), 3 * GIB);
	CHECK_EQ(ever(dir, uuid_b, 2 * GIB), 2 * GIB);
	CHECK_EQ(policy_update(dir, name_a, &limit), 0);
	CHECK_EQ(ever(dir, uuid_a, 80 * GIB), 3 * GIB);
	CHECK_EQ(policy_update(dir, set_permille, &permille), 0);
	CHECK_EQ(ever(dir, uuid_b, 80 * GIB), 40 * GIB);
	CHECK_EQ(policy_update(dir, set_permille, &(uint32_t){10}), 0);
	CHECK_EQ(ever(dir, uuid_b, 80 * GIB), 40 * GIB);
	CHECK_EQ(policy_load(dir, &p), 0);
	CHECK_EQ(policy_limit_ever(&p, uuid_b, 0, &limit), -ENODATA);
	p.flags = 0;
	CHECK_EQ(policy_limit_ever(&p, fixture_uuid, 80 * GIB, &limit), -ENODEV);
}

static void check_update(void)
{
	const char *dir = fixture_tenant("update");
	uint64_t limit = 2 * GIB, generation;
	struct policy_map *map;
	struct policy p;

	CHECK_EQ(policy_create(dir, &(struct policy){ 0 }), -EINVAL);
	p = fixture_policy(GIB);
	CHECK_EQ(policy_create(dir, &p), -EEXIST);
	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(policy_read(map, &p), 0);
	CHECK_EQ(p.device[0].limit_bytes, GIB);
	CHECK(!strcmp(p.name, "test"));
	generation = policy_generation(map);
	for (int i = 0; i < 5; i++, limit += GIB) {
		CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
		CHECK(policy_generation(map) != generation);
		generation = policy_generation(map);
		CHECK_EQ(policy_read(map, &p), 0);
		CHECK_EQ(p.device[0].limit_bytes, limit);
		CHECK_EQ(policy_load(dir, &p), 0);
		CHECK_EQ(p.device[0].limit_bytes, limit);
	}
	CHECK_EQ(policy_update(dir, spoil, NULL), -EINVAL);
	CHECK_EQ(policy_update(dir, refuse, NULL), -ECANCELED);
	CHECK_EQ(policy_generation(map), generation);
	CHECK_EQ(policy_update("/nonexistent", set_limit, &limit), -ENOENT);
	policy_close(map);
	policy_close(NULL);
}

/* A writer killed anywhere leaves the old policy or the new one, and the next writer works. */
static void check_killed_writers(void)
{
	static const struct {
		const char *fault;
		bool done;
	} table[] = {
		{ "POLICY_HALF_WRITTEN", false },
		{ "POLICY_WRITTEN", false },
		{ "POLICY_FLIPPED", true },
	};
	const char *dir = fixture_tenant("killed");
	uint64_t old = GIB, limit;
	struct policy_map *map;
	struct policy p;

	CHECK_EQ(policy_open(dir, &map), 0);
	for (size_t i = 0; i < 3 * sizeof(table) / sizeof(table[0]); i++) {
		bool done = table[i % 3].done;
		pid_t pid = fork();

		limit = old + MIB;
		if (pid == 0) {
			CHECK_EQ(fault_arm(table[i % 3].fault), 0);
			policy_update(dir, set_limit, &limit);
			_exit(1);
		}
		fixture_wait(pid, SIGKILL);
		CHECK_EQ(policy_read(map, &p), 0);
		CHECK_EQ(p.device[0].limit_bytes, done ? limit : old);
		CHECK_EQ(policy_load(dir, &p), 0);
		CHECK_EQ(p.device[0].limit_bytes, done ? limit : old);
		old = limit + MIB;
		CHECK_EQ(policy_update(dir, set_limit, &old), 0);
		CHECK_EQ(policy_read(map, &p), 0);
		CHECK_EQ(p.device[0].limit_bytes, old);
	}
	policy_close(map);
}

/* Whoever reads while others write sees one policy, not parts of two. */
static void *write_all_the_time(void *arg)
{
	const char *dir = arg;

	for (uint64_t i = 0; i < 3000; i++) {
		uint64_t limit = (i % 1000 + 1) * MIB;
		int r;

		/* A writer polls for the lock; where processors are busy the other one may have it each time. */
		do
			r = policy_update(dir, set_limit, &limit);
		while (r == -EBUSY);
		CHECK_EQ(r, 0);
	}
	return NULL;
}

static void check_readers(void)
{
	char dir[PATH_MAX];
	struct policy p = fixture_policy(MIB);
	struct policy_map *map;
	pthread_t thread[2];
	uint64_t last;

	p.flags = 0;
	p.ndevices = POLICY_DEVICES;
	for (uint32_t i = 0; i < POLICY_DEVICES; i++)
		p.device[i] = p.device[0];
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "readers", &p, dir, sizeof(dir)), 0);
	CHECK_EQ(policy_open(dir, &map), 0);
	last = policy_generation(map) + 6000;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, write_all_the_time, dir), 0);
	while (policy_generation(map) < last) {
		int r = policy_read(map, &p);

		CHECK(r == 0 || r == -EAGAIN);
		for (uint32_t i = 0; r == 0 && i < POLICY_DEVICES; i++)
			CHECK_EQ(p.device[i].limit_bytes, p.device[0].limit_bytes);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(policy_generation(map), last); /* none lost */
	policy_close(map);
}

/* Notes each generation that it was woken for, until it is told of the last. */
struct waiter {
	struct policy_map *map;
	uint64_t last;
	_Atomic uint64_t seen;
};

static void *wait_all_the_time(void *arg)
{
	struct waiter *waiter = arg;

	while (waiter->seen != waiter->last) {
		policy_wait(waiter->map, waiter->seen);
		waiter->seen = policy_generation(waiter->map);
	}
	return NULL;
}

/* No update is slept through, be it one that leaves the gate as it is. */
static void check_wait(void)
{
	char dir[PATH_MAX];
	struct policy p = fixture_policy(MIB);
	struct waiter waiter = {0};
	pthread_t thread;

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "waiter", &p, dir, sizeof(dir)), 0);
	CHECK_EQ(policy_open(dir, &waiter.map), 0);
	waiter.seen = policy_generation(waiter.map);
	waiter.last = waiter.seen + 2000;
	CHECK_EQ(pthread_create(&thread, NULL, wait_all_the_time, &waiter), 0);
	for (uint64_t i = waiter.seen + 1; i <= waiter.last; i++) {
		uint64_t limit = i * MIB;

		CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
		for (int tries = 0; waiter.seen != i && tries < 100000; tries++)
			usleep(100);
		CHECK_EQ(waiter.seen, i);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	policy_close(waiter.map);
}

/* Damage is an error, before and after the file is mapped. */
static void check_damage(void)
{
	size_t at = offsetof(struct policy_file, copy[0].policy.device[0].limit_bytes);
	const char *dir = fixture_tenant("damage");
	struct policy_map *map, *other = NULL;
	char path[PATH_MAX + 8];
	struct policy p;

	CHECK_EQ(policy_open(dir, &map), 0);
	fixture_damage(dir, at, UINT64_MAX / 2);
	CHECK_EQ(policy_read(map, &p), -EBADMSG);
	CHECK_EQ(policy_load(dir, &p), -EPROTO);
	CHECK_EQ(policy_open(dir, &other), -EPROTO);
	CHECK_EQ(policy_update(dir, refuse, NULL), -EBADMSG);
	fixture_damage(dir, at, GIB);
	CHECK_EQ(policy_read(map, &p), 0);
	fixture_damage(dir, offsetof(struct policy_file, generation), 3); /* the copy never written */
	CHECK_EQ(policy_read(map, &p), -EBADMSG);
	fixture_damage(dir, offsetof(struct policy_file, generation), 4); /* not that copy's number */
	CHECK_EQ(policy_read(map, &p), -EBADMSG);
	fixture_damage(dir, offsetof(struct policy_file, generation), 2);
	CHECK_EQ(policy_read(map, &p), 0);
	policy_close(map);
	fixture_damage(dir, 0, 0);
	CHECK_EQ(policy_open(dir, &other), -EPROTO);
	fixture_damage(dir, 0, POLICY_MAGIC);
	fixture_damage(dir, 8, POLICY_VERSION + 1);
	CHECK_EQ(policy_open(dir, &other), -EPROTO);
	snprintf(path, sizeof(path), "%s/policy", dir);
	CHECK_EQ(truncate(path, 4096), 0);
	CHECK_EQ(policy_open(dir, &other), -EPROTO);
	CHECK_EQ(chmod(path, 0644), 0);
	CHECK_EQ(policy_open(dir, &other), -EPERM);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(policy_open(dir, &other), -ENOENT);
	CHECK_EQ(symlink("/dev/null", path), 0);
	CHECK_EQ(policy_open(dir, &other), -ELOOP);
	CHECK(!other);
}

static void *wait_at_gate(void *arg)
{
	const uint32_t *gate = policy_gate(arg);

	while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == POLICY_GATE_OPEN)
		syscall(SYS_futex, gate, FUTEX_WAIT, POLICY_GATE_OPEN, NULL, NULL, 0);
	return NULL;
}

static int set_cap(struct policy *policy, void *arg)
{
	policy->compute = POLICY_COMPUTE_CAP;
	policy->device[0].share_permille = 500;
	return 0;
}

/* A waiter sleeps on its read-only mapping until the policy says that launches are metered. */
static void check_gate(void)
{
	const char *dir = fixture_tenant("gate");
	struct timespec soon = { .tv_nsec = 1000000 };
	struct policy_map *map;
	pthread_t thread;

	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(*policy_gate(map), POLICY_GATE_OPEN);
	CHECK_EQ(syscall(SYS_futex, policy_gate(map), FUTEX_WAIT, POLICY_GATE_OPEN, &soon, NULL, 0),
		 -1);
	CHECK_EQ(errno, ETIMEDOUT); /* the kernel takes the read-only word */
	CHECK_EQ(pthread_create(&thread, NULL, wait_at_gate, map), 0);
	nanosleep(&soon, NULL);
	CHECK_EQ(policy_update(dir, set_cap, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(*policy_gate(map), POLICY_GATE_METERED);
	policy_close(map);
}

static void check_shares(void)
{
	struct policy p = fixture_policy(GIB);

	CHECK_EQ(policy_share(&p, uuid_a), 1000); /* none was asked */
	CHECK_EQ(policy_weight(&p, uuid_a), POLICY_WEIGHT_PERMILLE);
	p.device[0].share_permille = 1;
	CHECK_EQ(policy_share(&p, uuid_a), 1);
	CHECK_EQ(policy_weight(&p, uuid_a), 1);
	p.ndevices = 2;
	memcpy(p.device[1].uuid, uuid_a, 16);
	p.device[1].share_permille = 250;
	CHECK_EQ(policy_share(&p, uuid_a), 250);
	CHECK_EQ(policy_weight(&p, uuid_a), 250);
	CHECK_EQ(policy_share(&p, uuid_b), 1);
	p.weight = 3; /* goes before shares, on every device */
	CHECK_EQ(policy_weight(&p, uuid_a), 300);
	CHECK_EQ(policy_weight(&p, uuid_b), 300);
	CHECK_EQ(policy_share(&p, uuid_a), 250);
	p.flags = 0;
	CHECK_EQ(policy_share(&p, fixture_uuid), 1000);
}

/* All of a device's time is no limit, unless others' is weighed against it. */
static void check_meters(void)
{
	struct policy p = {.ndevices = 1};

	p.compute = POLICY_COMPUTE_OFF;
	p.device[0].share_permille = 250;
	CHECK(!policy_meters(&p));
	p.compute = POLICY_COMPUTE_CAP;
	CHECK(policy_meters(&p));
	p.device[0].share_permille = 1000;
	CHECK(!policy_meters(&p));
	p.weight = 2;
	CHECK(policy_meters(&p));
	p.weight = 0;
	p.compute = POLICY_COMPUTE_SHARE;
	CHECK(policy_meters(&p));
	p.compute = POLICY_COMPUTE_CAP;
	p.ndevices = 2;
	p.device[1].share_permille = 999;
	CHECK(policy_meters(&p));
	/* Asked for, it is measured and no more limited than before. */
	CHECK(policy_limits_compute(&p));
	p.compute = POLICY_COMPUTE_OFF;
	p.meter = 1;
	CHECK(policy_meters(&p) && !policy_limits_compute(&p));
	p.compute = POLICY_COMPUTE_CAP;
	p.device[1].share_permille = 1000;
	CHECK(policy_meters(&p) && !policy_limits_compute(&p));
}

/* On or off, and nothing that a launch has to look at. */
static void check_traced(void)
{
	struct policy p = fixture_policy(GIB);

	p.trace = 1;
	CHECK_EQ(policy_check(&p), 0);
	CHECK(!policy_meters(&p));
	p.trace = 2;
	CHECK_EQ(policy_check(&p), -EINVAL);
}

/* What the own user does by mistake: a file that is written to is cut first, as by a shell's `>`. */
static void check_not_cut_by_mistake(void)
{
	struct policy policy = fixture_policy(GIB), read;
	uint64_t limit = 2 * GIB;
	pid_t pid, writer[4];
	char path[PATH_MAX];
	struct turn *turn;
	const char *dir;
	struct stat st;

	pid = fixture_fork();
	if (pid == 0) {
		dir = fixture_runtime_dir();
		CHECK(geteuid() || (chown(dir, 65534, 65534) == 0 && chmod(dir, 0700) == 0 &&
				    setuid(65534) == 0));
		snprintf(path, sizeof(path), "%s/policy", dir);
		CHECK_EQ(policy_create(dir, &policy), 0);
		CHECK_EQ(open(path, O_WRONLY | O_TRUNC), -1);
		CHECK_EQ(errno, EACCES);
		CHECK_EQ(truncate(path, 0), -1);
		/* Who means to write it can, also several at once, and it is as it was then. */
		for (int i = 0; i < 4; i++) {
			writer[i] = fixture_fork();
			if (writer[i])
				continue;
			for (int n = 0; n < 200; n++) {
				CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
				CHECK_EQ(turn_open(dir, &turn), 0);
				turn_close(turn);
			}
			_exit(0);
		}
		for (int i = 0; i < 4; i++)
			fixture_wait(writer[i], 0);
		CHECK_EQ(policy_load(dir, &read), 0);
		CHECK_EQ(read.device[0].limit_bytes, limit);
		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(st.st_mode & 07777, 0400);
		CHECK_EQ(unlink(path), 0);
		_exit(0);
	}
	fixture_wait(pid, 0);
	CHECK(geteuid() || chown(fixture_runtime_dir(), 0, 0) == 0);
}

int main(void)
{
	check_not_cut_by_mistake();
	check_meters();
	check_traced();
	check_nonsense();
	check_limits();
	check_part();
	check_yields();
	check_update();
	check_limit_ever();
	if (fixture_has_faults())
		check_killed_writers();
	check_readers();
	check_wait();
	check_damage();
	check_gate();
	check_shares();
	return 0;
}
