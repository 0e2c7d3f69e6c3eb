/* SPDX-License-Identifier: Apache-2.0 */
#include "base/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

int target_process(pid_t thread, pid_t *ret_process)
{
	char path[64], text[1024], *line;
	long process;

	snprintf(path, sizeof(path), "/proc/%d/status", thread);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -ESRCH;
	/* The program's own name, in the first line, cannot contain a newline (it is escaped). */
	line = strstr(text, "\nTgid:\t");
	process = line ? strtol(line + strlen("\nTgid:\t"), NULL, 10) : 0;
	if (process <= 0)
		return -ESRCH;
	*ret_process = (pid_t)process;
	return 0;
}

static bool target_is_stopped_thread(int tasks, const char *thread)
{
	char path[280], text[256], *name_end;

	snprintf(path, sizeof(path), "%.255s/stat", thread);
	if (fd_read_text(tasks, path, text, sizeof(text)) < 0)
		return false;
	/* The state is behind the thread's name, which may have any byte in it. */
	name_end = strrchr(text, ')');
	return name_end && (!strncmp(name_end, ") T", 3) || !strncmp(name_end, ") t", 3));
}

bool target_is_stopped(pid_t process)
{
	char path[64];
	struct dirent *entry;
	bool stopped = false;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	tasks = opendir(path);
	while (tasks && !stopped && (entry = readdir(tasks)))
		stopped = target_is_stopped_thread(dirfd(tasks), entry->d_name);
	if (tasks)
		closedir(tasks);
	return stopped;
}

/*
 * The thread's own table of descriptors, which it need not share with its process. File systems
 * are not asked anew: one that the guarded program itself serves could not answer.
 */
int target_device(pid_t thread, int fd, dev_t *ret_device)
{
	struct statx stx;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", thread, fd);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &stx) < 0) {
		int r = err_errno();

		snprintf(path, sizeof(path), "/proc/%d", thread);
		return r != -ENOENT ? r : access(path, F_OK) < 0 ? -ESRCH : -EBADF;
	}
	*ret_device = S_ISCHR(stx.stx_mode) ? makedev(stx.stx_rdev_major, stx.stx_rdev_minor) : 0;
	return 0;
}

int target_file(int pidfd, int fd)
{
	int ours = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	return ours < 0 ? err_errno() : ours;
}

int target_copy(pid_t thread, uint64_t from, void *to, size_t len)
{
	struct iovec here = {to, len}, there = {(void *)(uintptr_t)from, len};
	ssize_t n;

	if (!len)
		return 0;
	n = process_vm_readv(thread, &here, 1, &there, 1, 0);
	if (n < 0)
		return err_errno();
	return (size_t)n == len ? 0 : -EFAULT;
}

bool target_inside(pid_t thread, uint32_t request)
{
	unsigned long long asked;
	char path[64], text[256];
	ssize_t n;
	long nr;

	snprintf(path, sizeof(path), "/proc/%d/syscall", thread);
	n = fd_read_text(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return n != -ENOENT && n != -ESRCH;
	/* "16 0x5 0xc0284b16 ...", "-1 ..." outside of any, or "running". */
	if (sscanf(text, "%ld %*x %llx", &nr, &asked) < 1)
		return true;
	return nr == SYS_ioctl && (uint32_t)asked == request;
}
