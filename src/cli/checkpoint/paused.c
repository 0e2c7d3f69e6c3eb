/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/paused.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/cleanup.h"
#include "base/dir.h"
#include "base/target.h"

#define KFD "/dev/kfd"

/* A descriptor of ours for the process's file of the device, or -errno. */
static int paused_find(pid_t pid, dev_t kfd)
{
	CLEANUP_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	CLEANUP_DIR DIR *list = pidfd < 0 ? NULL : dir_of_process(pid, "fd");
	int found = -ENOENT, fd;
	dev_t is;

	while (found < 0 && (fd = dir_next_number(list)) >= 0)
		if (!target_device(pid, fd, &is) && is == kfd)
			found = target_file(pidfd, fd);
	return found;
}

/* The driver takes this ioctl only from a process that has attached to the target. */
static void paused_let_go_one(pid_t pid, dev_t kfd)
{
	struct kfd_ioctl_criu_args args = {.op = KFD_CRIU_OP_UNPAUSE};
	CLEANUP_CLOSE int fd = paused_find(pid, kfd);

	if (fd >= 0 && !ptrace(PTRACE_SEIZE, pid, NULL, NULL))
		ioctl(fd, _IOWR(AMDKFD_IOCTL_BASE, KFD_NR_CRIU_OP, args), &args);
}

void paused_let_go(const struct tree *tree)
{
	struct stat kfd;
	pid_t pid;

	if (stat(KFD, &kfd) < 0 || !S_ISCHR(kfd.st_mode))
		return;
	/*
	 * Detaching from a process would require to stop it. The child's end continues all of them.
	 */
	pid = fork();
	if (!pid) {
		for (size_t i = 0; i < tree->n; i++)
			paused_let_go_one(tree->pid[i], kfd.st_rdev);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
