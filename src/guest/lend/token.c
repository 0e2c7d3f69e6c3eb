/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/lend/token.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int token_make(const struct share_name *name, uint64_t bytes)
{
	CLEANUP_CLOSE int fd = memfd_create("allot-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_pwrite_all(fd, name, sizeof(*name), 0);
	if (r < 0)
		return r;
	if (bytes > sizeof(*name) && ftruncate(fd, (off_t)bytes))
		return -errno;
	return fcntl(fd, F_ADD_SEALS, SEALS) ? -errno : TAKE_FD(fd);
}

bool token_read(int fd, uint64_t magic, struct share_name *ret)
{
	struct share_name name;
	struct stat st;

	/* A sealed file cannot change any more: it is one of ours, or as good. */
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(name) ||
	    fcntl(fd, F_GET_SEALS) != SEALS || fd_pread_all(fd, &name, sizeof(name), 0) < 0 ||
	    name.magic != magic)
		return false;
	*ret = name;
	return true;
}
