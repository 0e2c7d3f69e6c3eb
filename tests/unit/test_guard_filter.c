/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's filter, run here over system calls as the kernel would hand them to it; and in a
 * process of its own that has put it on.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "guard/filter.h"
#include "tests/check.h"

#define ALLOW SECCOMP_RET_ALLOW
#define ASK   SECCOMP_RET_USER_NOTIF
#define GONE  (SECCOMP_RET_ERRNO | ENOSYS)

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

static struct sock_filter program[GUARD_FILTER_MOST];
static size_t length;

/* As much of the machine as a filter without arithmetic needs; what else there is fails. */
static uint32_t run(const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t at = 0; at < length; at++) {
		const struct sock_filter *i = &program[at];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			CHECK(i->k % 4 == 0 && i->k + 4 <= sizeof(*data));
			memcpy(&a, (const char *)data + i->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			at += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			CHECK(false);
		}
	}
	CHECK(false);
	return 0;
}

static uint32_t answer(uint32_t arch, int nr, uint64_t request)
{
	struct seccomp_data data = {.arch = arch, .nr = nr, .args = {3, request, 4096}};

	return run(&data);
}

static uint32_t of_ioctl(uint64_t request)
{
	return answer(NATIVE, SYS_ioctl, request);
}

static void test_lists(void)
{
	CHECK_EQ(of_ioctl(_IOC(0, 'K', KFD_NR_ALLOC_MEMORY_OF_GPU, 40)), ASK);
	CHECK_EQ(of_ioctl(_IOC(0, 'K', KFD_NR_FREE_MEMORY_OF_GPU, 8)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SVM, 24)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SET_XNACK_MODE, 4)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_CRIU_OP, 56)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_DBG_TRAP, 56)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'd', DRM_NR_AMDGPU_GEM_CREATE, 32)), ASK);
	CHECK_EQ(of_ioctl(_IOC(1, 'd', DRM_NR_GEM_CLOSE, 8)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'd', DRM_NR_GEM_CHANGE_HANDLE, 8)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_WAIT_EVENTS, 24)), ALLOW);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_MAP_MEMORY_TO_GPU, 24)), ALLOW);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'd', DRM_NR_AMDGPU_CS, 24)), ALLOW);
}

/* What no row names is refused: it may take memory. Also what only the other driver's list names. */
static void test_unlisted(void)
{
	CHECK_EQ(of_ioctl(_IO('K', 0x27)), ASK); /* CREATE_PROCESS */
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'K', 0x28, 16)), ASK);
	CHECK_EQ(of_ioctl(_IO('K', 0x29)), ASK);
	CHECK_EQ(of_ioctl(_IO('K', DRM_NR_PRIME_HANDLE_TO_FD)), ASK);
	CHECK_EQ(of_ioctl(_IO('K', 0x3f)), ASK);
	CHECK_EQ(of_ioctl(_IO('K', 0x86)), ASK);
	CHECK_EQ(of_ioctl(_IO('K', 0x87)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'd', 0xb2, 32)), ASK); /* CREATE_DUMB */
	CHECK_EQ(of_ioctl(_IO('d', 0x5f)), ASK);
	CHECK_EQ(of_ioctl(_IO('d', 0xff)), ASK);
}

/* A driver that is no newer than the lists refuses those by itself; all but displays' pass at once. */
static void test_known_driver(void)
{
	length = guard_filter_build(true, program);
	CHECK(length <= GUARD_FILTER_MOST);
	CHECK_EQ(of_ioctl(_IO('K', 0x29)), ALLOW);
	CHECK_EQ(of_ioctl(_IO('K', 0x3f)), ALLOW);
	CHECK_EQ(of_ioctl(_IO('K', 0x86)), ALLOW);
	CHECK_EQ(of_ioctl(_IO('d', 0x5f)), ALLOW);
	CHECK_EQ(of_ioctl(_IO('d', 0xff)), ALLOW);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'd', 0xb2, 32)), ASK); /* CREATE_DUMB */
	CHECK_EQ(of_ioctl(_IO('K', 0x27)), ASK);
	test_lists();
	length = guard_filter_build(false, program);
}

/* The drivers look at the number alone, and at the lower half of the request. */
static void test_number_alone(void)
{
	CHECK_EQ(of_ioctl(KFD_NR_ALLOC_MEMORY_OF_GPU), ASK);
	CHECK_EQ(of_ioctl(_IOC(0, 'T', KFD_NR_ALLOC_MEMORY_OF_GPU, 0)), ASK);
	CHECK_EQ(of_ioctl(_IOC(_IOC_READ, 'x', KFD_NR_SVM, 16000) | UINT64_C(7) << 32), ASK);
	for (unsigned int nr = 0; nr < 256; nr++)
		for (uint32_t dir = 0; dir < 4; dir++)
			CHECK_EQ(of_ioctl(_IOC(dir, 'Q', nr, 8)),
				 guard_filter_asks(nr, false) ? ASK : ALLOW);
}

/* What any file answers to by itself, whatever its number would be of a device. */
static void test_any_file(void)
{
	const uint32_t requests[] = {FIOCLEX, FIONCLEX, FIONBIO, FIOASYNC, TCGETS, TIOCGWINSZ,
				     FIONREAD};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		CHECK_EQ(of_ioctl(requests[i]), ALLOW);
		CHECK_EQ(of_ioctl(requests[i] | UINT64_C(1) << 32), ALLOW);
	}
	CHECK(guard_filter_asks(_IOC_NR(FIONBIO), false));
}

static void test_other_calls(void)
{
	const uint64_t request = _IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_ALLOC_MEMORY_OF_GPU, 40);

	for (int nr = 0; nr < 1024; nr++)
		CHECK_EQ(answer(NATIVE, nr, request), nr == SYS_ioctl ? ASK : ALLOW);
}

/* Another numbering would go past it: nothing of it is let through. */
static void test_foreign_calls(void)
{
	const uint32_t foreign[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0,
				    NATIVE == AUDIT_ARCH_X86_64 ? AUDIT_ARCH_AARCH64
								: AUDIT_ARCH_X86_64};

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		for (int nr = 0; nr < 600; nr++)
			CHECK_EQ(answer(foreign[i], nr, 0), GONE);
#ifdef __x86_64__
	for (int nr = 0; nr < 600; nr++) /* x32 */
		CHECK_EQ(answer(NATIVE, 0x40000000 | nr, 0), GONE);
#endif
}

/* The kernel takes it, once; without a supervisor what is asked about fails, and the rest works. */
static void child(void)
{
	int pair[2], on = 1, listener = guard_filter_install(false);

	if (listener == -EPERM || listener == -EINVAL || listener == -ENOSYS)
		_exit(77);
	CHECK(listener >= 0);
	CHECK_EQ(guard_filter_install(false), -EBUSY);
	close(listener);
	CHECK_EQ(pipe(pair), 0);
	CHECK_EQ(ioctl(pair[0], FIONBIO, &on), 0);
	CHECK_EQ(ioctl(pair[0], _IO('K', KFD_NR_GET_VERSION), NULL), -1);
	CHECK_EQ(errno, ENOTTY);
	CHECK_EQ(ioctl(pair[0], _IO('K', KFD_NR_ALLOC_MEMORY_OF_GPU), NULL), -1);
	CHECK_EQ(errno, ENOSYS);
	_exit(0);
}

static void test_kernel(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (!pid)
		child();
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		SKIP("this kernel, or a container, makes no seccomp filters");
	CHECK_EQ(WEXITSTATUS(status), 0);
}

int main(void)
{
	length = guard_filter_build(false, program);
	CHECK(length <= GUARD_FILTER_MOST);
	test_lists();
	test_unlisted();
	test_known_driver();
	test_number_alone();
	test_any_file();
	test_other_calls();
	test_foreign_calls();
	test_kernel();
	return 0;
}
