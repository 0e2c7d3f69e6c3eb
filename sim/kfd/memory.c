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

#define OFFSET_SHIFT 40 /* of content in a render node: the handle's lower half is above */
#define INDEX_MOST   ((1u << 22) - 1)

#define IDS_MOST (1u << 20) /* that the kernel has memory for in one piece */

#define PAGE	      UINT64_C(4096)
#define PAGE_UP(size) (((size) + PAGE - 1) & ~(PAGE - 1))

void emu_memory_forget(struct emu_machine *m)
{
	for (uint32_t i = 0; i < m->ngpus; i++) {
		free(m->gpu[i].objects);
		m->gpu[i].objects = NULL;
		m->gpu[i].nobjects = 0;
	}
}

struct emu_object *emu_object(struct emu_machine *m, uint64_t handle)
{
	const struct emu_gpu *gpu = emu_gpu(m, (uint32_t)(handle >> 32));
	uint32_t index = (uint32_t)handle;

	return gpu && index < gpu->nobjects && gpu->objects[index].handle ? &gpu->objects[index]
									  : NULL;
}

struct emu_object *emu_object_mapped(struct emu_machine *m, const struct emu_gpu *gpu, uint64_t at)
{
	uint64_t bit = UINT64_C(1) << (gpu - m->gpu);

	for (uint32_t i = 0; i < m->ngpus; i++)
		for (uint32_t j = 0; j < m->gpu[i].nobjects; j++) {
			struct emu_object *o = &m->gpu[i].objects[j];

			if (o->handle && o->mapped & bit && at - o->va < o->size)
				return o;
		}
	return NULL;
}

static int memory_make_room(struct emu_gpu *gpu, uint32_t index)
{
	uint32_t more = gpu->nobjects ? gpu->nobjects : 64;
	struct emu_object *grown;

	while (more <= index)
		more *= 2;
	if (more == gpu->nobjects)
		return 0;
	grown = index < INDEX_MOST ? realloc(gpu->objects, more * sizeof(*grown)) : NULL;
	if (!grown)
		return -ENOMEM;
	memset(grown + gpu->nobjects, 0, (more - gpu->nobjects) * sizeof(*grown));
	gpu->objects = grown;
	gpu->nobjects = more;
	return 0;
}

int emu_object_add(struct emu_machine *m, struct emu_object *o)
{
	struct emu_gpu *gpu = emu_gpu(m, o->gpu_id);
	uint32_t index = 0;

	while (index < gpu->nobjects && gpu->objects[index].handle)
		index++;
	return emu_object_add_at(m, o, index);
}

int emu_object_add_at(struct emu_machine *m, struct emu_object *o, uint32_t index)
{
	struct emu_gpu *gpu = emu_gpu(m, o->gpu_id);
	int r = memory_make_room(gpu, index);

	if (r < 0 || gpu->objects[index].handle)
		return -ENOMEM;
	o->handle = (uint64_t)o->gpu_id << 32 | index;
	gpu->objects[index] = *o;
	return 0;
}

/* Whole pages; a queue's ring is there once and has twice the addresses. */
static uint64_t memory_content_bytes(uint64_t size, uint32_t flags)
{
	return PAGE_UP(flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM ? size / 2 : size);
}

uint64_t emu_object_offset(const struct emu_gpu *gpu, const struct emu_object *o)
{
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		return EMU_OFFSET_DOORBELL | EMU_OFFSET_GPU(gpu->actual_id);
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		return EMU_OFFSET_MMIO | EMU_OFFSET_GPU(gpu->actual_id);
	return ((uint64_t)(uint32_t)o->handle + 1) << OFFSET_SHIFT;
}

/* Of several kinds the kernel takes the first that is set in this order; 0: there is none. */
static uint32_t memory_kind_of(uint32_t flags)
{
	static const uint32_t kinds[] = {
		KFD_IOC_ALLOC_MEM_FLAGS_VRAM, KFD_IOC_ALLOC_MEM_FLAGS_GTT,
		KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL,
		KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (flags & kinds[i])
			return kinds[i];
	return 0;
}

/* The refusals of kfd_ioctl_alloc_memory_of_gpu(), in its order. */
static int memory_check_call(const struct emu_gpu *gpu, const struct emu_object *o)
{
	uint32_t public = KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_VRAM;

	if (!o->size)
		return -EINVAL;
	if ((o->va || !(o->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)) && emu_svm_has(o->va, o->size))
		return -EADDRINUSE;
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR && emu_svm_has(o->users, o->size))
		return -EADDRINUSE;
	/* What of it the CPU reaches is not for programs to choose. */
	if (!gpu || ((o->flags & public) == public && gpu->visible_bytes < gpu->vram_bytes))
		return -EINVAL;
	if (!gpu->acquired)
		return -ENODEV;
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		return o->size == EMU_DOORBELLS_BYTES ? 0 : -EINVAL;
	return o->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP && o->size != PAGE ? -EINVAL : 0;
}

/* The most that KFD may have of the machine's memory: all but a part. */
static uint64_t memory_of_machine(const struct emu_machine *m)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < m->topology->node_count; i++) {
		const struct topology_node *node = &m->topology->nodes[i];

		for (uint32_t j = 0; j < node->bank_count; j++)
			if (node->banks[j].heap == TOPOLOGY_HEAP_SYSTEM)
				bytes += node->banks[j].size_bytes;
	}
	return bytes - bytes / 64;
}

int emu_object_make(struct emu_machine *m, struct emu_object *o)
{
	const struct emu_gpu *gpu = emu_gpu(m, o->gpu_id);
	uint32_t kind = memory_kind_of(o->flags);
	int r = memory_check_call(gpu, o);

	if (r < 0)
		return r;
	if (!kind || (kind == KFD_IOC_ALLOC_MEM_FLAGS_USERPTR && (!o->users || o->users % PAGE)) ||
	    !memory_content_bytes(o->size, o->flags))
		return -EINVAL;
	if (kind & (KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) &&
	    o->size > memory_of_machine(m))
		return -ENOMEM;
	if (!(kind & CONTENT))
		return 0;
	if (o->size >> OFFSET_SHIFT)
		return -ENOMEM;
	o->flags = (o->flags & ~(uint32_t)CONTENT) | kind;
	o->piece = (struct bank_piece){.size = memory_content_bytes(o->size, o->flags),
				       .gpu = (uint32_t)(gpu - m->gpu),
				       .flags = o->flags};
	return bank_take(m->bank, gpu->vram_bytes, gpu->reserved_bytes, &o->piece);
}

int emu_alloc(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *a = block;
	bool is_users = a->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
	struct emu_object o = {.va = a->va_addr,
			       .size = a->size,
			       .users = is_users ? a->mmap_offset : 0,
			       .gpu_id = a->gpu_id,
			       .flags = a->flags};
	int r = emu_object_make(m, &o);

	if (r == 0 && memory_kind_of(o.flags) == KFD_IOC_ALLOC_MEM_FLAGS_USERPTR &&
	    !user_is_mapped(o.users, o.size))
		r = -EFAULT;
	if (r < 0)
		return r;
	r = emu_object_add(m, &o);
	if (r < 0) {
		bank_drop(m->bank, &o.piece);
		return r;
	}
	a->handle = o.handle;
	if (!is_users)
		a->mmap_offset = emu_object_offset(emu_gpu(m, o.gpu_id), &o);
	return 0;
}

int emu_free(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_free_memory_of_gpu_args *a = block;
	struct emu_object *o = emu_object(m, a->handle);

	if (a->handle && a->handle == m->signal_handle)
		return -EPERM;
	if (!o)
		return -EINVAL;
	if (o->mapped)
		return -EBUSY;
	bank_drop(m->bank, &o->piece);
	*o = (struct emu_object){.handle = 0};
	return 0;
}

/* Whether a GPU may have the object in its page tables. */
static bool memory_may_map(struct emu_machine *m, const struct emu_gpu *gpu,
			   const struct emu_object *o)
{
	return !(o->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) ||
	       topology_can_reach(m->topology, gpu->node, emu_gpu(m, o->gpu_id)->node);
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

int emu_object_map(struct emu_machine *m, struct emu_object *o, uint32_t gpu_id, bool map)
{
	struct emu_gpu *gpu = emu_gpu(m, gpu_id);
	uint64_t bit;
	int r = 0;

	if (!gpu)
		return -EINVAL;
	if (map && !gpu->acquired)
		return -ENODEV;
	bit = UINT64_C(1) << (gpu - m->gpu);
	if (map ? !memory_may_map(m, gpu, o) : !(o->mapped & bit))
		return -EINVAL;
	if (!map && o->queues)
		return -EBUSY;
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
	const struct emu_gpu *gpu = emu_gpu(m, (uint32_t)(a->handle >> 32));
	struct emu_object *o = emu_object(m, a->handle);
	CLEANUP_FREE uint32_t *ids = NULL;
	int r = memory_read_ids(a, &ids);

	if (r == 0 && !gpu)
		r = -EINVAL;
	else if (r == 0 && map && !gpu->acquired)
		r = -ENODEV;
	else if (r == 0 && !o)
		r = -ENOMEM;
	for (uint32_t i = a->n_success; r == 0 && i < a->n_devices; i++) {
		r = emu_fail(nr, i);
		if (r == 0)
			r = emu_object_map(m, o, ids[i], map);
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

/* As the kernel's driver has it (VRAM_AVAILABILITY_ALIGN). What render nodes gave is not in it. */
#define AVAILABLE_GRAIN (UINT64_C(2) << 20)

int emu_available(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_available_memory_args *a = block;
	const struct emu_gpu *gpu = emu_gpu(m, a->gpu_id);
	uint64_t left;

	if (!gpu)
		return -EINVAL;
	left = gpu->vram_bytes - gpu->reserved_bytes -
	       bank_given_by_kfd(m->bank, (uint32_t)(gpu - m->gpu), AVAILABLE_GRAIN);
	if ((int64_t)left < 0 && emu_answers(KERNEL_AVAILABLE_STOPS_AT_0))
		left = 0;
	a->available = left / AVAILABLE_GRAIN * AVAILABLE_GRAIN;
	return 0;
}

int emu_memory_at(struct emu_machine *m, int fd, uint64_t mmap_offset, size_t len)
{
	const struct emu_gpu *gpu = emu_gpu_of_minor(m, emu_minor_of(fd));
	uint64_t index = (mmap_offset >> OFFSET_SHIFT) - 1;

	if (!gpu || mmap_offset & ((UINT64_C(1) << OFFSET_SHIFT) - 1) || index >= gpu->nobjects ||
	    !gpu->objects[index].piece.key || len > gpu->objects[index].piece.size)
		return -EINVAL;
	if (gpu->file != emu_file_of(fd) &&
	    !emu_buffer_of(m, emu_file_of(fd), gpu->objects[index].piece.key))
		return -EACCES;
	return bank_fd(m->bank, &gpu->objects[index].piece, BANK_NODE, O_RDWR | O_CLOEXEC);
}
