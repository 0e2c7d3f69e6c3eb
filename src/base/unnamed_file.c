/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unnamed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"

static int unnamed_file_check_disk(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return err_errno();
	switch ((unsigned long)fs.f_type) {
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
	case HUGETLBFS_MAGIC:
		return -EMEDIUMTYPE;
	default:
		return 0;
	}
}

/* The kernel says so with a signal, too. */
static int unnamed_file_check_limit(uint64_t bytes)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_FSIZE, &most) < 0)
		return err_errno();
	return most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur ? -EFBIG : 0;
}

int unnamed_file_open(const char *dir, uint64_t bytes)
{
	CLEANUP_CLOSE int fd = fd_openat(AT_FDCWD, dir, O_TMPFILE | O_RDWR | O_EXCL, 0600);
	int r;

	/* A kernel, or a file system, that knows no such files takes it for the directory. */
	if (fd < 0)
		return fd == -EISDIR ? -EOPNOTSUPP : fd;
	r = unnamed_file_check_disk(fd);
	if (!r)
		r = unnamed_file_check_limit(bytes);
	if (!r && fallocate(fd, 0, 0, (off_t)bytes) < 0)
		r = err_errno();
	return r < 0 ? r : TAKE_FD(fd);
}
