/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that goes from process to process, as a dma-buf or as a handle between processes of AMD's
 * own driver. A dma-buf is known by its inode.
 *
 *	the owner exports	its row carries the bytes, as before; an entry names the memory
 *	another imports		joins the entry, at no charge
 *	the owner frees it	those who hold the entry are charged, once for all of them
 *
 * Memory from outside the tenant is charged once to those who import it. Its owner may go first,
 * and nobody here would know.
 *
 * In a swappable tenant the descriptors that programs have are no dma-bufs but tokens: lent.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "base/fault.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/dmabuf.h"
#include "guest/amd/memory/handle.h"
#include "guest/amd/memory/lent.h"
#include "guest/amd/memory/memory.h"
#include "guest/amd/memory/reserve.h"
#include "guest/amd/memory/sweep.h"
#include "guest/lend/entry.h"
#include "guest/lend/token.h"

/* Of a descriptor, or by the name that it was got by. */
static int amd_sharing_identify(int fd, const struct share_name *lent, struct dmabuf_name *ret)
{
	if (!lent)
		return dmabuf_name(fd, ret);
	*ret = (struct dmabuf_name){.key = share_key(lent)};
	return 0;
}

/* Where in the ledger memory that is shared is charged. Memory that may be in both is a GPU's. */
struct sharing_place {
	enum demand_memory memory;
	int row;
	uint64_t limit;
};

static struct sharing_place amd_sharing_place(struct amd_call *call, struct amd_device *device,
					      enum demand_memory memory)
{
	if (memory == DEMAND_VRAM || amd_is_unified(device))
		return (struct sharing_place){DEMAND_VRAM, device->ledger,
					      amd_limit(call->guest, device)};
	return (struct sharing_place){DEMAND_GTT, call->amd->host,
				      amd_host_limit(call->guest, call->amd, DEMAND_GTT)};
}

struct marking {
	struct object with;
	bool done;
};

static bool amd_sharing_mark(struct object *object, void *arg)
{
	struct marking *marking = arg;

	if (!(object->flags & OBJECT_SHARED)) {
		object->flags |= OBJECT_SHARED;
		object->shared = marking->with.shared;
		object->amd.inode = marking->with.amd.inode;
		marking->done = true;
	}
	return true;
}

/*
 * The kernel has exported the memory, so other processes may hold it from now on. Never fails the
 * export: where the table is full there is no entry, and an importer is charged a second time.
 */
static void amd_sharing_exported(struct amd_call *call, uint64_t handle,
				 const struct dmabuf_name *what)
{
	enum object_kind kind = amd_handle_kind(call);
	struct object_table *objects = call->guest->objects;
	uint64_t key = amd_handle_key(call, handle);
	struct marking marking = {.done = false};
	struct object *object = &marking.with;
	struct sharing_place place;

	FAULT_POINT(GUEST_EXPORTED);
	if (!object_get(objects, kind, key, object) || object->flags & OBJECT_SHARED)
		return;
	place = amd_sharing_place(call, &call->amd->device[object->device],
				  object->bytes ? DEMAND_VRAM : DEMAND_GTT);
	entry_hold(call->guest, what->key, object);
	if (shared_add(call->amd->slot, what->key, place.row,
		       object->bytes ? object->bytes : object->amd.gtt, CAT_IMPORTED,
		       SHARED_COVERED, place.limit)) {
		entry_unhold(call->guest, object);
		return;
	}
	object->amd.inode = what->inode;
	object_change(objects, kind, key, false, amd_sharing_mark, &marking);
	if (!marking.done) /* meanwhile freed, or exported by another thread */
		entry_leave(call->guest, object);
}

/*
 * Joins those who hold the memory, or is charged for it. Where the table is full there is no entry,
 * and this process alone is charged.
 */
static int amd_sharing_join(struct amd_call *call, struct amd_device *device,
			    enum demand_memory memory, const struct dmabuf_name *what,
			    uint64_t bytes, struct object *object)
{
	struct sharing_place place = amd_sharing_place(call, device, memory);
	struct amd_charge charge;
	struct slot *slot = call->amd->slot;
	int r;

	*object = (struct object){.category = CAT_IMPORTED,
				  .device = (int16_t)(device - call->amd->device),
				  .flags = OBJECT_IMPORTED | (memory == DEMAND_GTT ? OBJECT_HOST : 0)};
	entry_hold(call->guest, what->key, object);
	r = shared_add(slot, what->key, place.row, bytes, CAT_IMPORTED, 0, place.limit);
	if (r == -EDQUOT) {
		amd_sweep(call->guest, call->amd, call->fd);
		r = shared_add(slot, what->key, place.row, bytes, CAT_IMPORTED, 0, place.limit);
	}
	if (!r || r == -EEXIST) {
		object->amd.inode = what->inode;
		return 0;
	}
	entry_unhold(call->guest, object);
	if (r == -EDQUOT) {
		quota_count_refusal(slot, place.row);
		return -ENOMEM;
	}
	r = amd_reserve(call->guest, call->amd, device, call->fd, place.memory, bytes, &charge);
	if (!r) {
		amd_charge_commit(&charge, CAT_IMPORTED, bytes);
		amd_charge_note(&charge, object);
	}
	return r;
}

/* Asks the kernel for an import that was joined before, and puts it down under its handle. */
static int amd_sharing_import_joined(struct amd_call *call, const uint64_t *handle,
				     struct object *object)
{
	int r = amd_call_kernel(call);

	if (r >= 0 && amd_handle_put(call, *handle, object)) {
		amd_handle_undo(call, *handle);
		r = -ENOMEM;
	}
	if (r < 0)
		amd_charge_drop(call->guest, call->amd, object);
	return r;
}

/* `name`: what the descriptor was got by; NULL: it is the program's. */
static int amd_sharing_import_dmabuf(struct amd_call *call, const struct share_name *name)
{
	struct kfd_ioctl_import_dmabuf_args *args = call->block;
	struct kfd_ioctl_get_dmabuf_info_args info = {.dmabuf_fd = args->dmabuf_fd};
	struct amd_device *owner;
	struct dmabuf_name what;
	struct object object;
	int r;

	if (!amd_is_ours(call->amd, args->gpu_id))
		return -EINVAL;
	/* The kernel does not import what it does not know or tells nothing of. */
	if (amd_sharing_identify((int)args->dmabuf_fd, name, &what) ||
	    amd_ask(call->fd, _IOWR('K', KFD_NR_GET_DMABUF_INFO, info), &info) < 0)
		return amd_call_kernel(call);
	owner = amd_device(call->amd, info.gpu_id);
	if (!owner || !owner->ours)
		return -EINVAL;
	r = amd_sharing_join(call, owner,
			     info.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? DEMAND_VRAM : DEMAND_GTT,
			     &what, info.size, &object);
	if (r)
		return r;
	object.size = info.size;
	object.amd.va = args->va_addr;
	if (name)
		amd_lent_borrow(call->guest, name, &object);
	return amd_sharing_import_joined(call, &args->handle, &object);
}

/* The kernel's answer, if it names a GPU of the tenant; else as if the kernel knew no such file. */
static int amd_sharing_dmabuf_info(struct amd_call *call)
{
	struct kfd_ioctl_get_dmabuf_info_args *args = call->block;
	const struct kfd_ioctl_get_dmabuf_info_args asked = *args;
	int r = amd_call_kernel(call);

	if (r < 0 || amd_is_ours(call->amd, args->gpu_id))
		return r;
	*args = asked;
	return -EINVAL;
}

/* A token for memory that can leave. -EOPNOTSUPP: it is none, and the kernel's own has to do. */
static int amd_sharing_lend(struct amd_call *call, uint64_t handle, uint32_t flags)
{
	struct dmabuf_name what = {.inode = 0};
	struct share_name name;
	struct object object;
	int fd;

	if (!object_get(call->guest->objects, amd_handle_kind(call), amd_handle_key(call, handle),
			&object) ||
	    !amd_lent_name(call, &object, &name))
		return -EOPNOTSUPP;
	what.key = share_key(&name);
	if (!(object.flags & OBJECT_IMPORTED))
		amd_sharing_exported(call, handle, &what);
	fd = token_make(&name, name.size);
	if (fd < 0)
		return -ENOMEM;
	if (!(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	return fd;
}

/* The kernel made a dma-buf of a handle. Returns the program's descriptor, or -errno. */
static int amd_sharing_give(struct amd_call *call, uint64_t handle, uint32_t flags, int dmabuf)
{
	int token = amd_sharing_lend(call, handle, flags);
	struct dmabuf_name what;

	if (token != -EOPNOTSUPP) {
		close(dmabuf);
		return token;
	}
	if (!amd_sharing_identify(dmabuf, NULL, &what))
		amd_sharing_exported(call, handle, &what);
	return dmabuf;
}

/* A block without room for the answer is refused: nobody could tell what holds the memory then. */
static int amd_sharing_export_dmabuf(struct amd_call *call)
{
	struct kfd_ioctl_export_dmabuf_args *args = call->block;
	int fd, r;

	if (!AMD_CALL_HAS(call, kfd_ioctl_export_dmabuf_args, dmabuf_fd))
		return -EINVAL;
	r = amd_call_kernel(call);
	if (r < 0)
		return r;
	fd = amd_sharing_give(call, args->handle, args->flags, (int)args->dmabuf_fd);
	if (fd < 0)
		return fd;
	args->dmabuf_fd = (uint32_t)fd;
	return r;
}

/* As the headers of AMD's own driver have them. */
struct ipc_export {
	uint64_t handle;
	uint32_t share_handle[4]; /* answered */
	uint32_t gpu_id;
	uint32_t flags;
};

struct ipc_import {
	uint64_t handle; /* answered, as the next but one */
	uint64_t va_addr;
	uint64_t mmap_offset;
	uint32_t share_handle[4];
	uint32_t gpu_id;
	uint32_t flags;
};

static int amd_sharing_ipc_export(struct amd_call *call)
{
	const struct ipc_export *args = call->block;
	struct dmabuf_name what = {.inode = 0};
	int r;

	if (!amd_is_ours(call->amd, args->gpu_id))
		return -EINVAL;
	r = amd_call_kernel(call);
	what.key = entry_key(args->share_handle, sizeof(args->share_handle));
	if (r >= 0)
		amd_sharing_exported(call, args->handle, &what);
	return r;
}

/* A handle that nobody in the tenant holds tells not even a size: its owner stays charged. */
static int amd_sharing_ipc_import(struct amd_call *call)
{
	struct ipc_import *args = call->block;
	struct amd_device *device = amd_device(call->amd, args->gpu_id);
	struct dmabuf_name what = {.inode = 0};
	struct object object;
	int r;

	if (!device || !device->ours)
		return -EINVAL;
	what.key = entry_key(args->share_handle, sizeof(args->share_handle));
	if (!shared_known(call->guest->ledger, what.key))
		return amd_call_kernel(call);
	r = amd_sharing_join(call, device, DEMAND_VRAM, &what, 0, &object);
	return r ? r : amd_sharing_import_joined(call, &args->handle, &object);
}

static int amd_sharing_prime_export(struct amd_call *call)
{
	struct drm_prime_handle *args = call->block;
	int fd, r = amd_call_kernel(call);

	if (r < 0)
		return r;
	fd = amd_sharing_give(call, args->handle, args->flags, args->fd);
	if (fd < 0)
		return fd;
	args->fd = fd;
	return r;
}

/*
 * Returns the memory that an imported handle is of. To this GPU the buffer of another one is an object of
 * the machine's memory: the tenant's entry tells what it is there.
 */
static enum demand_memory amd_sharing_memory_of(struct amd_call *call, uint32_t handle,
						const struct dmabuf_name *what, uint64_t *ret_bytes)
{
	int row = shared_device(call->guest->ledger, what->key);
	bool vram = false;

	amd_handle_size(call, handle, &vram, ret_bytes);
	return vram || (row >= 0 && row != call->amd->host) ? DEMAND_VRAM : DEMAND_GTT;
}

/*
 * Charged after the kernel has given a handle, for only then it is known what the dma-buf is. A
 * file has one handle for it, however often it is imported. The import takes no memory, so this is
 * early enough.
 */
static int amd_sharing_prime_import(struct amd_call *call, const struct share_name *name)
{
	const struct drm_prime_handle *args = call->block;
	struct object_table *objects = call->guest->objects;
	enum demand_memory memory;
	struct dmabuf_name what;
	struct object object;
	uint64_t bytes = 0, key;
	int r = amd_call_kernel(call);

	if (r < 0 || amd_sharing_identify(args->fd, name, &what))
		return r;
	/* Where files share the key, an object under it may be another file's. */
	key = amd_handle_key(call, args->handle);
	if (!amd_files_is_shared(key) && object_get(objects, OBJECT_GEM, key, &object))
		return r;
	memory = amd_sharing_memory_of(call, args->handle, &what, &bytes);
	r = amd_sharing_join(call, call->device, memory, &what, bytes, &object);
	object.size = bytes;
	if (!r && name)
		amd_lent_borrow(call->guest, name, &object);
	if (!r && amd_handle_put(call, args->handle, &object)) {
		amd_charge_drop(call->guest, call->amd, &object);
		r = -ENOMEM;
	}
	if (r)
		amd_handle_undo(call, args->handle);
	return r;
}

/* Where the descriptor stands in the block of a call that is given one. */
static int32_t *amd_sharing_given(const struct amd_call *call)
{
	struct kfd_ioctl_get_dmabuf_info_args *info = call->block;
	struct kfd_ioctl_import_dmabuf_args *import = call->block;
	struct drm_prime_handle *prime = call->block;

	if (call->device)
		return &prime->fd;
	return (int32_t *)(_IOC_NR(call->request) == KFD_NR_GET_DMABUF_INFO ? &info->dmabuf_fd
									    : &import->dmabuf_fd);
}

static int amd_sharing_take_as(struct amd_call *call, const struct share_name *name)
{
	if (call->device)
		return amd_sharing_prime_import(call, name);
	if (_IOC_NR(call->request) == KFD_NR_GET_DMABUF_INFO)
		return amd_sharing_dmabuf_info(call);
	return amd_sharing_import_dmabuf(call, name);
}

/* In place of a token the kernel is given a dma-buf, for this call. */
static int amd_sharing_take(struct amd_call *call)
{
	int32_t *given = amd_sharing_given(call), token = *given;
	struct share_name name;
	int r;

	if (!amd_lent_is(call->guest, token, &name))
		return amd_sharing_take_as(call, NULL);
	r = amd_lent_fetch(call->guest, &name);
	if (r < 0)
		return r;
	*given = r;
	r = amd_sharing_take_as(call, &name);
	close(*given);
	*given = token;
	return r;
}

int amd_memory_share(struct amd_call *call)
{
	unsigned int nr = _IOC_NR(call->request);

	if (call->device && !AMD_CALL_HAS(call, drm_prime_handle, fd))
		return -EINVAL; /* as above */
	if (call->device)
		return nr == DRM_NR_PRIME_HANDLE_TO_FD ? amd_sharing_prime_export(call)
						       : amd_sharing_take(call);
	switch (nr) {
	case KFD_NR_GET_DMABUF_INFO:
	case KFD_NR_IMPORT_DMABUF:
		return amd_sharing_take(call);
	case KFD_NR_EXPORT_DMABUF:
		return amd_sharing_export_dmabuf(call);
	case KFD_NR_IPC_EXPORT_HANDLE:
		return amd_sharing_ipc_export(call);
	case KFD_NR_IPC_IMPORT_HANDLE:
		return amd_sharing_ipc_import(call);
	}
	return amd_call_kernel(call);
}
