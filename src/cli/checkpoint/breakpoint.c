/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/breakpoint.h"

#ifdef __x86_64__

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where the breakpoint is. */
__attribute__((noinline)) static void breakpoint_pass(void)
{
	__asm__ volatile("" ::: "memory");
}

static int breakpoint_wait(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static bool breakpoint_set(pid_t pid)
{
	const size_t address = offsetof(struct user, u_debugreg[0]);
	const size_t control = offsetof(struct user, u_debugreg[7]);

	/* One byte, as it is executed: all zero but that it is on. */
	return !ptrace(PTRACE_POKEUSER, pid, address, breakpoint_pass) &&
	       !ptrace(PTRACE_POKEUSER, pid, control, 1L);
}

bool breakpoint_fires(void)
{
	pid_t pid = fork();
	bool fires = true;
	int status;

	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(1);
		raise(SIGSTOP);
		breakpoint_pass();
		_exit(0);
	}
	if (pid < 0 || !WIFSTOPPED(breakpoint_wait(pid)))
		return true; /* nothing was tried */
	/* If no breakpoint can be set, CRIU does without by itself. */
	if (breakpoint_set(pid)) {
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		status = breakpoint_wait(pid);
		fires = WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
		if (!WIFSTOPPED(status))
			return fires;
	}
	kill(pid, SIGKILL);
	breakpoint_wait(pid);
	return fires;
}

#else

bool breakpoint_fires(void)
{
	return true;
}

#endif
