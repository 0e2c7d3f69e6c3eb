/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ending.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define PF_EXITING 0x4u /* of a thread's flags in /proc */

struct ending_stat {
	char state;
	unsigned int flags;
	uint64_t start_ns; /* CLOCK_BOOTTIME, rounded down */
};

/* The words behind a thread's name, which may have any byte in it. */
static bool ending_read(const char *path, struct ending_stat *ret)
{
	char text[1024], *at;
	uint64_t ticks;

	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			  " %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %" SCNu64,
			  &ret->state, &ret->flags, &ticks) != 3)
		return false;
	ret->start_ns = ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
	return true;
}

static bool ending_is_thread(pid_t pid, const char *thread)
{
	struct ending_stat stat;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", pid, thread);
	return ending_read(path, &stat) && stat.flags & PF_EXITING && stat.state != 'Z' &&
	       stat.state != 'X';
}

bool ending_is(pid_t pid, uint64_t until_ns)
{
	_Alignas(struct dirent64) char room[2048];
	CLEANUP_CLOSE int fd = -EBADF;
	struct ending_stat stat;
	char path[64];
	long n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (pid <= 0 || !ending_read(path, &stat) || stat.start_ns > until_ns)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while ((n = syscall(SYS_getdents64, fd, room, sizeof(room))) > 0)
		for (long at = 0; at < n;) {
			const struct dirent64 *entry = (const void *)(room + at);

			if (entry->d_name[0] != '.' && ending_is_thread(pid, entry->d_name))
				return true;
			at += entry->d_reclen;
		}
	return false;
}
