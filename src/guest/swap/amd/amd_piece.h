/* SPDX-License-Identifier: Apache-2.0 */
/* A piece of an AMD GPU's memory that can leave, and what is noted of all of a process's. */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_PIECE_H
#define ALLOT_GUEST_SWAP_AMD_AMD_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/amd/amd.h"

struct drm_amdgpu_gem_metadata;
struct drm_amdgpu_gem_vm_entry;

struct amd_piece {
	uint64_t key; /* in the table of objects */
	uint64_t handle;
	uint64_t va, size;
	uint64_t bytes;	 /* from `va` on */
	uint64_t offset; /* for mmap */
	uint64_t mapped; /* GPUs that are to map it, a bit each by their place in struct amd, */
	uint64_t now;	 /* and that do */
	uint64_t host;	 /* where its content is in host memory */
	uint32_t flags;
	int device;
	bool away;
	uint64_t borrowed; /* of another process: by which name, amd/memory/lent.h; 0: our own */

	int file; /* of a render node, in the list of files; -1: of /dev/kfd, and the rest is 0 */
	uint64_t alignment, domains, domain_flags;
	uint64_t first_map; /* of the file's address space, in the list of these */
	uint32_t nmaps;
	uint64_t reach; /* a handle of /dev/kfd during a copy */
};

/* What of it is copied, and charged to us. */
static inline uint64_t amd_piece_content(const struct amd_piece *piece)
{
	return piece->borrowed ? 0 : piece->bytes;
}

#define AMD_PIECES_FILES 64

struct amd_node {
	uint64_t key; /* as of files.h */
	int fd;
};

/* A handle that keeps its number from others. */
struct amd_filler {
	uint64_t handle;
	int file; /* as of a piece */
};

struct amd_pieces {
	struct amd_piece *at;
	uint64_t n, room;
	uint64_t bytes;	  /* of all content */
	struct amd_filler *filler;
	uint64_t nfillers, filler_room;
	struct amd_node file[AMD_PIECES_FILES];
	int nfiles;
	struct drm_amdgpu_gem_vm_entry *maps;
	uint64_t nmaps, maps_room;
	struct drm_amdgpu_gem_metadata *metadata; /* by place; zero where nothing was noted */
};

/*
 * Maps or unmaps a handle of /dev/kfd on these GPUs, one after the other; `now` has a bit for each
 * that maps it. 0 or -errno.
 */
int amd_piece_reach(int kfd, const struct amd *amd, uint64_t handle, uint64_t gpus, bool map,
		    uint64_t *now);

#endif
