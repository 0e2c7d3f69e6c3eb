/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that an ioctl demands. Pure: from the request and the caller's block to the bytes to
 * reserve or give back, or a refusal. It grants nothing by itself, and no block, however wild,
 * makes it read past its end.
 *
 * The block is the caller's, copied once: judge the copy that the kernel is given, or another
 * thread changes it in between. As in the kernel, it has the length that the request says, and
 * zeros beyond the copied part.
 *
 * A refusal is never EAGAIN or EINTR: ROCm's library repeats such a call forever. Above the limit
 * it is ENOMEM; for a malformed call, the kernel's own errno.
 *
 * Not seen here: page tables, which the kernel puts in device memory for all mappings; memory of
 * SVM ranges that ends with munmap.
 */
#ifndef ALLOT_AMD_DEMAND_H
#define ALLOT_AMD_DEMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum demand_act {
	DEMAND_NOTHING, /* memory neither comes nor goes */
	DEMAND_TAKE,	/* reserve the parts, ask the kernel, then commit or take them back */
	DEMAND_GIVE,	/* after the kernel's call, the charge of `object` is free */
	DEMAND_IMPORT,	/* charged to its owner, not to the importer, whatever its size */
	DEMAND_PLACE,	/* an object that is there may go where the parts say: reserve its size there */
	DEMAND_REFUSE,	/* with `error`, without asking the kernel */
};

enum demand_memory {
	DEMAND_VRAM,
	DEMAND_GTT,	/* the machine's, that the driver allocates */
	DEMAND_USERPTR, /* pages of the program's own, pinned for a GPU */
};

struct demand_part {
	uint32_t gpu_id;
	enum demand_memory memory;
	uint64_t bytes; /* whole pages; at most DEMAND_MOST_BYTES */
};

/* No GPU has more, and sums of a few such do not wrap around. A call for more is refused. */
#define DEMAND_MOST_BYTES (UINT64_C(1) << 60)
#define DEMAND_PARTS	  2

struct demand {
	enum demand_act act;
	int error;	/* REFUSE: a negative errno */
	uint32_t count; /* TAKE: of the parts; each is needed. PLACE: no sizes */
	struct demand_part parts[DEMAND_PARTS];
	/*
	 * GIVE and PLACE: a handle of /dev/kfd, or of the render node's file. With `by_address`,
	 * for GIVE and TAKE, an address: the `length` bytes from there are afterwards where the
	 * parts say, or in host memory, and their former charge is free. With `stays` the call only
	 * sets where they are to go, so they are charged at both places.
	 */
	uint64_t object;
	bool by_address;
	bool stays;
	uint64_t length;
	/* IMPORT: the dma-buf; -1: a handle between processes, of AMD's own driver. */
	int32_t descriptor;
};

/*
 * The demand of a request to /dev/kfd. `block` has `copied` bytes of it, at most the request's size
 * (further bytes are ignored); all of them for SVM. `page_bytes`: the system's page, a power of
 * two.
 */
struct demand demand_of_kfd(unsigned long request, const void *block, size_t copied,
			    uint32_t page_bytes);

/*
 * The demand of a request to the render node of `gpu_id`. The block of a request that is not to be
 * read (_IOC_WRITE) is all zero, for DRM too.
 */
struct demand demand_of_drm(unsigned long request, const void *block, size_t copied,
			    uint32_t page_bytes, uint32_t gpu_id);

#endif
