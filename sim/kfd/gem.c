/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers by the handles of render nodes (buffers.c), which are known to the process that made
 * them. They end with it, or with the description that they are of, which is noticed when this
 * process closes a device file or makes an ioctl.
 */
#include "sim/kfd/gem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "sim/kfd/bank.h"
#include "sim/shared.h"

/* Beside those of memory that /dev/kfd gave. */
#define OFFSET	     (UINT64_C(1) << 62)
#define OFFSET_SHIFT 40
#define PAGE	     UINT64_C(4096)

#define FIRST_RENDER 128 /* minors below are of display nodes */

/* Whether anybody has the description that a buffer is of; also where that cannot be told. */
static bool gem_is_open(const struct emu_buffer *b)
{
	char path[PATH_MAX];
	bool open_somewhere;
	int fd;

	snprintf(path, sizeof(path), "%.*s/dev/dri/%s%d", PATH_MAX - 32, emu_root(),
		 b->minor < FIRST_RENDER ? "card" : "renderD", b->minor);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return true;
	open_somewhere = sim_byte_locked(fd, (off_t)b->file);
	syscall(SYS_close, fd);
	return open_somewhere;
}

static void gem_close(struct emu_machine *m, struct emu_buffer *b)
{
	emu_gem_unmap_all(m, b);
	bank_drop(m->bank, &b->piece);
}

/* Buffers of one description mostly stand side by side: it is asked about once for all of them. */
void emu_gem_reap(struct emu_machine *m)
{
	uint64_t asked = 0;
	bool is_open = true;
	uint32_t nbuffers;
	struct emu_buffer *buffers = emu_buffers(&nbuffers);

	for (uint32_t i = 0; i < nbuffers; i++) {
		if (!buffers[i].piece.key)
			continue;
		if (buffers[i].file != asked) {
			asked = buffers[i].file;
			is_open = gem_is_open(&buffers[i]);
		}
		if (!is_open)
			gem_close(m, &buffers[i]);
	}
}

int emu_gem_create(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_gem_create *a = block;
	bool vram = a->in.domains & AMDGPU_GEM_DOMAIN_VRAM;
	bool no_cpu = a->in.domain_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
	struct emu_buffer b = {.file = emu_file_of(fd),
			       .minor = emu_minor_of(fd),
			       .piece = {.alignment = a->in.alignment,
					 .domain_flags = a->in.domain_flags,
					 .size = (a->in.bo_size + PAGE - 1) & ~(PAGE - 1),
					 .gpu = (uint32_t)(gpu - m->gpu),
					 .flags = BANK_BY_NODE | (no_cpu ? BANK_NO_CPU : 0) |
						  (vram ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM
							: KFD_IOC_ALLOC_MEM_FLAGS_GTT)}};
	int r;

	if (!b.piece.size || b.piece.size >> OFFSET_SHIFT ||
	    !(a->in.domains & (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT)))
		return -EINVAL;
	r = bank_take(m->bank, gpu->vram_bytes, &b.piece);
	if (r < 0)
		return r;
	r = emu_buffer_add(&b);
	if (r < 0) {
		bank_drop(m->bank, &b.piece);
		return r;
	}
	a->out = (struct drm_amdgpu_gem_create_out){.handle = (uint32_t)r};
	return 0;
}

uint64_t emu_gem_offset(const struct emu_buffer *buffer)
{
	uint32_t n;

	return OFFSET | (uint64_t)(buffer - emu_buffers(&n)) << OFFSET_SHIFT;
}

int emu_gem_close(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	const struct drm_gem_close *a = block;
	struct emu_buffer *b = emu_buffer(emu_file_of(fd), a->handle);

	if (!b)
		return -EINVAL;
	gem_close(m, b);
	return 0;
}

int emu_prime_to_fd(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_prime_handle *a = block;
	const struct emu_buffer *b = emu_buffer(emu_file_of(fd), a->handle);
	int r;

	if (a->flags & ~(uint32_t)(O_CLOEXEC | O_RDWR))
		return -EINVAL;
	if (!b)
		return -ENOENT;
	r = bank_fd(m->bank, &b->piece, BANK_DMABUF, (int)a->flags);
	if (r < 0)
		return r;
	a->fd = r;
	return 0;
}

/* A description that has the memory already answers the handle that it has. */
int emu_prime_to_handle(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_prime_handle *a = block;
	struct emu_buffer b = {.file = emu_file_of(fd), .minor = emu_minor_of(fd)};
	int r = bank_hold(m->bank, a->fd, &b.piece);
	const struct emu_buffer *buffers;
	uint32_t nbuffers;

	if (r < 0)
		return r;
	b.imported = b.piece.gpu != (uint32_t)(gpu - m->gpu);
	buffers = emu_buffers(&nbuffers);
	for (uint32_t i = 0; i < nbuffers && r == 0; i++)
		if (buffers[i].file == b.file && buffers[i].piece.key == b.piece.key)
			r = (int)buffers[i].handle;
	if (r > 0)
		bank_drop(m->bank, &b.piece);
	else if ((r = emu_buffer_add(&b)) < 0)
		bank_drop(m->bank, &b.piece);
	if (r < 0)
		return r;
	a->handle = (uint32_t)r;
	return 0;
}

int emu_gem_at(const struct emu_machine *m, int fd, uint64_t mmap_offset, size_t len)
{
	uint64_t index = (mmap_offset & ~OFFSET) >> OFFSET_SHIFT;
	uint32_t nbuffers;
	const struct emu_buffer *buffers = emu_buffers(&nbuffers);

	if (!(mmap_offset & OFFSET) || mmap_offset & ((UINT64_C(1) << OFFSET_SHIFT) - 1) ||
	    index >= nbuffers || len > buffers[index].piece.size)
		return -EINVAL;
	if (buffers[index].file != emu_file_of(fd))
		return -EACCES;
	return bank_fd(m->bank, &buffers[index].piece, BANK_NODE, O_RDWR | O_CLOEXEC);
}
