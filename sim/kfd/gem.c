/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers by the handles of render nodes. Handles are small numbers of an open file description:
 * what one open() is given another may be given for other memory. A description is told by its
 * file offset, which the emulator sets when it opens a render node: like the description's handles
 * it is shared by whoever has it, over dup, fork and sockets. It has a lock on the byte at that
 * offset, which the kernel drops with the last descriptor of it, anywhere: by that its end is seen.
 *
 * The handles are known to the process that made them. They end with it, or with the description,
 * which is noticed when this process closes a device file or makes an ioctl.
 */
#include "sim/kfd/gem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static struct emu_buffer *buffers;
static uint32_t nbuffers;

void emu_gem_forget(void)
{
	free(buffers);
	buffers = NULL;
	nbuffers = 0;
	emu_gem_va_forget();
}

struct emu_buffer *emu_buffers(uint32_t *ret_n)
{
	*ret_n = nbuffers;
	return buffers;
}

void emu_gem_opened(struct emu_machine *m, int fd)
{
	off_t at = (off_t)bank_unique(m->bank);

	lseek(fd, at, SEEK_SET);
	if (sim_byte_lock(fd, at, F_RDLCK) < 0)
		sim_byte_lock(fd, at, F_WRLCK); /* it was opened for writing alone */
}

uint64_t emu_file_of(int fd)
{
	return (uint64_t)lseek(fd, 0, SEEK_CUR);
}

struct emu_buffer *emu_buffer(uint64_t file, uint32_t handle)
{
	for (uint32_t i = 0; i < nbuffers; i++)
		if (buffers[i].piece.key && buffers[i].file == file && buffers[i].handle == handle)
			return &buffers[i];
	return NULL;
}

static struct emu_buffer *gem_free_row(void)
{
	uint32_t i = 0, more = nbuffers ? 2 * nbuffers : 32;
	struct emu_buffer *grown;

	while (i < nbuffers && buffers[i].piece.key)
		i++;
	if (i < nbuffers)
		return &buffers[i];
	grown = more < 1u << 21 ? realloc(buffers, more * sizeof(*buffers)) : NULL;
	if (!grown)
		return NULL;
	memset(grown + nbuffers, 0, (more - nbuffers) * sizeof(*grown));
	buffers = grown;
	nbuffers = more;
	return &buffers[i];
}

/* Takes over the piece, and answers the handle; or -ENOMEM. */
static int gem_add(const struct emu_buffer *buffer)
{
	struct emu_buffer *b = gem_free_row();
	uint32_t handle = 1;

	if (!b)
		return -ENOMEM;
	while (emu_buffer(buffer->file, handle))
		handle++;
	*b = *buffer;
	b->handle = handle;
	return (int)handle;
}

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
	struct emu_buffer b = {.file = emu_file_of(fd),
			       .minor = emu_minor_of(fd),
			       .alignment = a->in.alignment,
			       .domain_flags = a->in.domain_flags,
			       .piece = {.size = (a->in.bo_size + PAGE - 1) & ~(PAGE - 1),
					 .gpu = (uint32_t)(gpu - m->gpu),
					 .flags = BANK_BY_NODE |
						  (vram ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM
							: KFD_IOC_ALLOC_MEM_FLAGS_GTT)}};
	int r;

	if (!b.piece.size || b.piece.size >> OFFSET_SHIFT ||
	    !(a->in.domains & (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT)))
		return -EINVAL;
	r = bank_take(m->bank, gpu->vram_bytes, &b.piece);
	if (r < 0)
		return r;
	r = gem_add(&b);
	if (r < 0) {
		bank_drop(m->bank, &b.piece);
		return r;
	}
	a->out = (struct drm_amdgpu_gem_create_out){.handle = (uint32_t)r};
	return 0;
}

int emu_gem_mmap(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_gem_mmap *a = block;
	const struct emu_buffer *b = emu_buffer(emu_file_of(fd), a->in.handle);

	if (!b)
		return -ENOENT;
	a->out.addr_ptr = OFFSET | (uint64_t)(b - buffers) << OFFSET_SHIFT;
	return 0;
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
	r = bank_fd(m->bank, &b->piece, (int)a->flags);
	if (r < 0)
		return r;
	a->fd = r;
	return 0;
}

/* A description that has the memory already answers the handle that it has. */
int emu_prime_to_handle(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_prime_handle *a = block;
	struct emu_buffer b = {
		.file = emu_file_of(fd), .minor = emu_minor_of(fd), .imported = true};
	int r = bank_hold(m->bank, a->fd, &b.piece);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < nbuffers && r == 0; i++)
		if (buffers[i].file == b.file && buffers[i].piece.key == b.piece.key)
			r = (int)buffers[i].handle;
	if (r > 0)
		bank_drop(m->bank, &b.piece);
	else if ((r = gem_add(&b)) < 0)
		bank_drop(m->bank, &b.piece);
	if (r < 0)
		return r;
	a->handle = (uint32_t)r;
	return 0;
}

int emu_gem_at(const struct emu_machine *m, int fd, uint64_t mmap_offset, size_t len)
{
	uint64_t index = (mmap_offset & ~OFFSET) >> OFFSET_SHIFT;

	if (!(mmap_offset & OFFSET) || mmap_offset & ((UINT64_C(1) << OFFSET_SHIFT) - 1) ||
	    index >= nbuffers || len > buffers[index].piece.size)
		return -EINVAL;
	if (buffers[index].file != emu_file_of(fd))
		return -EACCES;
	return bank_fd(m->bank, &buffers[index].piece, O_RDWR | O_CLOEXEC);
}
