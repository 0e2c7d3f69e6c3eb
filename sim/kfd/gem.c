/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers by the handles of render nodes (buffers.c). They end with the description that they are of,
 * whichever process has that: it is looked at when somebody asks what a GPU has given (bank.c).
 */
#include "sim/kfd/gem.h"

#include <errno.h>
#include <fcntl.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "sim/kfd/bank.h"

/* Beside those of memory that /dev/kfd gave. */
#define OFFSET	     (UINT64_C(1) << 62)
#define OFFSET_SHIFT 40
#define PAGE	     UINT64_C(4096)

static void gem_close(struct emu_machine *m, struct emu_buffer *b)
{
	emu_gem_unmap_all(m, b);
	emu_buffer_close(m, b);
}

static bool gem_is_gone(const struct emu_machine *m, uint64_t file, uint64_t key)
{
	return !emu_buffer_of(m, file, key);
}

void emu_gem_reap(struct emu_machine *m)
{
	emu_gem_unmap_if(m, gem_is_gone);
}

int emu_gem_create(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_gem_create *a = block;
	bool vram = a->in.domains & AMDGPU_GEM_DOMAIN_VRAM;
	bool gtt = a->in.domains & AMDGPU_GEM_DOMAIN_GTT;
	bool no_cpu = a->in.domain_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
	struct emu_buffer b = {.file = emu_file_of(fd),
			       .minor = emu_minor_of(fd),
			       .piece = {.alignment = a->in.alignment,
					 .domain_flags = a->in.domain_flags,
					 .size = (a->in.bo_size + PAGE - 1) & ~(PAGE - 1),
					 .gpu = (uint32_t)(gpu - m->gpu),
					 .flags = BANK_BY_NODE | (no_cpu ? BANK_NO_CPU : 0) |
						  (vram && gtt ? BANK_OR_GTT : 0) |
						  (vram ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM
							: KFD_IOC_ALLOC_MEM_FLAGS_GTT)}};
	int r;

	if (!b.piece.size || (!vram && !gtt))
		return -EINVAL;
	if (b.piece.size >> OFFSET_SHIFT)
		return -ENOMEM;
	r = bank_take(m->bank, gpu->vram_bytes, 0, &b.piece);
	if (r < 0)
		return r;
	r = emu_buffer_add(m, &b);
	if (r < 0) {
		bank_drop(m->bank, &b.piece);
		return r;
	}
	a->out = (struct drm_amdgpu_gem_create_out){.handle = (uint32_t)r};
	return 0;
}

uint64_t emu_gem_offset(const struct emu_buffer *buffer)
{
	return OFFSET | (uint64_t)buffer->piece.index << OFFSET_SHIFT;
}

int emu_gem_close(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	const struct drm_gem_close *a = block;
	struct emu_buffer b;

	if (!emu_buffer(m, emu_file_of(fd), a->handle, &b))
		return -EINVAL;
	gem_close(m, &b);
	return 0;
}

int emu_prime_to_fd(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_prime_handle *a = block;
	struct emu_buffer b;
	int r;

	if (a->flags & ~(uint32_t)(O_CLOEXEC | O_RDWR))
		return -EINVAL;
	if (!emu_buffer(m, emu_file_of(fd), a->handle, &b))
		return -ENOENT;
	r = bank_fd(m->bank, &b.piece, BANK_DMABUF, (int)a->flags);
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

	if (r < 0)
		return r;
	r = (int)emu_buffer_of(m, b.file, b.piece.key);
	if (r > 0)
		bank_drop(m->bank, &b.piece);
	else if ((r = emu_buffer_add(m, &b)) < 0)
		bank_drop(m->bank, &b.piece);
	if (r < 0)
		return r;
	a->handle = (uint32_t)r;
	return 0;
}

int emu_gem_at(const struct emu_machine *m, int fd, uint64_t mmap_offset, size_t len)
{
	uint64_t index = (mmap_offset & ~OFFSET) >> OFFSET_SHIFT;
	struct bank_piece piece;

	if (!(mmap_offset & OFFSET) || mmap_offset & ((UINT64_C(1) << OFFSET_SHIFT) - 1) ||
	    bank_find_index(m->bank, (uint32_t)index, &piece) < 0 || len > piece.size)
		return -EINVAL;
	if (!emu_buffer_of(m, emu_file_of(fd), piece.key))
		return -EACCES;
	return bank_fd(m->bank, &piece, BANK_NODE, O_RDWR | O_CLOEXEC);
}
