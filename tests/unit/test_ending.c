/* SPDX-License-Identifier: Apache-2.0 */
/* A process that ends is told from one that lives, one that is gone, and a later one of its number. */
#include "base/ending.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "tests/check.h"

/* So much memory takes the kernel milliseconds to take away. */
#define LARGE ((size_t)256 << 20)

static pid_t child_of(size_t bytes)
{
	int made[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(made), 0);
	pid = fork();
	if (!pid) {
		CHECK(mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) != MAP_FAILED);
		CHECK_EQ(write(made[1], "", 1), 1);
		for (;;)
			pause();
	}
	CHECK_EQ(read(made[0], &c, 1), 1);
	close(made[0]);
	close(made[1]);
	return pid;
}

static bool is_zombie(pid_t pid)
{
	siginfo_t info = {0};

	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	return info.si_pid == pid;
}

static bool is_seen_ending(void)
{
	pid_t pid = child_of(LARGE);
	bool seen = false;

	CHECK(!ending_is(pid, now_boot_ns()));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	while (!is_zombie(pid))
		seen |= ending_is(pid, now_boot_ns());
	CHECK(!ending_is(pid, now_boot_ns()));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!ending_is(pid, now_boot_ns()));
	return seen;
}

/* A processor may be away for all of an end, but not each time. */
static void test_ending(void)
{
	int tries = 0;

	while (!is_seen_ending())
		CHECK(++tries < 20);
	CHECK(!ending_is(getpid(), now_boot_ns()));
	CHECK(!ending_is(0, now_boot_ns()));
}

/* It began after the time that is asked about: the number is another process's by now. */
static void test_number_again(void)
{
	uint64_t before = now_boot_ns() - UINT64_C(1000000000);
	pid_t pid = child_of(LARGE);

	CHECK_EQ(kill(pid, SIGKILL), 0);
	while (!is_zombie(pid))
		CHECK(!ending_is(pid, before));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	test_ending();
	test_number_again();
	return 0;
}
