/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test programs have in common whose ioctl() stands between the library of peer memory and the
 * emulated KFD: the way on, and what is to be as before once all is closed.
 */
#ifndef ALLOT_TESTS_SIM_PEER_DRIVER_H
#define ALLOT_TESTS_SIM_PEER_DRIVER_H

#include <dlfcn.h>
#include <errno.h>
#include <sys/ioctl.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "tests/files.h"
#include "tests/sim/peer_program.h"

static int kfd = -EBADF; /* the library's, once that has used it */

static inline int real_ioctl(int fd, unsigned long request, void *block)
{
	static int (*real)(int, unsigned long, ...);

	if (!real)
		real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	return real(fd, request, block);
}

static inline uint64_t available_bytes(uint32_t gpu_id)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = gpu_id};

	CHECK_EQ(real_ioctl(kfd, _IOWR('K', KFD_NR_AVAILABLE_MEMORY, a), &a), 0);
	return a.available;
}

#endif
