/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that leaves its process as a dma-buf: a descriptor of the content's file, whose inode
 * tells which memory it is, whoever has it. The memory stays taken of its GPU as long as there is
 * one, and is counted there once.
 */
#include <errno.h>
#include <fcntl.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/memory.h"
#include "sim/kfd/user.h"

#define VRAM_OR_GTT (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)

int emu_export_dmabuf(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_export_dmabuf_args *a = block;
	const struct emu_object *o = emu_object(m, a->handle);
	int fd;

	if (!o)
		return -EINVAL;
	if (!o->piece.key)
		return o->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR ? -EPERM : -EINVAL;
	fd = bank_fd(m->bank, &o->piece, BANK_DMABUF, O_RDWR | (int)(a->flags & O_CLOEXEC));
	if (fd < 0)
		return fd;
	a->dmabuf_fd = (uint32_t)fd;
	return 0;
}

int emu_get_dmabuf_info(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_dmabuf_info_args *a = block;
	struct drm_amdgpu_gem_metadata metadata;
	struct bank_piece piece;
	int r = bank_find(m->bank, (int)a->dmabuf_fd, &piece);

	if (r == 0)
		r = emu_metadata(m, &piece, &metadata);
	if (r < 0)
		return r;
	if (a->metadata_ptr && a->metadata_size < metadata.data.data_size_bytes)
		return -EINVAL;
	a->size = piece.size;
	a->gpu_id = m->gpu[piece.gpu].actual_id;
	a->flags = piece.flags & (VRAM_OR_GTT | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
	a->metadata_size = metadata.data.data_size_bytes;
	return a->metadata_ptr ? user_copy_out(a->metadata_ptr, metadata.data.data, a->metadata_size)
			       : 0;
}

/*
 * Another GPU than the one that has the memory gets an object of its own, of the machine's memory as
 * far as it is told. Older kernels take only the one that has it.
 */
int emu_import_dmabuf(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_import_dmabuf_args *a = block;
	struct emu_gpu *gpu = emu_gpu(m, a->gpu_id);
	struct emu_object o = {.va = a->va_addr, .gpu_id = a->gpu_id};
	int r;

	bool elsewhere;

	if (!gpu)
		return -EINVAL;
	if (!gpu->acquired)
		return -ENODEV;
	r = bank_hold(m->bank, (int)a->dmabuf_fd, &o.piece);
	if (r < 0)
		return r;
	elsewhere = gpu != &m->gpu[o.piece.gpu];
	o.size = o.piece.size;
	o.flags = (elsewhere ? KFD_IOC_ALLOC_MEM_FLAGS_GTT : o.piece.flags & VRAM_OR_GTT) |
		  KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
	r = elsewhere && !emu_answers(KERNEL_IMPORTS_OF_PEERS) ? -EINVAL : emu_object_add(m, &o);
	if (r < 0) {
		bank_drop(m->bank, &o.piece);
		return r;
	}
	a->handle = o.handle;
	return 0;
}
