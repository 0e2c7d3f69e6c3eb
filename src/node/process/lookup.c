/* SPDX-License-Identifier: Apache-2.0 */
#include "node/process/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"

/* A lookup fails for a moment during a rename or a mount. */
#define LOOKUP_TRIES 10

int lookup_open(int dirfd, const char *path, int flags, uint64_t resolve)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = {.flags = (uint64_t)(flags | O_PATH | O_CLOEXEC), .resolve = resolve};
	int fd = -1;

	for (int i = 0; i < LOOKUP_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? err_errno() : fd;
}

int lookup_stat(int fd, struct stat *ret)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) < 0)
		return err_errno();
	memset(ret, 0, sizeof(*ret));
	ret->st_dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	ret->st_ino = st.stx_ino;
	ret->st_mode = st.stx_mode;
	ret->st_uid = st.stx_uid;
	ret->st_size = (off_t)st.stx_size;
	return 0;
}
