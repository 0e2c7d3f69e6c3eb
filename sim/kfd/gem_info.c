/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about the buffers of a render node: which there are, and how each was made. And a
 * second handle for a buffer.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/topology.h"
#include "base/cleanup.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/handles.h"
#include "sim/kfd/memory.h"
#include "sim/kfd/user.h"

#define PAGE 4096

/* The object of an import from another GPU has figures of its own (amdgpu_dma_buf_create_obj). */
static struct drm_amdgpu_gem_create_in gem_info_of(const struct emu_buffer *b)
{
	const struct bank_piece *p = &b->piece;
	bool vram = p->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM;

	if (b->imported)
		return (struct drm_amdgpu_gem_create_in){
			p->size, PAGE, AMDGPU_GEM_DOMAIN_GTT,
			p->domain_flags & AMDGPU_GEM_CREATE_CPU_GTT_USWC};
	return (struct drm_amdgpu_gem_create_in){
		p->size, p->alignment,
		(vram ? AMDGPU_GEM_DOMAIN_VRAM : 0) |
			(!vram || p->flags & BANK_OR_GTT ? AMDGPU_GEM_DOMAIN_GTT : 0),
		p->domain_flags};
}

static int gem_info_tell_mappings(const struct emu_buffer *b, struct drm_amdgpu_gem_op *a)
{
	uint32_t n = emu_gem_mappings(b, 0, NULL), room = a->num_entries;
	struct drm_amdgpu_gem_vm_entry *entries;
	int r;

	a->num_entries = n;
	if (!n || n > room) /* ask again, with room */
		return 0;
	entries = calloc(n, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	emu_gem_mappings(b, n, entries);
	r = user_copy_out(a->value, entries, n * sizeof(*entries));
	free(entries);
	return r;
}

/*
 * Does another GPU of the same hive have it in its page tables? Those of this process alone are
 * looked at.
 */
static bool gem_info_is_in_hive(struct emu_machine *m, const struct emu_buffer *b)
{
	const struct emu_gpu *of = &m->gpu[b->piece.gpu];
	uint64_t hive = m->topology->nodes[of->node].hive_id, mapped = 0;

	for (uint32_t i = 0; i < m->ngpus; i++)
		for (uint32_t j = 0; j < m->gpu[i].nobjects; j++)
			if (m->gpu[i].objects[j].piece.key == b->piece.key)
				mapped |= m->gpu[i].objects[j].mapped;
	for (uint32_t i = 0; hive && i < m->ngpus; i++)
		if (mapped >> i & 1 && i != b->piece.gpu &&
		    m->topology->nodes[m->gpu[i].node].hive_id == hive)
			return true;
	return false;
}

/*
 * As amdgpu_gem_op_ioctl: refused for an import that is to go to the GPU's memory, and for each buffer
 * that a GPU of the hive maps. The kernel moves a buffer when it is used next, and leaves it where there
 * is no room.
 */
static int gem_info_place(struct emu_machine *m, const struct emu_gpu *gpu, struct emu_buffer *b,
			  uint64_t domains)
{
	if ((b->imported && domains & AMDGPU_GEM_DOMAIN_VRAM) || gem_info_is_in_hive(m, b))
		return -EINVAL;
	if (!b->imported)
		bank_move(m->bank, gpu->vram_bytes, &b->piece, domains & AMDGPU_GEM_DOMAIN_VRAM);
	return 0;
}

int emu_gem_op(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_amdgpu_gem_op *a = block;
	struct drm_amdgpu_gem_create_in info;
	struct emu_buffer b;

	if (!emu_buffer(m, emu_file_of(fd), a->handle, &b))
		return -ENOENT;
	switch (a->op) {
	case AMDGPU_GEM_OP_GET_GEM_CREATE_INFO:
		info = gem_info_of(&b);
		return user_copy_out(a->value, &info, sizeof(info));
	case AMDGPU_GEM_OP_SET_PLACEMENT:
		return gem_info_place(m, gpu, &b, a->value);
	case AMDGPU_GEM_OP_GET_MAPPING_INFO:
		return emu_answers(KERNEL_GEM_OP_TELLS_MAPPINGS) ? gem_info_tell_mappings(&b, a)
								 : -EINVAL;
	}
	return -EINVAL;
}

/* It stands in the content's file, behind the content. */
int emu_metadata(const struct emu_machine *m, const struct bank_piece *piece,
		 struct drm_amdgpu_gem_metadata *ret)
{
	CLEANUP_CLOSE int fd = bank_fd(m->bank, piece, BANK_DMABUF, O_RDWR | O_CLOEXEC);
	struct drm_amdgpu_gem_metadata metadata = {0};

	if (fd < 0)
		return fd;
	if (pread(fd, &metadata, sizeof(metadata), (off_t)piece->size) < 0)
		return -errno;
	*ret = metadata;
	return 0;
}

static int gem_info_note(const struct emu_machine *m, const struct bank_piece *piece,
			 const struct drm_amdgpu_gem_metadata *metadata)
{
	CLEANUP_CLOSE int fd = bank_fd(m->bank, piece, BANK_DMABUF, O_RDWR | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = pwrite(fd, metadata, sizeof(*metadata), (off_t)piece->size);
	return n == sizeof(*metadata) ? 0 : -ENOMEM;
}

int emu_gem_metadata(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_amdgpu_gem_metadata *a = block, noted;
	struct emu_buffer b;
	int r;

	if (!emu_buffer(m, emu_file_of(fd), a->handle, &b))
		return -ENOENT;
	if (a->op == AMDGPU_GEM_METADATA_OP_SET_METADATA)
		return a->data.data_size_bytes > sizeof(a->data.data)
			       ? -EINVAL
			       : gem_info_note(m, &b.piece, a);
	if (a->op != AMDGPU_GEM_METADATA_OP_GET_METADATA)
		return -EINVAL;
	r = emu_metadata(m, &b.piece, &noted);
	if (r == 0)
		a->data = noted.data;
	return r;
}

int emu_gem_list(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	struct drm_amdgpu_gem_list_handles *a = block;
	uint64_t file = emu_file_of(fd);
	uint32_t there = 0, done = 0;
	struct emu_buffer b;
	int r = 0;

	while (emu_buffer_nth(m, file, there, &b))
		there++;
	for (uint32_t i = 0; r == 0 && there <= a->num_entries && emu_buffer_nth(m, file, i, &b); i++) {
		struct drm_amdgpu_gem_list_handles_entry e;
		struct drm_amdgpu_gem_create_in info = gem_info_of(&b);

		e = (struct drm_amdgpu_gem_list_handles_entry){
			.gem_handle = b.handle,
			.flags = b.imported ? AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT : 0,
			.size = info.bo_size,
			.preferred_domains = info.domains,
			.alloc_flags = info.domain_flags,
			.alignment = info.alignment};
		r = user_copy_out(a->entries + sizeof(e) * done++, &e, sizeof(e));
	}
	a->num_entries = there;
	return r;
}

int emu_gem_change_handle(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	const struct drm_gem_change_handle *a = block;
	uint64_t file = emu_file_of(fd);
	struct emu_buffer b, other;

	if (!emu_buffer(m, file, a->handle, &b))
		return -ENOENT;
	if (!a->new_handle || a->new_handle > INT_MAX)
		return -EINVAL;
	if (a->new_handle != a->handle && emu_buffer(m, file, a->new_handle, &other))
		return -ENOSPC;
	handles_change(bank_handles(m->bank),
		       &(struct handle){b.piece.key, file, b.minor, b.handle}, a->new_handle);
	return 0;
}
