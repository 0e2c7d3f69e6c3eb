/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/life.h"
#include "tests/unit/tenant_fixture.h"

/* Any number hold it; what keeps it alive is a descriptor, or a mapping without one. */
static void check_held(void)
{
	const char *runtime = fixture_runtime_dir(), *dir = fixture_tenant("held");
	int fd, second, twin;

	CHECK(!life_is_held(dir));
	fd = life_hold(dir);
	CHECK(fd >= 0);
	second = life_hold(dir);
	CHECK(second >= 0);
	close(fd);
	CHECK(life_is_held(dir));
	CHECK(!slot_any_alive(dir)); /* who arbitrates sees nobody */
	CHECK_EQ(tenant_remove(runtime, "held"), -EBUSY);
	/* As after fork or exec: it lives as long as one copy does. */
	twin = dup(second);
	close(second);
	CHECK_EQ(tenant_remove(runtime, "held"), -EBUSY);
	close(twin);
	CHECK(!life_is_held(dir));
	CHECK_EQ(tenant_remove(runtime, "held"), 0);
	CHECK_EQ(life_hold(dir), -ENOENT);
	CHECK(!life_is_held(dir));
}

/* Its process closes every descriptor, and forks: the child has no part of it. */
static void check_kept(void)
{
	const char *runtime = fixture_runtime_dir(), *dir = fixture_tenant("kept");
	int told[2], wait[2];
	pid_t pid, child;
	char c;

	CHECK_EQ(pipe(told), 0);
	CHECK_EQ(pipe(wait), 0);
	pid = fixture_fork();
	if (pid == 0) {
		CHECK_EQ(life_keep(dir), 0);
		for (int fd = 3; fd < 64; fd++)
			if (fd != told[1] && fd != wait[0] && fd != wait[1])
				close(fd);
		child = fork();
		if (!child) {
			close(told[1]);
			close(wait[1]);
			CHECK_EQ(read(wait[0], &c, 1), 0);
			_exit(0);
		}
		CHECK_EQ(write(told[1], &child, sizeof(child)), sizeof(child));
		pause();
	}
	CHECK_EQ(read(told[0], &child, sizeof(child)), sizeof(child));
	CHECK(life_is_held(dir));
	CHECK_EQ(tenant_remove(runtime, "kept"), -EBUSY);
	fixture_kill(pid);
	CHECK(!life_is_held(dir));
	CHECK_EQ(tenant_remove(runtime, "kept"), 0);
	close(wait[1]);
}

/* Whoever holds it while it is removed has it, and it stays; or is told that it is gone. */
static void check_hold_or_remove(void)
{
	const char *runtime = fixture_runtime_dir();

	for (int round = 0; round < 200; round++) {
		const char *dir = fixture_tenant("leaving");
		int fds[2], status;
		pid_t pid;
		char c;

		CHECK_EQ(pipe(fds), 0);
		pid = fixture_fork();
		if (pid == 0) {
			int fd = life_hold(dir);

			CHECK(fd >= 0 || fd == -ESTALE || fd == -ENOENT);
			CHECK_EQ(write(fds[1], fd >= 0 ? "y" : "n", 1), 1);
			pause();
		}
		status = tenant_remove(runtime, "leaving");
		CHECK(status == 0 || status == -EBUSY);
		CHECK_EQ(read(fds[0], &c, 1), 1);
		if (c == 'y')
			CHECK_EQ(status, -EBUSY);
		fixture_kill(pid);
		tenant_remove(runtime, "leaving");
		close(fds[0]);
		close(fds[1]);
	}
}

int main(void)
{
	umask(077);
	check_held();
	check_kept();
	check_hold_or_remove();
	return 0;
}
