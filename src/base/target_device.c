/* SPDX-License-Identifier: Apache-2.0 */
/*
 * statx came with glibc 2.28. Code in other people's processes loads on 2.17: it uses target.c and
 * leaves this file out.
 */
#include "base/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"

/*
 * The thread's own table of descriptors, which it need not share with its process. The file system
 * is not asked: if the guarded program itself serves it, it could not answer.
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
