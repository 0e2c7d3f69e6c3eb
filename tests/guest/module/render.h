/* SPDX-License-Identifier: GPL-2.0-only */
/* A render node's buffers, and the addresses of the GPU at which a file has them. */
#ifndef RENDER_H
#define RENDER_H

#include <drm/drm_file.h>
#include <drm/drm_gem_shmem_helper.h>

struct vm_entry {
	__u64 addr, size, offset, flags;
};

struct buffer {
	struct drm_gem_shmem_object base;
	u64 domains, flags, alignment;
	void __user *user; /* of the process that made it, and has its content there */
};

/* One mapping in a file's address space of the GPU. */
struct va {
	struct list_head list;
	struct drm_gem_object *object; /* NULL: of no buffer. Not counted: a handle is */
	struct vm_entry entry;
};

struct vm {
	struct mutex lock;
	struct list_head vas;
};

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

#endif
