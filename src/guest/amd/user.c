/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/user.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096

/* A copy of this much costs less than the call that copies between processes. */
#define PLAIN_BYTES 256

/*
 * True if it lies in the page of our own stack frame, above the frame, as many blocks do. That page
 * is mapped, whatever stack it is of; the next page may not be.
 */
static bool user_is_on_stack(uint64_t at, size_t len)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);
	uint64_t end = (here | (PAGE_BYTES - 1)) + 1;

	return at >= here && at < end && len <= end - at;
}

/*
 * True if a byte can be read: a system call copies it in, and then finds its other argument wrong.
 */
static bool user_can_read(uint64_t at)
{
	at &= ~(uint64_t)7;
	return syscall(SYS_rt_sigprocmask, -1, at, NULL, 8) >= 0 || errno != EFAULT;
}

/* True if a byte can be written: a futex call adds 0 there, in one step, and wakes nobody. */
static bool user_can_write(uint64_t at)
{
	static uint32_t nobody;

	at &= ~(uint64_t)3;
	return syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, NULL, at,
		       FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) >= 0 ||
	       errno != EFAULT;
}

/*
 * For few bytes, and where a container forbids the calls below. If another thread unmaps the memory
 * at this moment the program ends, as it would if it copied there itself.
 */
static int user_copy_plain(void *ours, uint64_t theirs, size_t len, int in)
{
	if (theirs + len < theirs)
		return -EFAULT;
	for (uint64_t at = theirs; at < theirs + len; at = (at | (PAGE_BYTES - 1)) + 1)
		if (at < PAGE_BYTES || !(in ? user_can_read(at) : user_can_write(at)))
			return -EFAULT; /* to read from address 0 would be no error there */
	if (in)
		memcpy(ours, (const void *)(uintptr_t)theirs, len);
	else
		memcpy((void *)(uintptr_t)theirs, ours, len);
	return 0;
}

static int user_copy(void *ours, uint64_t theirs, size_t len, int in)
{
	struct iovec here = {ours, len}, there = {(void *)(uintptr_t)theirs, len};
	int saved = errno, r = 0;
	ssize_t n;

	if (!len)
		return 0;
	if (user_is_on_stack(theirs, len)) {
		memcpy(in ? ours : there.iov_base, in ? there.iov_base : ours, len);
		return 0;
	}
	if (len <= PLAIN_BYTES) {
		r = user_copy_plain(ours, theirs, len, in);
		errno = saved;
		return r;
	}
	/* By the thread: the process has no memory by its own number once its main thread ended. */
	n = in ? process_vm_readv(gettid(), &here, 1, &there, 1, 0)
	       : process_vm_writev(gettid(), &here, 1, &there, 1, 0);
	if (n != (ssize_t)len)
		r = n < 0 && (errno == EPERM || errno == ENOSYS)
			    ? user_copy_plain(ours, theirs, len, in)
			    : -EFAULT;
	errno = saved;
	return r;
}

int user_read(void *to, uint64_t from, size_t len)
{
	return user_copy(to, from, len, 1);
}

/* By the thread's number: the process's is of its first thread, which may have ended. */
int user_peek(void *to, uint64_t from, size_t len)
{
	struct iovec here = {to, len}, there = {(void *)(uintptr_t)from, len};
	int saved = errno;
	ssize_t n = process_vm_readv(gettid(), &here, 1, &there, 1, 0);

	errno = saved;
	return n == (ssize_t)len ? 0 : -EFAULT;
}

int user_write(uint64_t to, const void *from, size_t len)
{
	return user_copy((void *)(uintptr_t)from, to, len, 0);
}
