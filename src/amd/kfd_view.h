/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers' answers about the size of a GPU's memory, rewritten so that a program sees its
 * tenant's part. The total is the limit, or the device's if that is less. Used is what the tenant
 * holds. Both agree wherever a program asks. Pure: text in, text out, or a block changed in place.
 * All that is not a size stays byte for byte.
 *
 * Host memory that GPUs reach (GTT) is shown as it is. So is the number of compute units, because
 * masks are written in terms of the device's own.
 *
 * Text functions write at most `room` bytes to `ret`, without a zero byte at the end; text and
 * `ret` do not overlap. They answer 0 or
 *
 *	-EINVAL		it is not as the kernel writes it
 *	-ERANGE		a number is out of range
 *	-ENODATA	the file is torn, or has not got the size
 *	-ENOSPC		too little room
 *
 * After an error neither `ret` nor the text that the caller had may be shown.
 */
#ifndef ALLOT_AMD_KFD_VIEW_H
#define ALLOT_AMD_KFD_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"

/* Of one GPU. */
struct kfd_view {
	uint64_t limit_bytes;	/* never below used_bytes; UINT64_MAX: none */
	uint64_t used_bytes;	/* by the tenant */
	uint64_t device_bytes;	/* what there is; UINT64_MAX: not known */
	uint64_t visible_bytes; /* of these, what the CPU reaches; UINT64_MAX: not known */
};

/* Room that is always enough for a text of `len` bytes. */
#define KFD_VIEW_ROOM(len) ((len) + 24)

/*
 * nodes/<n>/mem_banks/<m>/properties of a GPU. Where its memory is in several banks, the first ones
 * are filled up first: `before_bytes` is the real size of the GPU's banks of device memory before
 * this one.
 */
int kfd_view_bank(const struct kfd_view *view, const char *text, size_t len, uint64_t before_bytes,
		  char *ret, size_t room, size_t *ret_len);

/* nodes/<n>/properties of a GPU. */
int kfd_view_node(const struct kfd_view *view, const char *text, size_t len, char *ret, size_t room,
		  size_t *ret_len);

/*
 * A file in the device's folder by its name, mem_info_vram_total, ..., or used_memory in a bank's,
 * which AMD's own driver has; -ENOENT for any other.
 */
int kfd_view_mem_info(const struct kfd_view *view, const char *file, const char *text, size_t len,
		      char *ret, size_t room, size_t *ret_len);

/* The kernel's answer to AVAILABLE_MEMORY. */
void kfd_view_available(const struct kfd_view *view,
			struct kfd_ioctl_get_available_memory_args *args);

/* ... to GET_VERSION: at most the version for which kfd_ioctl.def is complete. */
void kfd_view_version(struct kfd_ioctl_get_version_args *args);

/*
 * ... to amdgpu's INFO: `answer` has `bytes` of it. Queries that tell no size are left alone, but
 * those that would announce queues of the program's own, which are refused (USERQ).
 *
 * A program that asks for less than a whole answer gets the beginning of it. Ask the kernel for all
 * of it then, and hand on the beginning: a number that is cut off is changed as a whole number
 * would be, and then says nothing.
 */
void kfd_view_info(const struct kfd_view *view, uint32_t query, void *answer, size_t bytes);

#endif
