/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ioctl for one of AMD's devices on its way: hook_ioctl.c copies the caller's block, once, hands
 * the call to the family that its decision in amd/kfd_ioctl.def or amd/drm_ioctl.def names, and
 * copies back what has changed. The kernel is given our copy: the caller's may change meanwhile.
 */
#ifndef ALLOT_GUEST_AMD_CALL_H
#define ALLOT_GUEST_AMD_CALL_H

#include <stddef.h>

#include "amd/kfd_ioctl.h"
#include "guest/amd/amd.h"

/* The most that a request's size can say. */
#define AMD_BLOCK_BYTES (1 << 14)

struct amd_call {
	struct guest *guest;
	struct amd *amd;
	int fd;
	unsigned long request;
	struct amd_device *device; /* of a DRM node; NULL: it is for /dev/kfd */
	size_t bytes;		   /* of the block: as the request says */
	void *block;		   /* ours, aligned for any; zero beyond `bytes` for 128 more */
};

/* Asks the kernel, with the block as it is now. Returns its answer, or -errno. */
int amd_call_kernel(struct amd_call *call);

/* As long as the kernel's block: a field of it that the caller's version has. */
#define AMD_CALL_HAS(call, args, field)                                                            \
	((call)->bytes >= offsetof(struct args, field) + sizeof(((struct args *)0)->field))

/*
 * The families, by decision (amd/kfd_decision.def), and those of memory/memory.h and queue/queue.h.
 * Each asks the kernel itself, or does not, and answers what the program is to get: 0 or more, or
 * -errno (never -EAGAIN or -EINTR of its own).
 */
int amd_device_call(struct amd_call *call); /* DEVICE, KEEP */
int amd_view_call(struct amd_call *call);   /* VIEW */

#endif
