/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/user.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel's own copy looks whether there is memory; a plain one would find out by dying. */
static int user_copy(bool in, void *ours, uint64_t theirs, size_t len)
{
	struct iovec here = {ours, len}, there = {(void *)(uintptr_t)theirs, len};
	ssize_t n;

	if (!len)
		return 0;
	n = in ? process_vm_readv(gettid(), &here, 1, &there, 1, 0)
	       : process_vm_writev(gettid(), &here, 1, &there, 1, 0);
	if (n < 0 && (errno == EPERM || errno == ENOSYS)) { /* a container may forbid it */
		if (!theirs)
			return -EFAULT;
		memcpy(in ? ours : there.iov_base, in ? there.iov_base : ours, len);
		return 0;
	}
	return n == (ssize_t)len ? 0 : -EFAULT;
}

int user_copy_in(void *to, uint64_t from, size_t len)
{
	return user_copy(true, to, from, len);
}

int user_copy_out(uint64_t to, const void *from, size_t len)
{
	return user_copy(false, (void *)from, to, len);
}

bool user_is_mapped(uint64_t at, uint64_t size)
{
	return msync((void *)(uintptr_t)at, size, MS_ASYNC) == 0;
}
