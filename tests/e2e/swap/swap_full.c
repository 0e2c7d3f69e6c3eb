/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, a disk that is full or fails: SWAP_FULL_ERROR=fallocate=28 has that call of the process
 * answer that errno. madvise=12 is host memory that copies do not find, once, when they had SWAP_FULL_AT
 * of it: SWAP_FULL_MARK, a file, is gone then.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int swap_full_error(const char *call)
{
	const char *said = getenv("SWAP_FULL_ERROR");
	size_t len = strlen(call);

	return said && !strncmp(said, call, len) && said[len] == '=' ? atoi(said + len + 1) : 0;
}

int fallocate64(int fd, int mode, off_t at, off_t len);
__attribute__((visibility("default"))) int fallocate64(int fd, int mode, off_t at, off_t len)
{
	/* Not for the ledger, which is no larger. */
	errno = len < 1 << 24 ? 0 : swap_full_error("fallocate");
	return errno ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, len);
}

int msync(void *at, size_t len, int flags);
__attribute__((visibility("default"))) int msync(void *at, size_t len, int flags)
{
	errno = swap_full_error("msync");
	return errno ? -1 : (int)syscall(SYS_msync, at, len, flags);
}

static int swap_full_misses(size_t len)
{
	static _Atomic size_t had;
	const char *most = getenv("SWAP_FULL_AT");

	return most && atomic_fetch_add(&had, len) >= strtoull(most, NULL, 0) &&
	       !unlink(getenv("SWAP_FULL_MARK"));
}

int madvise(void *at, size_t len, int advice);
__attribute__((visibility("default"))) int madvise(void *at, size_t len, int advice)
{
	if (advice == MADV_POPULATE_WRITE && len <= 2 << 20 && swap_full_misses(len)) {
		errno = swap_full_error("madvise");
		return -1;
	}
	return (int)syscall(SYS_madvise, at, len, advice);
}
