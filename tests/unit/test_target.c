/* SPDX-License-Identifier: Apache-2.0 */
/* What can be seen of another process's threads: here of a child with a thread of its own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "base/target.h"
#include "tests/check.h"

#define NOBODY 0x7ffffffe /* above every pid_max */
#define TEXT   "to be read"

struct seen {
	pid_t thread;
	int null, file, closed, own; /* `own`: of that thread's table of descriptors alone */
	const char *text, *edge;     /* the latter ends where nothing can be read */
};

static int tell;

static void *be_looked_at(void *arg)
{
	struct seen *seen = arg;

	seen->thread = (pid_t)syscall(SYS_gettid);
	CHECK_EQ(unshare(CLONE_FILES), 0);
	seen->own = open("/dev/zero", O_RDONLY);
	CHECK_EQ(write(tell, seen, sizeof(*seen)), sizeof(*seen));
	pause();
	return NULL;
}

static void child(void)
{
	struct seen seen = {.null = open("/dev/null", O_RDONLY),
			    .file = open("/proc/self/exe", O_RDONLY),
			    .closed = 500,
			    .text = TEXT};
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	/* Unreadable and not just free, or the next mapping may take its place. */
	CHECK_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	seen.edge = pages + 4096 - sizeof(TEXT);
	CHECK_EQ(pthread_create(&thread, NULL, be_looked_at, &seen), 0);
	pthread_join(thread, NULL);
}

static void test_device(pid_t pid, const struct seen *seen)
{
	dev_t device;

	CHECK_EQ(target_device(pid, seen->null, &device), 0);
	CHECK(device == makedev(1, 3));
	CHECK_EQ(target_device(pid, seen->file, &device), 0);
	CHECK_EQ(device, 0);
	CHECK_EQ(target_device(pid, seen->closed, &device), -EBADF);
	CHECK_EQ(target_device(pid, -1, &device), -EBADF);
	CHECK_EQ(target_device(NOBODY, 0, &device), -ESRCH);
	CHECK_EQ(target_device(seen->thread, seen->own, &device), 0);
	CHECK(device == makedev(1, 5));
	CHECK_EQ(target_device(pid, seen->own, &device), -EBADF);
}

static void test_copy(pid_t pid, const struct seen *seen)
{
	char text[2 * sizeof(TEXT)];

	CHECK_EQ(target_copy(pid, (uintptr_t)seen->text, text, sizeof(TEXT)), 0);
	CHECK(!strcmp(text, TEXT));
	CHECK_EQ(target_copy(seen->thread, (uintptr_t)seen->edge, text, sizeof(TEXT)), 0);
	CHECK_EQ(target_copy(pid, (uintptr_t)seen->edge, text, sizeof(TEXT) + 1), -EFAULT);
	CHECK_EQ(target_copy(pid, 0, text, 1), -EFAULT);
	CHECK_EQ(target_copy(pid, UINT64_MAX, text, 1), -EFAULT);
	CHECK_EQ(target_copy(pid, 0, text, 0), 0);
	CHECK_EQ(target_copy(NOBODY, (uintptr_t)seen->text, text, 1), -ESRCH);
}

static void test_stopped(pid_t pid)
{
	int status;

	CHECK(!target_is_stopped(pid));
	CHECK_EQ(kill(pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(target_is_stopped(pid));
	CHECK_EQ(kill(pid, SIGCONT), 0);
	CHECK_EQ(waitpid(pid, &status, WCONTINUED), pid);
	CHECK(!target_is_stopped(pid));
	CHECK(!target_is_stopped(NOBODY));
}

/* The kernel needs milliseconds to unmap this much memory. */
#define LARGE ((size_t)256 << 20)

static pid_t ending_child(void)
{
	int made[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(made), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CHECK(mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
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

static bool ending_is_zombie(pid_t pid)
{
	siginfo_t info = {0};

	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	return info.si_pid == pid;
}

static bool ending_is_seen(void)
{
	pid_t pid = ending_child();
	bool seen = false;

	CHECK(!target_is_ending(pid, now_boot_ns()));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	while (!ending_is_zombie(pid))
		seen |= target_is_ending(pid, now_boot_ns());
	CHECK(!target_is_ending(pid, now_boot_ns()));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!target_is_ending(pid, now_boot_ns()));
	return seen;
}

/* The test may get no processor time while one child ends, but not for 20 in a row. */
static void test_ending(void)
{
	int tries = 0;

	while (!ending_is_seen())
		CHECK(++tries < 20);
	CHECK(!target_is_ending(getpid(), now_boot_ns()));
	CHECK(!target_is_ending(0, now_boot_ns()));
}

/* The process began after the time in question: its number belonged to another one then. */
static void test_number_again(void)
{
	uint64_t before = now_boot_ns() - UINT64_C(1000000000);
	pid_t pid = ending_child();

	CHECK_EQ(kill(pid, SIGKILL), 0);
	while (!ending_is_zombie(pid))
		CHECK(!target_is_ending(pid, before));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	struct seen seen;
	pid_t pid, process;
	int pair[2];

	CHECK_EQ(pipe(pair), 0);
	tell = pair[1];
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		/* It holds the test's output open: left behind, it would keep a failure waiting. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child();
		return 1;
	}
	CHECK_EQ(read(pair[0], &seen, sizeof(seen)), sizeof(seen));
	CHECK_EQ(target_process(seen.thread, &process), 0);
	CHECK_EQ(process, pid);
	CHECK_EQ(target_process(pid, &process), 0);
	CHECK_EQ(process, pid);
	CHECK_EQ(target_process(NOBODY, &process), -ESRCH);
	test_device(pid, &seen);
	test_copy(pid, &seen);
	test_stopped(pid);
	while (target_inside(pid, 0)) /* until it waits for its thread, which is no ioctl */
		usleep(1000);
	CHECK(!target_inside(NOBODY, 0));
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	test_ending();
	test_number_again();
	return 0;
}
