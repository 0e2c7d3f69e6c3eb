/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of render nodes in the page tables that queues of /dev/kfd go through: those of the open
 * file that ACQUIRE_VM was called with before. Other files have page tables that nothing here uses,
 * so what they map is only remembered, as are addresses without memory (AMDGPU_VM_PAGE_PRT).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "amd/abi/drm.h"
#include "sim/kfd/array.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/handles.h"
#include "sim/kfd/memory.h"

#define PAGE_FLAGS (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE)

struct mapping {
	uint64_t key; /* of the memory; 0: there is none */
	uint64_t file;
	struct emu_gpu *gpu;
	bool in_tables; /* of queues */
	char *content;	/* all of the buffer's, mapped for this */
	uint64_t content_bytes;
	char *memory;
	uint32_t handle;
	struct drm_amdgpu_gem_vm_entry is;
};

static struct mapping *mappings;
static uint32_t nmappings, room;

void emu_gem_va_forget(void)
{
	free(mappings);
	mappings = NULL;
	nmappings = room = 0;
}

static bool gem_va_is_of(const struct mapping *map, const struct emu_buffer *b)
{
	return map->key == b->piece.key && map->file == b->file;
}

static int gem_va_add(const struct mapping *map)
{
	struct mapping *grown = array_grow(mappings, &room, nmappings, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	mappings = grown;
	mappings[nmappings++] = *map;
	return 0;
}

static void gem_va_drop(uint32_t i)
{
	if (mappings[i].in_tables)
		vm_remove(&mappings[i].gpu->vm, mappings[i].is.addr, mappings[i].is.size);
	if (mappings[i].content)
		munmap(mappings[i].content, mappings[i].content_bytes);
	mappings[i] = mappings[--nmappings];
}

void emu_gem_unmap_all(struct emu_machine *m, const struct emu_buffer *b)
{
	for (uint32_t i = nmappings; i-- > 0;)
		if (gem_va_is_of(&mappings[i], b))
			gem_va_drop(i);
}

void emu_gem_unmap_if(struct emu_machine *m,
		      bool (*gone)(const struct emu_machine *m, uint64_t file, uint64_t key))
{
	if (nmappings)
		handles_reap(bank_handles(m->bank), emu_root());
	for (uint32_t i = nmappings; i-- > 0;)
		if (mappings[i].key && gone(m, mappings[i].file, mappings[i].key))
			gem_va_drop(i);
}

uint32_t emu_gem_mappings(const struct emu_buffer *b, uint32_t fit,
			  struct drm_amdgpu_gem_vm_entry *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < nmappings; i++) {
		if (!gem_va_is_of(&mappings[i], b))
			continue;
		if (n < fit)
			ret[n] = mappings[i].is;
		n++;
	}
	return n;
}

static int gem_va_map_buffer(struct emu_machine *m, struct emu_gpu *gpu,
			     const struct emu_buffer *b, const struct drm_amdgpu_gem_va *a)
{
	struct mapping map = {.key = b->piece.key,
			      .file = b->file,
			      .gpu = gpu,
			      .in_tables = gpu->acquired && gpu->file == b->file,
			      .content_bytes = b->piece.size,
			      .handle = a->handle,
			      .is = {a->va_address, a->map_size, a->offset_in_bo, a->flags}};
	struct vm_range range = {.at = a->va_address,
				 .size = a->map_size,
				 .writable = a->flags & AMDGPU_VM_PAGE_WRITEABLE};
	int r;

	if (a->flags & ~(uint32_t)PAGE_FLAGS || !a->map_size ||
	    (a->va_address | a->map_size | a->offset_in_bo) % 4096 ||
	    a->offset_in_bo > b->piece.size || a->map_size > b->piece.size - a->offset_in_bo)
		return -EINVAL;
	map.content = bank_map(m->bank, &b->piece);
	if (!map.content)
		return -ENOMEM;
	range.memory = map.memory = map.content + a->offset_in_bo;
	r = map.in_tables ? vm_add(&gpu->vm, &range) : 0;
	if (r == 0 && (r = gem_va_add(&map)) < 0 && map.in_tables)
		vm_remove(&gpu->vm, range.at, range.size);
	if (r < 0)
		munmap(map.content, map.content_bytes);
	return r;
}

int emu_gem_va_reach(uint64_t file, uint64_t at, bool write, uint32_t *ret_handle, char **ret,
		     uint64_t *bytes)
{
	for (uint32_t i = 0; i < nmappings; i++) {
		const struct mapping *map = &mappings[i];
		uint64_t in = at - map->is.addr;

		if (!map->key || map->file != file || in >= map->is.size)
			continue;
		if (write && !(map->is.flags & AMDGPU_VM_PAGE_WRITEABLE))
			break;
		if (*bytes > map->is.size - in)
			*bytes = map->is.size - in;
		*ret = map->memory + in;
		*ret_handle = map->handle;
		return 0;
	}
	return -EFAULT;
}

static bool gem_va_overlap(const struct drm_amdgpu_gem_va *a, uint64_t at, uint64_t size)
{
	return a->va_address < at + size && at < a->va_address + a->map_size;
}

/* By a buffer, by nothing, or, where the file is that one, by memory of /dev/kfd. */
static bool gem_va_is_taken(const struct emu_machine *m, const struct emu_gpu *gpu, uint64_t file,
			    const struct drm_amdgpu_gem_va *a)
{
	uint64_t bit = UINT64_C(1) << (gpu - m->gpu);

	for (uint32_t i = 0; i < nmappings; i++)
		if (mappings[i].file == file &&
		    gem_va_overlap(a, mappings[i].is.addr, mappings[i].is.size))
			return true;
	for (uint32_t i = 0; gpu->acquired && gpu->file == file && i < m->ngpus; i++)
		for (uint32_t j = 0; j < m->gpu[i].nobjects; j++) {
			const struct emu_object *o = &m->gpu[i].objects[j];

			if (o->handle && o->mapped & bit && gem_va_overlap(a, o->va, o->size))
				return true;
		}
	return false;
}

static int gem_va_nothing(const struct emu_machine *m, struct emu_gpu *gpu, uint64_t file,
			  const struct drm_amdgpu_gem_va *a)
{
	const struct mapping map = {.file = file, .gpu = gpu,
				    .is = {a->va_address, a->map_size, 0, a->flags}};

	if (a->operation == AMDGPU_VA_OP_MAP)
		return !a->map_size || (a->va_address | a->map_size) % 4096 ||
				       gem_va_is_taken(m, gpu, file, a)
			       ? -EINVAL
			       : gem_va_add(&map);
	for (uint32_t i = 0; a->operation == AMDGPU_VA_OP_UNMAP && i < nmappings; i++)
		if (!mappings[i].key && mappings[i].file == file &&
		    mappings[i].is.addr == a->va_address) {
			gem_va_drop(i);
			return 0;
		}
	return a->operation == AMDGPU_VA_OP_UNMAP ? -ENOENT : -EINVAL;
}

static int gem_va_unmap_buffer(const struct emu_buffer *b, uint64_t at)
{
	for (uint32_t i = 0; i < nmappings; i++) {
		if (!gem_va_is_of(&mappings[i], b) || mappings[i].is.addr != at)
			continue;
		gem_va_drop(i);
		return 0;
	}
	return -ENOENT;
}

int emu_gem_va(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	const struct drm_amdgpu_gem_va *a = block;
	struct emu_buffer b;

	if (a->flags & AMDGPU_VM_PAGE_PRT)
		return gem_va_nothing(m, gpu, emu_file_of(fd), a);
	if (!emu_buffer(m, emu_file_of(fd), a->handle, &b))
		return -ENOENT;
	if (a->operation == AMDGPU_VA_OP_MAP)
		return gem_va_is_taken(m, gpu, b.file, a) ? -EINVAL
							  : gem_va_map_buffer(m, gpu, &b, a);
	return a->operation == AMDGPU_VA_OP_UNMAP ? gem_va_unmap_buffer(&b, a->va_address) : -EINVAL;
}
