/* SPDX-License-Identifier: GPL-2.0-only */
/* A render node's buffers, and the addresses of the GPU at which a file has them. */
#ifndef RENDER_H
#define RENDER_H

#include <drm/drm_file.h>
#include <drm/drm_gem_shmem_helper.h>
#include <linux/idr.h>
#include <linux/slab.h>
#include <uapi/drm/amdgpu_drm.h>

struct vm_entry {
	__u64 addr, size, offset, flags;
};

struct buffer {
	struct drm_gem_shmem_object base;
	u64 domains, flags, alignment;
	struct drm_amdgpu_gem_metadata noted; /* what programs want to know of it */
	atomic_t peers; /* how often another GPU of the hive, which is all of them here, maps it */
	void __user *user; /* of the process that made it, and has its content there */
};

/* One mapping in a file's address space of the GPU. */
struct va {
	struct list_head list;
	struct drm_gem_object *object; /* NULL: of no handle. Not counted: a handle is */
	struct vm_entry entry;
};

struct vm {
	struct mutex lock;
	struct list_head vas;
	struct idr contexts; /* of work, by number: from 1 on, below 4096 */
};

/* Under its lock. -EINVAL: something is there. */
static inline int vm_add(struct vm *vm, struct drm_gem_object *object, const struct vm_entry *entry)
{
	struct va *va;

	list_for_each_entry(va, &vm->vas, list)
		if (entry->addr < va->entry.addr + va->entry.size &&
		    va->entry.addr < entry->addr + entry->size)
			return -EINVAL;
	va = kzalloc(sizeof(*va), GFP_KERNEL);
	if (!va)
		return -ENOMEM;
	va->object = object;
	va->entry = *entry;
	list_add_tail(&va->list, &vm->vas);
	return 0;
}

static inline struct buffer *to_buffer(struct drm_gem_object *object)
{
	return container_of(object, struct buffer, base.base);
}

/* Ioctls of the engine that copies. */
int engine_userptr(struct drm_device *dev, void *data, struct drm_file *file);
int engine_list(struct drm_device *dev, void *data, struct drm_file *file);
int engine_context(struct drm_device *dev, void *data, struct drm_file *file);
int engine_submit(struct drm_device *dev, void *data, struct drm_file *file);
int engine_wait(struct drm_device *dev, void *data, struct drm_file *file);
void engine_close(struct vm *vm); /* frees contexts */

#endif
