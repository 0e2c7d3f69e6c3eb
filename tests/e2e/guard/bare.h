/* SPDX-License-Identifier: Apache-2.0 */
/* ioctl as a bare system call, past every library; and emulated devices by their real paths. */
#ifndef ALLOT_TESTS_E2E_GUARD_BARE_H
#define ALLOT_TESTS_E2E_GUARD_BARE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"

/* 0 or more, or -errno. */
static inline long bare_ioctl(long fd, unsigned long request, void *arg)
{
#if defined(__x86_64__)
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"((long)SYS_ioctl), "D"(fd), "S"(request), "d"(arg)
			 : "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_ioctl, x0 __asm__("x0") = fd;
	register unsigned long x1 __asm__("x1") = request;
	register void *x2 __asm__("x2") = arg;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
#error "how are system calls made on this processor?"
#endif
}

/* "kfd", "dri/renderD129": a descriptor, or -1. */
static inline int open_device(const char *name)
{
	const char *dir = getenv("ALLOT_SIM_DIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s/amd/dev/%s", dir ? dir : "", name);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* SVM: memory of the program's own is fetched to a GPU. */
static inline long bare_fetch(int kfd, uint32_t gpu_id, uint64_t bytes)
{
	const struct kfd_ioctl_svm_args args = {.start_addr = 1 << 30,
						.size = bytes,
						.op = KFD_IOCTL_SVM_OP_SET_ATTR,
						.nattr = 1};
	const struct kfd_ioctl_svm_attribute attr = {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu_id};
	_Alignas(8) char block[sizeof(args) + sizeof(attr)];

	memcpy(block, &args, sizeof(args));
	memcpy(block + sizeof(args), &attr, sizeof(attr));
	return bare_ioctl(kfd, _IOWR('K', KFD_NR_SVM, block), block);
}

#endif
