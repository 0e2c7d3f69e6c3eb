/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the program by its address, where the kernel copies between processes and where a
 * container forbids that.
 */
#include "preload/user.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/check.h"

#define PAGE 4096

/* The kernel, which may refuse. */
static bool forbidden;

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long n_here,
			 const struct iovec *there, unsigned long n_there, unsigned long flags)
{
	if (!forbidden)
		return syscall(SYS_process_vm_readv, pid, here, n_here, there, n_there, flags);
	errno = EPERM;
	return -1;
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long n_here,
			  const struct iovec *there, unsigned long n_there, unsigned long flags)
{
	if (!forbidden)
		return syscall(SYS_process_vm_writev, pid, here, n_here, there, n_there, flags);
	errno = EPERM;
	return -1;
}

static char *page(int protection)
{
	char *page = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	return page;
}

/* Never by a load of our own, which another thread's munmap could meet. */
static void test_peek(void)
{
	char *there = page(PROT_READ | PROT_WRITE);
	uint64_t value = 0;

	memcpy(there, &(uint64_t){47}, sizeof(value));
	CHECK_EQ(user_peek(&value, (uintptr_t)there, sizeof(value)), 0);
	CHECK_EQ(value, 47);
	forbidden = true;
	CHECK_EQ(user_peek(&value, (uintptr_t)there, sizeof(value)), -EFAULT);
	forbidden = false;
	CHECK_EQ(munmap(there, PAGE), 0);
	CHECK_EQ(user_peek(&value, (uintptr_t)there, sizeof(value)), -EFAULT);
	CHECK_EQ(user_peek(&value, 0, sizeof(value)), -EFAULT);
}

int main(void)
{
	test_peek();
	return 0;
}
