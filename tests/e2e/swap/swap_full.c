/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, a disk that is full or fails: SWAP_FULL_ERROR=fallocate=28 has that call of the process
 * answer that errno.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	errno = len < 1 << 25 ? 0 : swap_full_error("fallocate");
	return errno ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, len);
}

int msync(void *at, size_t len, int flags);
__attribute__((visibility("default"))) int msync(void *at, size_t len, int flags)
{
	errno = swap_full_error("msync");
	return errno ? -1 : (int)syscall(SYS_msync, at, len, flags);
}
