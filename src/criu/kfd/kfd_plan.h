/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The request to the kernel when a process is restored: its own buffers as they were, and small
 * ones, without content, that keep handles. Buffers of the image that others made come later
 * (kfd_restore.h).
 */
#ifndef ALLOT_CRIU_KFD_KFD_PLAN_H
#define ALLOT_CRIU_KFD_KFD_PLAN_H

#include <stdbool.h>

#include "amd/abi/kfd_criu.h"
#include "criu/kfd/kfd_image.h"

/* A small buffer at a handle that was free; it goes when all imports have come. */
struct kfd_filler {
	uint32_t gpu_id, index;
};

/* The argument of RESTORE, but for its devices; buffers are the process's holders, then fillers. */
struct kfd_plan {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_bo_bucket *bos;
	char *priv;
	struct kfd_filler *fillers;
	uint32_t nfillers;
};

/* Is the process's i-th holder one that the process makes itself? */
bool kfd_plan_is_own(const struct kfd_image *image, const struct kfd_image_process *process,
		     uint32_t i);

/*
 * The most gaps that are filled: each takes a page of memory, and room in the request to the
 * kernel. 65536 take 256 MiB during a restore (as in handles.h for render nodes).
 */
#define KFD_PLAN_FILLERS 65536
#define KFD_PLAN_SPARSE                                                                            \
	": memory that it has from others has handles so high that more than 65536 below them would " \
	"have to be filled"

/* 0, -ENOMEM, or -EFBIG: the process's imports have handles so high that more would be to be filled. */
int kfd_plan_make(const struct kfd_image *image, uint32_t process, struct kfd_plan *ret);

void kfd_plan_close_files(struct kfd_plan *plan); /* what the kernel answered; takes a zeroed one */
void kfd_plan_done(struct kfd_plan *plan);	  /* the rest */

#endif
