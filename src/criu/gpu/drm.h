/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Render nodes of amdgpu, one ioctl a function. All answer 0 or -errno. */
#ifndef ALLOT_CRIU_DRM_H
#define ALLOT_CRIU_DRM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "amd/abi/drm.h"

#define DRM_MAJOR	 226
#define DRM_RENDER_FIRST 128 /* minors of render nodes */

/* Is it a render node, by its numbers; and is it amdgpu's? */
bool drm_is_render(const struct stat *st);
bool drm_is_amdgpu(int fd);

int drm_open(uint32_t minor); /* a descriptor or -errno */
int drm_create(int fd, uint64_t bytes, uint64_t alignment, uint64_t domains, uint64_t flags,
	       uint32_t *ret_handle);
int drm_close_handle(int fd, uint32_t handle);
int drm_change_handle(int fd, uint32_t from, uint32_t to);

/* How it was created: -ENOENT for a number that is no handle. */
int drm_create_info(int fd, uint32_t handle, struct drm_amdgpu_gem_create_in *ret);

/* The offset at which mmap of the file finds it; -EPERM if the CPU has no access to it. */
int drm_mmap_offset(int fd, uint32_t handle, uint64_t *ret);

/* A dma-buf, O_RDWR or O_RDONLY, or -errno; the first to export it has decided which. */
int drm_export(int fd, uint32_t handle, uint32_t access);
int drm_import(int fd, int dmabuf, uint32_t *ret_handle);

int drm_place(int fd, uint32_t handle, uint64_t domains);
/* The address as the kernel keeps it, of 48 bits: it takes those of the upper half with their sign. */
int drm_va(int fd, uint32_t operation, uint32_t handle, uint32_t flags, uint64_t address,
	   uint64_t offset, uint64_t bytes);

/* The addresses that drm_va takes: of two ranges, of which the second may be empty. */
int drm_va_ranges(int fd, uint64_t ret[2][2]);

/* Its generation, by AMD's numbers; its memory, and the part of it that the CPU reaches. */
int drm_family(int fd, uint32_t *ret);
int drm_memory(int fd, uint64_t *ret_bytes, uint64_t *ret_visible_bytes);

/*
 * Submits packets to the copy engine: `bytes` bytes at an address of the GPU, which lie in these
 * buffers. drm_wait_copies: -ETIME if they are not done within `patience_ns`.
 */
int drm_make_context(int fd, uint32_t *ret);
int drm_free_context(int fd, uint32_t context);
int drm_submit_copies(int fd, uint32_t context, const uint32_t *handles, uint32_t nhandles,
		      uint64_t address, uint32_t bytes, uint64_t *ret_fence);
int drm_wait_copies(int fd, uint32_t context, uint64_t fence, uint64_t patience_ns);

/*
 * AMDGPU_CTX_QUERY2_FLAGS_*; -EINVAL for a number that is no context. It leaves the context as it is;
 * QUERY_STATE would take the news of a reset away from the process.
 */
int drm_context_state(int fd, uint32_t context, uint32_t *ret_flags);
/*
 * The level at which the GPU's clocks are held, whoever holds them; 0: nobody does. To ask for the level
 * that they have changes nothing: -EBUSY if another context holds them.
 */
uint32_t drm_clocks(int fd, uint32_t context);
int drm_set_clocks(int fd, uint32_t context, uint32_t level);
bool drm_has_rings(int fd, uint32_t ip);
bool drm_has_submitted(int fd, uint32_t context, uint32_t ip, uint32_t ring);

/* -ENOENT for a number that is none; another error where the driver has none. */
int drm_query_syncobj(int fd, uint32_t id);

/* A buffer's metadata, from or into a block that has its handle. */
int drm_metadata(int fd, uint32_t operation, struct drm_amdgpu_gem_metadata *block);

/*
 * All handles of the file, or all mappings of one, malloc'ed. -EINVAL where the kernel cannot say
 * (before 6.18).
 */
int drm_list_handles(int fd, struct drm_amdgpu_gem_list_handles_entry **ret, uint32_t *ret_n);
int drm_list_mappings(int fd, uint32_t handle, struct drm_amdgpu_gem_vm_entry **ret,
		      uint32_t *ret_n);

#endif
