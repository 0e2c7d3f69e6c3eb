/* SPDX-License-Identifier: Apache-2.0 */
#include "base/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/proc_stat.h"

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

/* Allocates nothing: callers may hold a lock. */
static bool target_any_thread(pid_t process, bool (*is)(const struct proc_stat *stat))
{
	_Alignas(struct dirent64) char room[2048];
	CLEANUP_CLOSE int tasks = -EBADF;
	char path[280];
	long n;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tasks < 0)
		return false;
	while ((n = syscall(SYS_getdents64, tasks, room, sizeof(room))) > 0)
		for (long at = 0; at < n;) {
			const struct dirent64 *entry = (const void *)(room + at);
			struct proc_stat stat;

			snprintf(path, sizeof(path), "%.255s/stat", entry->d_name);
			if (entry->d_name[0] != '.' && !proc_stat_read_at(tasks, path, &stat) &&
			    is(&stat))
				return true;
			at += entry->d_reclen;
		}
	return false;
}

bool target_is_stopped(pid_t process)
{
	return target_any_thread(process, proc_stat_is_stopped);
}

static bool target_stat_is_ending(const struct proc_stat *stat)
{
	return proc_stat_is_exiting(stat) && !proc_stat_is_dead(stat);
}

bool target_is_ending(pid_t process, uint64_t until_ns)
{
	struct proc_stat stat;

	return process > 0 && !proc_stat_read(process, &stat) &&
	       proc_stat_start_ns(&stat) <= until_ns &&
	       target_any_thread(process, target_stat_is_ending);
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
