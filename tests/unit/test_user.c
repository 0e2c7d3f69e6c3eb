/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the program by its address, where the kernel copies between processes and where a
 * container forbids that.
 */
#include "guest/amd/user.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/check.h"

#define PAGE 4096

/* The kernel, which may refuse. */
static bool forbidden;

static ssize_t copy(long call, pid_t pid, const struct iovec *here, unsigned long n_here,
		    const struct iovec *there, unsigned long n_there, unsigned long flags)
{
	if (!forbidden)
		return syscall(call, pid, here, n_here, there, n_there, flags);
	errno = EPERM;
	return -1;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long n_here,
			 const struct iovec *there, unsigned long n_there, unsigned long flags)
{
	return copy(SYS_process_vm_readv, pid, here, n_here, there, n_there, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long n_here,
			  const struct iovec *there, unsigned long n_there, unsigned long flags)
{
	return copy(SYS_process_vm_writev, pid, here, n_here, there, n_there, flags);
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

/* Where nothing can be written that is no crash, and what was there stays. */
static void test_read_only(void)
{
	static const size_t sizes[] = {1, 4, 200, 1000, PAGE};
	char *there = page(PROT_READ | PROT_WRITE), ours[PAGE] = {0};

	memset(there, 47, PAGE);
	CHECK_EQ(mprotect(there, PAGE, PROT_READ), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int way = 0; way < 2; way++) {
			forbidden = way;
			CHECK_EQ(user_read(ours, (uintptr_t)there, sizes[i]), 0);
			CHECK_EQ(ours[sizes[i] - 1], 47);
			CHECK_EQ(user_write((uintptr_t)there, ours, sizes[i]), -EFAULT);
		}
	CHECK_EQ(mprotect(there, PAGE, PROT_READ | PROT_WRITE), 0);
	memset(ours, 11, sizeof(ours));
	for (int way = 0; way < 2; way++) {
		forbidden = way;
		CHECK_EQ(user_write((uintptr_t)there + 1, ours, 9), 0);
		CHECK(there[0] == 47 && there[1] == 11 && there[9] == 11 && there[10] == 47);
	}
	forbidden = false;
	CHECK_EQ(munmap(there, PAGE), 0);
}

#define STACK (64 * PAGE)

static ucontext_t outside;
static char *stack;

/* Above a stack that the program made there need not be anything. */
static void on_own_stack(void)
{
	volatile uint64_t value = 47;
	uint64_t read;

	CHECK_EQ(user_read(&read, (uintptr_t)&value, sizeof(value)), 0);
	CHECK_EQ(read, 47);
	CHECK_EQ(user_read(&read, (uintptr_t)stack + STACK, sizeof(read)), -EFAULT);
	CHECK_EQ(user_write((uintptr_t)stack + STACK, &read, sizeof(read)), -EFAULT);
	CHECK_EQ(user_read(&read, (uintptr_t)stack + STACK - 4, sizeof(read)), -EFAULT);
}

static void test_own_stack(void)
{
	ucontext_t inside;

	stack = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	CHECK(stack != MAP_FAILED);
	CHECK_EQ(mprotect(stack + STACK, PAGE, PROT_NONE), 0);
	CHECK_EQ(getcontext(&inside), 0);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = STACK;
	inside.uc_link = &outside;
	makecontext(&inside, on_own_stack, 0);
	CHECK_EQ(swapcontext(&outside, &inside), 0);
	CHECK_EQ(munmap(stack, STACK + PAGE), 0);
}

int main(void)
{
	test_read_only();
	test_own_stack();
	test_peek();
	return 0;
}
