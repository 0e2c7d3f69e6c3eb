/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers by the handles of render nodes. All under the lock of the machine. */
#ifndef ALLOT_SIM_KFD_GEM_H
#define ALLOT_SIM_KFD_GEM_H

#include <stddef.h>
#include <stdint.h>

#include "sim/kfd/bank.h"
#include "sim/kfd/emu.h"

/* A handle of an open file, with the memory that it is of, which the handle alone holds. */
struct emu_buffer {
	uint64_t file; /* which description it is of, */
	int minor;     /* of which node */
	uint32_t handle;
	bool imported; /* from another GPU: an import from its own is the object itself */
	struct bank_piece piece;
};

/* buffers.c. A device file has been opened; which description it is. */
void emu_gem_opened(struct emu_machine *machine, int fd);
uint64_t emu_file_of(int fd);

/* The one of that handle; false: there is none. */
bool emu_buffer(const struct emu_machine *machine, uint64_t file, uint32_t handle,
		struct emu_buffer *ret);

/* The n-th of a file, and whether there are so many. */
bool emu_buffer_nth(const struct emu_machine *machine, uint64_t file, uint32_t n,
		    struct emu_buffer *ret);

/* Whether a file has a handle of that memory, and so may map it: which; 0: it has none. */
uint32_t emu_buffer_of(const struct emu_machine *machine, uint64_t file, uint64_t key);

/* A file that this process opened or was given has a handle of that memory. */
bool emu_buffer_here(const struct emu_machine *machine, uint64_t key, struct emu_buffer *ret);

/* Takes over the piece, and answers the handle; or -ENOMEM. */
int emu_buffer_add(struct emu_machine *machine, struct emu_buffer *buffer);
void emu_buffer_close(struct emu_machine *machine, const struct emu_buffer *buffer);

/* This process uses a file: it opened it, or was given a descriptor. */
void emu_file_met(uint64_t file);
void emu_files_forget(void); /* all of it, in a forked child */

/* An ioctl of the render node that `fd` is a descriptor of; the block goes in and out. */
typedef int emu_drm_fn(struct emu_machine *machine, struct emu_gpu *gpu, int fd, void *block);

emu_drm_fn emu_gem_create, emu_gem_mmap, emu_gem_close, emu_prime_to_fd, emu_prime_to_handle;
emu_drm_fn emu_gem_op, emu_gem_metadata, emu_gem_list, emu_gem_change_handle; /* gem_info.c */
emu_drm_fn emu_gem_va;					    /* gem_va.c */
emu_drm_fn emu_cs;					    /* copies.c */
emu_drm_fn emu_ctx, emu_wait_cs;			    /* contexts.c */

/* Work is submitted to a ring of a context: its number there, from 1 on; -EINVAL. */
int64_t emu_context_submit(uint64_t file, uint32_t id, uint32_t ip, uint32_t ring);
void emu_contexts_forget(void); /* all of it, in a forked child */

/* What a program noted of memory; nothing (all zero) if none did. -errno. */
struct drm_amdgpu_gem_metadata;
int emu_metadata(const struct emu_machine *machine, const struct bank_piece *piece,
		 struct drm_amdgpu_gem_metadata *ret);

/* A buffer is closed: it is mapped nowhere any more. */
void emu_gem_unmap_all(struct emu_machine *machine, const struct emu_buffer *buffer);

/* gem_va.c: those for which `gone` says so are mapped no more. */
void emu_gem_unmap_if(struct emu_machine *machine,
		      bool (*gone)(const struct emu_machine *machine, uint64_t file, uint64_t key));

/* Where a buffer is mapped, at most `room`; how often it is. */
struct drm_amdgpu_gem_vm_entry;
uint32_t emu_gem_mappings(const struct emu_buffer *buffer, uint32_t room,
			  struct drm_amdgpu_gem_vm_entry *ret);

/* Where a buffer is mapped: of the render node. */
uint64_t emu_gem_offset(const struct emu_buffer *buffer);

/* Unmaps buffers that are closed by now, by another process or with the last descriptor of their file. */
void emu_gem_reap(struct emu_machine *machine);

/*
 * A descriptor of the memory at this offset of a render node, the caller's to close; -EINVAL, or
 * -EACCES where `fd` is not of the open file whose memory it is.
 */
int emu_gem_at(const struct emu_machine *machine, int fd, uint64_t mmap_offset, size_t len);

/* What is mapped at an address of that file's, for at most *bytes. -EFAULT: nothing, or not to be written. */
int emu_gem_va_reach(uint64_t file, uint64_t at, bool write, uint32_t *ret_handle, char **ret,
		     uint64_t *bytes);

void emu_gem_va_forget(void); /* all of it, in a forked child */

#endif
