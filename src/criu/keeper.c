/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/err.h"
#include "base/now.h"

/* CRIU's descriptors close before its processes have no tracer: how often that is tried, and when. */
#define TRIES  400
#define NAP_NS 5000000

static void keeper_continue(long pid, const int *kfds, int nkfds)
{
	int tries = 0;

	while (ptrace(PTRACE_SEIZE, (pid_t)pid, NULL, NULL) < 0 && errno == EPERM && tries++ < TRIES)
		nap_ns(NAP_NS);
	/* The kernel takes it of the process's own alone, and where it is paused. */
	for (int i = 0; i < nkfds; i++) {
		struct kfd_ioctl_criu_args args = {.op = KFD_CRIU_OP_UNPAUSE};

		ioctl(kfds[i], _IOWR(AMDKFD_IOCTL_BASE, KFD_NR_CRIU_OP, args), &args);
	}
	/* The end of ours lets go of it. */
}

static void keeper_wait(int line, const long *pids, int npids, const int *kfds, int nkfds)
{
	char byte;
	ssize_t n;

	do
		n = read(line, &byte, 1);
	while (n < 0 && errno == EINTR);
	for (int i = 0; n == 0 && i < npids; i++)
		keeper_continue(pids[i], kfds, nkfds);
	_exit(0);
}

static void keeper_run(const int line[2], const long *pids, int npids, const int *kfds, int nkfds)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "allot-keeper");
	/* Else it would be ours that keeps the line open. All else that CRIU had goes with us, soon after it. */
	close(line[1]);
	keeper_wait(line[0], pids, npids, kfds, nkfds);
}

int keeper_start(struct keeper *keeper, const long *pids, int npids, const int *kfds, int nkfds)
{
	int line[2];
	pid_t pid;

	if (pipe2(line, O_CLOEXEC) < 0)
		return err_errno();
	/* As fork, but no signal says that it ends, and no wait for CRIU's own children finds it. */
	pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	if (pid == 0)
		keeper_run(line, pids, npids, kfds, nkfds);
	close(line[0]);
	if (pid < 0) {
		close(line[1]);
		return err_errno();
	}
	*keeper = (struct keeper){.pid = pid, .line = line[1]};
	return 0;
}

void keeper_end(struct keeper *keeper)
{
	ssize_t n;

	if (!keeper->pid)
		return;
	do
		n = write(keeper->line, "", 1);
	while (n < 0 && errno == EINTR);
	close(keeper->line);
	waitpid(keeper->pid, NULL, __WCLONE);
	*keeper = (struct keeper){.pid = 0};
}
