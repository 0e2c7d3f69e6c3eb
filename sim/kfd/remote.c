/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that make system calls without libc do not meet the emulator. One that is under a
 * seccomp filter with a listener does, by way of the process that has the listener, if that one has
 * the emulator: where it says that the kernel is to go on with an ioctl of one of the tree's device
 * files, the emulator does what the kernel would do, and says what came of it.
 *
 * This process holds the memory that such a process takes, and frees it when it notices that the
 * other one is gone. There are no address spaces for it and no mappings: memory is taken and given
 * back, which is what the guard's listener asks about. The kernel answers the other ioctls of such
 * a process, for a file that is no device.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/target.h"
#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/memory.h"

#define QUESTIONS 64 /* that may be without an answer at once */
#define CUSTOMERS 256

#define BLOCK_BYTES sizeof(struct kfd_ioctl_alloc_memory_of_gpu_args)

struct customer {
	pid_t pid; /* 0: free */
	int pidfd;
	struct emu_machine machine;
};

static struct {
	pthread_mutex_t mutex;
	struct seccomp_notif asked[QUESTIONS];
	unsigned int next;
	struct customer customers[CUSTOMERS];
	uint32_t ncustomers; /* ever used */
} remote = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool remote_has_ended(const struct customer *c)
{
	struct pollfd ended = {.fd = c->pidfd, .events = POLLIN};

	return poll(&ended, 1, 0) > 0;
}

static void remote_release(struct customer *c)
{
	for (uint32_t g = 0; g < c->machine.ngpus; g++)
		for (uint32_t i = 0; i < c->machine.gpu[g].nobjects; i++)
			bank_drop(c->machine.bank, &c->machine.gpu[g].objects[i].piece);
	emu_memory_forget(&c->machine);
	bank_close(c->machine.bank);
	close(c->pidfd);
	*c = (struct customer){.pid = 0};
}

static void remote_reap(void)
{
	for (uint32_t i = 0; i < remote.ncustomers; i++)
		if (remote.customers[i].pid && remote_has_ended(&remote.customers[i]))
			remote_release(&remote.customers[i]);
}

void emu_remote_reap(void)
{
	if (!__atomic_load_n(&remote.ncustomers, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&remote.mutex);
	remote_reap();
	pthread_mutex_unlock(&remote.mutex);
}

/* All of them share one snapshot of what there is. */
static int remote_begin(struct customer *c, pid_t pid)
{
	static struct emu_machine machine;
	struct customer new = {.pid = pid};
	int r = machine.topology ? 0 : emu_read_machine(&machine);

	if (r < 0)
		return r;
	new.machine = machine;
	for (uint32_t i = 0; i < machine.ngpus; i++)
		new.machine.gpu[i].acquired = true; /* nobody is told whether it was */
	new.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (new.pidfd < 0)
		return -errno;
	r = bank_open_for(emu_root(), pid, &new.machine.bank);
	if (r < 0) {
		close(new.pidfd);
		return r;
	}
	emu_sysfs_enter(&new.machine, pid);
	*c = new;
	return 0;
}

static int remote_find_customer(pid_t pid, struct customer **ret)
{
	uint32_t at = remote.ncustomers;
	int r;

	remote_reap();
	for (uint32_t i = 0; i < remote.ncustomers; i++) {
		if (remote.customers[i].pid == pid) {
			*ret = &remote.customers[i];
			return 0;
		}
		if (!remote.customers[i].pid)
			at = i;
	}
	if (at == CUSTOMERS)
		return -ENOMEM;
	r = remote_begin(&remote.customers[at], pid);
	if (r < 0)
		return r;
	if (at == remote.ncustomers)
		__atomic_store_n(&remote.ncustomers, at + 1, __ATOMIC_RELEASE);
	*ret = &remote.customers[at];
	return 0;
}

static int remote_copy_out(pid_t thread, uint64_t to, const void *from, size_t len)
{
	struct iovec here = {(void *)from, len}, there = {(void *)(uintptr_t)to, len};

	return process_vm_writev(thread, &here, 1, &there, 1, 0) == (ssize_t)len ? 0 : -EFAULT;
}

/* As in the kernel a block is copied as far as the caller knows it, and reads zero beyond. */
static int remote_execute(const struct seccomp_notif *asked)
{
	uint32_t request = (uint32_t)asked->data.args[1];
	_Alignas(8) char block[BLOCK_BYTES] = {0};
	size_t bytes = _IOC_SIZE(request) < BLOCK_BYTES ? _IOC_SIZE(request) : BLOCK_BYTES;
	struct customer *c = NULL;
	pid_t pid;
	int r = target_process((pid_t)asked->pid, &pid);

	if (r == 0)
		r = target_copy((pid_t)asked->pid, asked->data.args[2], block, bytes);
	if (r == 0)
		r = remote_find_customer(pid, &c);
	if (r < 0)
		return r;
	if (_IOC_NR(request) == KFD_NR_FREE_MEMORY_OF_GPU)
		return emu_free(&c->machine, block);
	r = emu_alloc(&c->machine, block);
	if (remote_copy_out((pid_t)asked->pid, asked->data.args[2], block, bytes) < 0)
		return -EFAULT;
	return r;
}

static bool remote_is_ours(const struct seccomp_notif *asked)
{
	unsigned int nr = _IOC_NR(asked->data.args[1]);
	dev_t device;

	return asked->data.nr == SYS_ioctl &&
	       (nr == KFD_NR_ALLOC_MEMORY_OF_GPU || nr == KFD_NR_FREE_MEMORY_OF_GPU) &&
	       target_device((pid_t)asked->pid, (int)asked->data.args[0], &device) == 0 &&
	       device == makedev(EMU_MAJOR_KFD, 0);
}

/*
 * The listener may answer that the kernel is to go on with an ioctl of ours. There is no such
 * kernel, so the emulator executes the ioctl and its result is the answer.
 */
static void remote_replace(struct seccomp_notif_resp *answer)
{
	for (unsigned int i = 0; i < QUESTIONS; i++) {
		struct seccomp_notif *asked = &remote.asked[i];

		if (asked->id != answer->id)
			continue;
		if (answer->flags & SECCOMP_USER_NOTIF_FLAG_CONTINUE && remote_is_ours(asked))
			*answer = (struct seccomp_notif_resp){.id = answer->id,
							      .error = remote_execute(asked)};
		*asked = (struct seccomp_notif){.id = 0};
		return;
	}
}

int emu_remote_ioctl(int fd, unsigned long request, void *arg)
{
	struct seccomp_notif_resp answer;
	int r;

	if (!*emu_root() || (request != SECCOMP_IOCTL_NOTIF_RECV &&
			     request != SECCOMP_IOCTL_NOTIF_SEND))
		return (int)syscall(SYS_ioctl, fd, request, arg);
	if (request == SECCOMP_IOCTL_NOTIF_RECV) {
		r = (int)syscall(SYS_ioctl, fd, request, arg);
		pthread_mutex_lock(&remote.mutex);
		if (r == 0)
			remote.asked[remote.next++ % QUESTIONS] = *(struct seccomp_notif *)arg;
		pthread_mutex_unlock(&remote.mutex);
		return r;
	}
	answer = *(struct seccomp_notif_resp *)arg;
	pthread_mutex_lock(&remote.mutex);
	remote_replace(&answer);
	pthread_mutex_unlock(&remote.mutex);
	return (int)syscall(SYS_ioctl, fd, request, &answer);
}
