/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRIU's part in tests of checkpoints, without CRIU: the test program is the one that stops a
 * process of its own, takes a descriptor of its /dev/kfd, and asks.
 */
#ifndef ALLOT_TESTS_SIM_KFD_CRIU_H
#define ALLOT_TESTS_SIM_KFD_CRIU_H

#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "amd/abi/kfd_criu.h"
#include "tests/sim/kfd_program.h"

/* A descriptor of ours for one of the process's, as CRIU takes it. */
static inline int take_descriptor(pid_t pid, int theirs)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	CHECK(pidfd >= 0);
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
	CHECK(fd >= 0);
	close(pidfd);
	return fd;
}

/* We are its tracer, and it goes on. */
static inline void seize(pid_t pid)
{
	CHECK_EQ(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
}

/* It is stopped, whatever it waits for. Threads that the emulator made are not. */
static inline void stop(pid_t pid)
{
	int status;

	CHECK_EQ(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	CHECK_EQ(waitpid(pid, &status, __WALL), pid);
	CHECK(WIFSTOPPED(status));
}

static inline void let_go(pid_t pid)
{
	CHECK_EQ(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
}

/*
 * This program again, with `what`, `path` and `more` (or NULL), where there are such GPUs; as a
 * tenant's, or not.
 */
static inline void run_in_machine_as(bool tenant, char *argv[], const char *links,
				     const char *memory, const char *what, const char *path,
				     const char *more)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child && tenant)
		execl(argv[1], argv[1], "sim", "--amd", "3", "--memory", memory, "--links", links,
		      "--", argv[1], "run", "--memory", memory, "--", argv[0], what, path, more, NULL);
	if (!child) {
		execl(argv[1], argv[1], "sim", "--amd", "3", "--memory", memory, "--links", links,
		      "--", argv[0], what, path, more, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (status)
		fprintf(stderr, "%s\n", what);
	CHECK_EQ(status, 0);
}

static inline void run_in_machine(char *argv[], const char *links, const char *memory,
				  const char *what, const char *path, const char *more)
{
	run_in_machine_as(false, argv, links, memory, what, path, more);
}

static inline int criu_op(int fd, enum kfd_criu_op op, struct kfd_ioctl_criu_args *a)
{
	a->op = op;
	return ioctl(fd, _IOWR('K', KFD_NR_CRIU_OP, *a), a) < 0 ? -errno : 0;
}

#endif
