/* SPDX-License-Identifier: Apache-2.0 */
/* ioctl as a bare system call, past every library; and emulated devices by their real paths. */
#ifndef ALLOT_TESTS_E2E_GUARD_BARE_H
#define ALLOT_TESTS_E2E_GUARD_BARE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

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

#endif
