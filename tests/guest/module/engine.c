// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine that copies, as far as a checkpoint by another program's plugin needs one: linear copies
 * from and to addresses of the GPU, done at once by the CPU while they are submitted. So lists
 * of buffers and waiting are there for the asking, and memory of the process that submits is
 * reached as its own. A context counts what it was given.
 */
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <linux/iosys-map.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <uapi/drm/amdgpu_drm.h>

#include "render.h"

#define COPY_DWORDS 7
#define COPY_LINEAR 1u
#define IB_DWORDS   4096
#define CHUNKS_MOST 8
#define RINGS	    2 /* of this kind, and there is no other */
#define CONTEXTS_MOST 4096

int engine_userptr(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_gem_userptr *args = data;
	struct drm_gem_shmem_object *shmem;
	int r;

	if (!args->size)
		return -EINVAL;
	shmem = drm_gem_shmem_create(dev, args->size);
	if (IS_ERR(shmem))
		return PTR_ERR(shmem);
	to_buffer(&shmem->base)->user = u64_to_user_ptr(args->addr);
	to_buffer(&shmem->base)->domains = AMDGPU_GEM_DOMAIN_GTT;
	r = drm_gem_handle_create(file, &shmem->base, &args->handle);
	drm_gem_object_put(&shmem->base);
	return r;
}

int engine_list(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_bo_list *args = data;

	if (args->in.operation != AMDGPU_BO_LIST_OP_DESTROY)
		args->out.list_handle = 1;
	return 0;
}

/* How much work it has submitted. */
struct context {
	u64 submitted[RINGS];
};

static int context_make(struct vm *vm, u32 *ret)
{
	struct context *context = kzalloc(sizeof(*context), GFP_KERNEL);
	int r = context ? idr_alloc(&vm->contexts, context, 1, CONTEXTS_MOST, GFP_KERNEL) : -ENOMEM;

	if (r < 0)
		kfree(context);
	else
		*ret = r;
	return r < 0 ? r : 0;
}

int engine_context(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_ctx *args = data;
	struct vm *vm = file->driver_priv;
	struct context *context;
	int r = 0;

	mutex_lock(&vm->lock);
	context = idr_find(&vm->contexts, args->in.ctx_id);
	if (args->in.op == AMDGPU_CTX_OP_ALLOC_CTX)
		r = context_make(vm, &args->out.alloc.ctx_id);
	else if (!context)
		r = -EINVAL;
	else if (args->in.op == AMDGPU_CTX_OP_FREE_CTX)
		kfree(idr_remove(&vm->contexts, args->in.ctx_id));
	else
		memset(&args->out, 0, sizeof(args->out));
	mutex_unlock(&vm->lock);
	return r;
}

void engine_close(struct vm *vm)
{
	struct context *context;
	int id;

	idr_for_each_entry(&vm->contexts, context, id)
		kfree(context);
	idr_destroy(&vm->contexts);
}

static struct context *context_of(struct drm_file *file, u32 id)
{
	struct vm *vm = file->driver_priv;

	return idr_find(&vm->contexts, id);
}

int engine_wait(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_wait_cs *args = data;
	struct context *context = context_of(file, args->in.ctx_id);

	if (!context || args->in.ip_type != AMDGPU_HW_IP_DMA || args->in.ring >= RINGS ||
	    args->in.handle > context->submitted[args->in.ring])
		return -EINVAL;
	args->out.status = 0;
	return 0;
}

/* Counted: the buffer that is mapped there, at which of its bytes, and how many follow. */
static struct drm_gem_object *find(struct vm *vm, u64 address, u64 *ret_at, u64 *ret_bytes)
{
	struct drm_gem_object *object = NULL;
	struct va *va;

	mutex_lock(&vm->lock);
	list_for_each_entry(va, &vm->vas, list)
		if (va->object && address - va->entry.addr < va->entry.size) {
			object = va->object;
			drm_gem_object_get(object);
			*ret_at = address - va->entry.addr + va->entry.offset;
			*ret_bytes = va->entry.size - (address - va->entry.addr);
			break;
		}
	mutex_unlock(&vm->lock);
	return object;
}

static int move_in(struct drm_gem_object *object, u64 at, void *bytes, u64 n, bool write)
{
	void __user *user = to_buffer(object)->user;
	struct iosys_map map;
	int r;

	if (user && write)
		return copy_to_user(user + at, bytes, n) ? -EFAULT : 0;
	if (user)
		return copy_from_user(bytes, user + at, n) ? -EFAULT : 0;
	r = drm_gem_shmem_object_vmap(object, &map);
	if (r)
		return r;
	if (write)
		iosys_map_memcpy_to(&map, at, bytes, n);
	else
		iosys_map_memcpy_from(bytes, &map, at, n);
	drm_gem_shmem_object_vunmap(object, &map);
	return 0;
}

/* Up to where a mapping ends, at either side. Its length is in *bytes, before and after. */
static int move_at(struct vm *vm, u64 address, void *buf, u64 *bytes, bool write)
{
	u64 at, most;
	struct drm_gem_object *object = find(vm, address, &at, &most);
	int r;

	if (!object)
		return -EFAULT; /* where the real one would report a fault */
	*bytes = min(*bytes, most);
	r = move_in(object, at, buf, *bytes, write);
	drm_gem_object_put(object);
	return r;
}

static int copy(struct vm *vm, u64 from, u64 to, u64 bytes, void *page)
{
	int r = 0;

	while (bytes && !r) {
		u64 n = min_t(u64, bytes, PAGE_SIZE);

		r = move_at(vm, from, page, &n, false);
		if (!r)
			r = move_at(vm, to, page, &n, true);
		from += n;
		to += n;
		bytes -= n;
	}
	return r;
}

/* Copies, and zeros that fill up. */
static int run(struct vm *vm, const struct drm_amdgpu_cs_chunk_ib *ib, u32 *words, void *page)
{
	u64 bytes = ib->ib_bytes;
	u32 n = ib->ib_bytes / 4;
	int r;

	if (ib->ip_type != AMDGPU_HW_IP_DMA || n > IB_DWORDS)
		return -EINVAL;
	r = move_at(vm, ib->va_start, words, &bytes, false);
	for (u32 i = 0; i < n && !r;) {
		u32 *w = &words[i];

		if (!*w) {
			i++;
		} else if (*w == COPY_LINEAR && n - i >= COPY_DWORDS) {
			/* Whole words: who says one byte less, as the real one has it, is told by that. */
			r = copy(vm, w[3] | (u64)w[4] << 32, w[5] | (u64)w[6] << 32,
				 (w[1] & 3) == 3 ? (u64)w[1] + 1 : w[1], page);
			i += COPY_DWORDS;
		} else {
			r = -EINVAL;
		}
	}
	return r;
}

int engine_submit(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_cs *args = data;
	u64 __user *list = u64_to_user_ptr(args->in.chunks);
	u32 *words = kmalloc(IB_DWORDS * sizeof(*words), GFP_KERNEL);
	void *page = kmalloc(PAGE_SIZE, GFP_KERNEL);
	struct context *context = context_of(file, args->in.ctx_id);
	u32 n = args->in.num_chunks;
	int r = !words || !page ? -ENOMEM : n > CHUNKS_MOST || !context ? -EINVAL : 0;

	for (u32 i = 0; i < n && !r; i++) {
		struct drm_amdgpu_cs_chunk chunk;
		struct drm_amdgpu_cs_chunk_ib ib;
		u64 at;

		if (get_user(at, &list[i]) ||
		    copy_from_user(&chunk, u64_to_user_ptr(at), sizeof(chunk)))
			r = -EFAULT;
		else if (chunk.chunk_id != AMDGPU_CHUNK_ID_IB)
			continue;
		else if (copy_from_user(&ib, u64_to_user_ptr(chunk.chunk_data), sizeof(ib)))
			r = -EFAULT;
		else
			r = run(file->driver_priv, &ib, words, page);
	}
	kfree(page);
	kfree(words);
	if (!r)
		args->out.handle = ++context->submitted[0];
	return r;
}
