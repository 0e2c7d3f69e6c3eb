/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A dump of /dev/kfd of all processes of the tree, for a restore: the GPUs, the processes, their
 * buffers, and which of these are one. It is the file allot-kfd among CRIU's images. Content is
 * beside it, in a file of src/image's objects for each process that made buffers: each is stored
 * once, in the file of its owner.
 *
 * The file is tables (image/tables.h), version 1.
 */
#ifndef ALLOT_CRIU_KFD_KFD_IMAGE_H
#define ALLOT_CRIU_KFD_KFD_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "criu/kfd/match.h"
#include "image/damage.h"
#include "image/object.h"

#define KFD_IMAGE_FILE	    "allot-kfd"
#define KFD_IMAGE_OBJECTS   "allot-kfd-objects.%u" /* by the owner's number */
#define KFD_IMAGE_MAX_BYTES (64u << 20)
#define KFD_IMAGE_NONE	    UINT32_MAX
#define KFD_IMAGE_INDEX_MAX (1u << 20) /* of a handle; kfd_plan.h says which can be restored */

struct kfd_image_process {
	uint32_t pid;
	uint32_t file; /* CRIU's id of its /dev/kfd */
	uint32_t nobjects;
	uint32_t ndevices; /* names[] of this process, */
	uint32_t first_device;
	uint32_t nholders; /* and holders[], in the kernel's order */
	uint32_t first_holder;
	uint32_t priv_bytes; /* the kernel's private data, in bytes[] */
	uint64_t priv_at;
};

/* How a process calls a GPU. */
struct kfd_image_name {
	uint32_t gpu_id, gpu;
	uint32_t file; /* CRIU's id of the render node's file that has the addresses; 0: not known */
};

/* Memory with content, of any holder. */
struct kfd_image_buffer {
	uint64_t bytes;
	uint32_t owner; /* the holder that makes it; KFD_IMAGE_NONE: a render node */
	uint32_t gpu;
};

/* A buffer object of a process: memory with content or without. */
struct kfd_image_holder {
	uint64_t address, bytes;
	uint64_t offset; /* where the CPU mapped it, of the render node or of /dev/kfd */
	uint64_t mapped; /* a bit for each GPU */
	uint32_t process;
	uint32_t buffer; /* KFD_IMAGE_NONE */
	uint32_t gpu_id; /* the process's name */
	uint32_t index;	 /* lower half of its handle */
	uint32_t flags;	 /* as ALLOC_MEMORY_OF_GPU takes them */
	uint32_t zero;
};

enum kfd_image_list {
	KFD_IMAGE_GPUS,
	KFD_IMAGE_LINKS,
	KFD_IMAGE_PROCESSES,
	KFD_IMAGE_NAMES,
	KFD_IMAGE_BUFFERS,
	KFD_IMAGE_HOLDERS,
	KFD_IMAGE_BYTES,
	KFD_IMAGE_LISTS,
};

/* Lists are malloc'ed, and NULL where they are empty. */
struct kfd_image {
	uint8_t id[16]; /* content has the same */
	uint32_t n[KFD_IMAGE_LISTS];
	union {
		void *list[KFD_IMAGE_LISTS];
		struct {
			struct match_gpu *gpus;
			struct match_link *links;
			struct kfd_image_process *processes;
			struct kfd_image_name *names;
			struct kfd_image_buffer *buffers;
			struct kfd_image_holder *holders;
			char *bytes;
		};
	};
};

void kfd_image_done(struct kfd_image *image); /* takes a zeroed one */

/* Appends `n` records of that list. The first one's number, or -ENOMEM. */
int64_t kfd_image_add(struct kfd_image *image, enum kfd_image_list list, const void *records,
		      uint32_t n);

struct object_limits kfd_image_limits(const struct kfd_image *image);

/* The number of the GPU that the process calls so; -1: none. */
int kfd_image_gpu(const struct kfd_image *image, const struct kfd_image_process *process,
		  uint32_t gpu_id);

/* True if other holders of /dev/kfd have it, too. */
bool kfd_image_is_shared(const struct kfd_image *image, uint32_t buffer);

/* Is it the process that makes the buffer? */
bool kfd_image_owns(const struct kfd_image *image, uint32_t process, uint32_t buffer);

/*
 * How many times as many addresses as memory it has: a ring of this kind has twice as many, and the
 * kernel says how much memory that is, and asks for how many addresses.
 */
uint32_t kfd_image_times(const struct kfd_image_holder *holder);

/*
 * Packs it into a file, malloc'ed. -EINVAL for an image that kfd_image_unpack would refuse, -EFBIG,
 * -ENOMEM.
 */
int kfd_image_pack(const struct kfd_image *image, void **ret, size_t *ret_len);

/*
 * Unpacks a file, and checks every number in it. -EBADMSG for a damaged or senseless one, -ENODATA
 * for one that ends too early, -EPROTONOSUPPORT for another version, -ENOMEM; `damage` says why.
 */
int kfd_image_unpack(const void *file, size_t len, struct kfd_image *ret, struct damage *damage);

#endif
