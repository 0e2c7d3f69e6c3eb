/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects of this process. One with content holds a piece of the machine's memory, which is
 * mapped where the program maps the render node. On which GPUs it is mapped is noted, one bit for
 * each, and stands in their page tables.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology.h"
#include "base/cleanup.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/user.h"
#include "sim/kfd/memory.h"

#define CONTENT	  (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)
#define NO_MEMORY (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
#define KINDS	  (CONTENT | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | NO_MEMORY)

#define OFFSET_SHIFT 40 /* of content in a render node: the handle's lower half is above */
#define INDEX_MOST   ((1u << 22) - 1)

#define IDS_MOST (1u << 20) /* that the kernel has memory for in one piece */

#define PAGE_UP(size) (((size) + 4095) & ~UINT64_C(4095))

void emu_memory_forget(struct emu_machine *m)
{
	free(m->objects);
	m->objects = NULL;
	m->nobjects = 0;
}

struct emu_object *emu_object(const struct emu_machine *m, uint64_t handle)
{
	uint32_t index = (uint32_t)handle;

	return handle && index < m->nobjects && m->objects[index].handle == handle
		       ? &m->objects[index]
		       : NULL;
}

/* A free row's index. */
static int memory_take_row(struct emu_machine *m)
{
	uint32_t i = 1, more;
	struct emu_object *grown;

	while (i < m->nobjects && m->objects[i].handle)
		i++;
	if (i < m->nobjects)
		return (int)i;
	more = m->nobjects ? 2 * m->nobjects : 64;
	if (more > INDEX_MOST)
		return -ENOMEM;
	grown = realloc(m->objects, more * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	m->objects = grown;
	memset(grown + m->nobjects, 0, (more - m->nobjects) * sizeof(*grown));
	m->nobjects = more;
	return (int)i;
}

int emu_object_add(struct emu_machine *m, struct emu_object *o)
{
	int index = memory_take_row(m);

	if (index < 0)
		return index;
	o->handle = (uint64_t)o->gpu_id << 32 | (uint32_t)index;
	m->objects[index] = *o;
	return 0;
}

/* Whole pages; a queue's ring is there once and has twice the addresses. */
static uint64_t memory_content_bytes(uint64_t size, uint32_t flags)
{
	return PAGE_UP(flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM ? size / 2 : size);
}

uint64_t emu_object_offset(const struct emu_object *o)
{
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		return EMU_OFFSET_DOORBELL | EMU_OFFSET_GPU(o->gpu_id);
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		return EMU_OFFSET_MMIO | EMU_OFFSET_GPU(o->gpu_id);
	return (uint64_t)(uint32_t)o->handle << OFFSET_SHIFT;
}

int emu_alloc(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *a = block;
	struct emu_gpu *gpu = emu_gpu(m, a->gpu_id);
	uint32_t kind = a->flags & KINDS;
	struct emu_object o = {
		.va = a->va_addr, .size = a->size, .gpu_id = a->gpu_id, .flags = a->flags};
	int r;

	if (!gpu || !gpu->acquired || !a->size || a->size >= UINT64_C(1) << OFFSET_SHIFT || !kind ||
	    kind & (kind - 1))
		return -EINVAL;
	/* What of it the CPU reaches is not for programs to choose. */
	if (a->flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC && kind == KFD_IOC_ALLOC_MEM_FLAGS_VRAM &&
	    gpu->visible_bytes < gpu->vram_bytes)
		return -EINVAL;
	if (kind == KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		o.users = a->mmap_offset;
		if (!o.users || o.users != PAGE_UP(o.users))
			return -EINVAL;
	}
	if (kind & CONTENT) {
		o.piece = (struct bank_piece){.size = memory_content_bytes(a->size, a->flags),
					      .gpu = (uint32_t)(gpu - m->gpu),
					      .flags = a->flags};
		r = bank_take(m->bank, gpu->vram_bytes, &o.piece);
		if (r < 0)
			return r;
	}
	r = emu_object_add(m, &o);
	if (r < 0) {
		bank_drop(m->bank, &o.piece);
		return r;
	}
	a->handle = o.handle;
	if (kind != KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		a->mmap_offset = emu_object_offset(&o);
	return 0;
}

int emu_free(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_free_memory_of_gpu_args *a = block;
	struct emu_object *o = emu_object(m, a->handle);

	if (!o)
		return -EINVAL;
	if (o->mapped)
		return -EBUSY;
	bank_drop(m->bank, &o->piece);
	*o = (struct emu_object){.handle = 0};
	return 0;
}

/* Whether a GPU may have the object in its page tables. */
static bool memory_may_map(const struct emu_machine *m, const struct emu_gpu *gpu,
			   const struct emu_object *o)
{
	const struct topology_node *owner = topology_gpu(m->topology, o->gpu_id);

	return !(o->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) ||
	       topology_can_reach(m->topology, gpu->node, owner->id);
}

/* Into the GPU's page tables; a ring that has twice the addresses twice. */
static int memory_map_one(struct emu_gpu *gpu, const struct emu_object *o)
{
	struct vm_range range = {.at = o->va,
				 .size = memory_content_bytes(o->size, o->flags),
				 .memory = o->piece.key ? o->piece.content
							: (char *)(uintptr_t)o->users,
				 .writable = o->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE,
				 .users = !o->piece.key};
	int r;

	if (o->flags & NO_MEMORY)
		return 0;
	r = vm_add(&gpu->vm, &range);
	if (r < 0 || range.size >= o->size)
		return r;
	range.at += range.size;
	r = vm_add(&gpu->vm, &range);
	if (r < 0)
		vm_remove(&gpu->vm, o->va, range.size);
	return r;
}

/* Of a GPU. */
static int memory_map_or_unmap(struct emu_machine *m, struct emu_object *o, uint32_t gpu_id,
			       bool map)
{
	struct emu_gpu *gpu = emu_gpu(m, gpu_id);
	uint64_t bit;
	int r = 0;

	if (!gpu || !gpu->acquired || (map && !memory_may_map(m, gpu, o)))
		return -EINVAL;
	bit = UINT64_C(1) << (gpu - m->gpu);
	if (map && !(o->mapped & bit))
		r = memory_map_one(gpu, o);
	else if (!map && o->mapped & bit && !(o->flags & NO_MEMORY))
		vm_remove(&gpu->vm, o->va, o->size);
	if (r == 0)
		o->mapped = map ? o->mapped | bit : o->mapped & ~bit;
	return r;
}

/* All ids of the call, before anything is done with one; the caller frees them. */
static int memory_read_ids(const struct kfd_ioctl_map_memory_to_gpu_args *a, uint32_t **ret_ids)
{
	CLEANUP_FREE uint32_t *ids = NULL;

	if (!a->n_devices || a->n_success > a->n_devices)
		return -EINVAL;
	if (a->n_devices > IDS_MOST)
		return -ENOMEM;
	ids = malloc(a->n_devices * sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	if (user_copy_in(ids, a->device_ids_array_ptr, a->n_devices * sizeof(*ids)) < 0)
		return -EFAULT;
	*ret_ids = TAKE_PTR(ids);
	return 0;
}

/*
 * Maps on one GPU after the other, as the kernel does. After an error those before it are mapped,
 * and n_success says how many.
 */
static int memory_map_each(struct emu_machine *m, struct kfd_ioctl_map_memory_to_gpu_args *a,
			   bool map)
{
	unsigned int nr = map ? KFD_NR_MAP_MEMORY_TO_GPU : KFD_NR_UNMAP_MEMORY_FROM_GPU;
	struct emu_object *o = emu_object(m, a->handle);
	CLEANUP_FREE uint32_t *ids = NULL;
	int r = memory_read_ids(a, &ids);

	if (r == 0 && !o)
		r = -EINVAL;
	for (uint32_t i = a->n_success; r == 0 && i < a->n_devices; i++) {
		r = emu_fail(nr, i);
		if (r == 0)
			r = memory_map_or_unmap(m, o, ids[i], map);
		if (r == 0)
			a->n_success = i + 1;
	}
	return r;
}

int emu_map(struct emu_machine *m, void *block)
{
	return memory_map_each(m, block, true);
}

int emu_unmap(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_map_memory_to_gpu_args a;
	struct kfd_ioctl_unmap_memory_from_gpu_args *u = block;
	int r;

	a = (struct kfd_ioctl_map_memory_to_gpu_args){u->handle, u->device_ids_array_ptr,
						      u->n_devices, u->n_success};
	r = memory_map_each(m, &a, false);
	u->n_success = a.n_success;
	return r;
}

int emu_available(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_available_memory_args *a = block;
	const struct emu_gpu *gpu = emu_gpu(m, a->gpu_id);

	if (!gpu)
		return -EINVAL;
	a->available = gpu->vram_bytes -
		       bank_used(m->bank, (uint32_t)(gpu - m->gpu), KFD_IOC_ALLOC_MEM_FLAGS_VRAM);
	return 0;
}

int emu_memory_at(struct emu_machine *m, int fd, uint64_t mmap_offset, size_t len)
{
	uint64_t index = mmap_offset >> OFFSET_SHIFT;

	if (mmap_offset & ((UINT64_C(1) << OFFSET_SHIFT) - 1) || index >= m->nobjects ||
	    !m->objects[index].handle || len > m->objects[index].piece.size)
		return -EINVAL;
	if (emu_gpu(m, m->objects[index].gpu_id)->file != emu_file_of(fd))
		return -EACCES;
	return bank_fd(m->bank, &m->objects[index].piece, BANK_NODE, O_RDWR | O_CLOEXEC);
}
