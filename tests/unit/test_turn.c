/* SPDX-License-Identifier: Apache-2.0 */
/* What the arbiter tells a tenant: who may write it, and who is woken. */
#include "ledger/turn.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "ledger/layout.h"
#include "tests/unit/tenant_fixture.h"

static int set_limit(struct policy *policy, void *arg)
{
	policy->device[0].limit_bytes = *(uint64_t *)arg;
	return 0;
}

static bool is_mapped(const void *at)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);

	return msync((void *)page, 1, MS_ASYNC) == 0;
}

static void *wait_for_it(void *arg)
{
	const struct turn *turn = turn_of(arg);

	while (!__atomic_load_n(&turn->seq, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &turn->seq, FUTEX_WAIT, 0, NULL, NULL, 0);
	return (void *)(uintptr_t)(__atomic_load_n(&turn->open_until_ns, __ATOMIC_RELAXED) == 77);
}

/* A record is whole or it is none, and an old one is none. */
static void check_waits(void)
{
	const char *dir = fixture_tenant("waits");
	struct turn_waits record = {.at_ns = 5 * NS_PER_S, .n = 3, .p99_us = 7, .behind = "other"};
	struct policy_told told;
	struct policy policy;
	struct turn *turn;

	CHECK_EQ(turn_open(dir, &turn), 0);
	CHECK_EQ(policy_load_all(dir, &policy, &told), 0);
	CHECK(!turn_waits_hold(&told.waits, 6 * NS_PER_S));
	for (int i = 0; i < 3; i++) {
		turn_say_waits(turn, &record);
		CHECK_EQ(policy_load_all(dir, &policy, &told), 0);
		CHECK(turn_waits_hold(&told.waits, 6 * NS_PER_S) && told.waits.n == 3 &&
		      told.waits.p99_us == 7 && !strcmp(told.waits.behind, "other"));
	}
	CHECK(!turn_waits_hold(&told.waits, 4 * NS_PER_S));
	CHECK(!turn_waits_hold(&told.waits, 9 * NS_PER_S));
	/* The writer was killed; the next one puts it right. */
	told.waits.begun++;
	CHECK(!turn_waits_hold(&told.waits, 6 * NS_PER_S));
	told.waits.number = ++told.waits.begun;
	memset(told.waits.behind, 'x', sizeof(told.waits.behind));
	CHECK(!turn_waits_hold(&told.waits, 6 * NS_PER_S));
	turn_close(turn);
}

/* What the arbiter writes wakes the tenant, and changes of the policy leave it alone. */
static void check_turn(void)
{
	const char *dir = fixture_tenant("turn");
	const struct turn *seen;
	struct turn *turn;
	struct policy_map *map;
	uint64_t limit = GIB;
	pthread_t thread;
	void *right;
	int fd, next;

	fd = open("/dev/null", O_RDONLY);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(turn_open(dir, &turn), 0);
	next = open("/dev/null", O_RDONLY);
	CHECK(next == fd && close(next) == 0); /* keeps no descriptor */
	seen = turn_of(map);
	CHECK(!seen->beat_ns && !seen->open_until_ns && !seen->flags && !seen->seq);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_it, map), 0);
	turn->entitled_permille = 250;
	__atomic_store_n(&turn->open_until_ns, 77, __ATOMIC_RELAXED);
	__atomic_store_n(&turn->seq, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &turn->seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	CHECK_EQ(pthread_join(thread, &right), 0);
	CHECK(right);
	CHECK_EQ(policy_update(dir, set_limit, &limit), 0);
	CHECK_EQ(seen->open_until_ns, 77);
	CHECK_EQ(seen->entitled_permille, 250);
	/* What the arbiter does not close it leaves; who comes next finds it. */
	turn_close(turn);
	CHECK(!is_mapped(turn));
	CHECK_EQ(turn_open(dir, &turn), 0);
	CHECK_EQ(turn->open_until_ns, 77);
	turn_close(turn);
	turn_close(NULL);
	policy_close(map);
}

/* A tenant cannot give itself a turn, and a child of the arbiter cannot give one by accident. */
static void check_guarded(void)
{
	const char *dir = fixture_tenant("guarded");
	struct turn *turn;
	struct policy_map *map;
	pid_t pid;

	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(turn_open(dir, &turn), 0);
	CHECK(is_mapped(turn));
	pid = fixture_fork();
	if (pid == 0)
		_exit(is_mapped(turn));
	fixture_wait(pid, 0);
	policy_close(map);
	pid = fixture_fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		CHECK_EQ(policy_open(dir, &map), 0);
		((struct turn *)turn_of(map))->open_until_ns = UINT64_MAX;
		_exit(0);
	}
	fixture_wait(pid, SIGSEGV);
	CHECK_EQ(turn->open_until_ns, 0);
	turn_close(turn);
}

static void check_errors(void)
{
	const char *dir = fixture_tenant("errors");
	struct turn *turn = NULL;
	char path[PATH_MAX + 8];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/policy", dir);
	/* Root's, to whom the path is open. */
	if (geteuid() == 0) {
		pid = fixture_fork();
		if (pid == 0) {
			CHECK(chmod(fixture_runtime_dir(), 0711) == 0 && chmod(dir, 0711) == 0 &&
			      setuid(65534) == 0);
			CHECK_EQ(turn_open(dir, &turn), -EACCES);
			CHECK(!turn);
			_exit(0);
		}
		fixture_wait(pid, 0);
	}
	CHECK_EQ(chmod(path, 0600), 0);
	CHECK_EQ(chmod(dir, 0700), 0);
	fixture_damage(dir, 8, POLICY_VERSION + 1);
	CHECK_EQ(turn_open(dir, &turn), -EPROTO);
	fixture_damage(dir, 0, 0);
	CHECK_EQ(turn_open(dir, &turn), -EPROTO);
	CHECK_EQ(chmod(path, 0600), 0);
	CHECK_EQ(truncate(path, 4096), 0);
	CHECK_EQ(turn_open(dir, &turn), -EPROTO);
	CHECK_EQ(chmod(path, 0622), 0);
	CHECK_EQ(turn_open(dir, &turn), -EPERM);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(turn_open(dir, &turn), -ENOENT);
	CHECK_EQ(symlink("/dev/null", path), 0);
	CHECK_EQ(turn_open(dir, &turn), -ELOOP);
	CHECK(!turn);
}

int main(void)
{
	check_turn();
	check_waits();
	check_guarded();
	check_errors();
	return 0;
}
