/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that goes from process to process, as a dma-buf or as a handle between processes of AMD's
 * own driver. What it is, is told by the dma-buf's inode. Its owner is charged for it, in its own
 * row; who imports it joins at no charge, and the last of them to hold it carries it when the owner
 * no longer does. What came from outside the tenant is charged once to those who import it: its
 * owner may go first, and nobody here would know.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "base/fault.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/memory.h"
#include "guest/amd/memory/sweep.h"
#include "guest/core/entry.h"

/* What is shared: its name in the tenant's table and, of a dma-buf, its inode. */
struct identity {
	struct shared_key key;
	uint64_t inode; /* 0: not a dma-buf */
};

static int identify(int fd, struct identity *ret)
{
	uint64_t name[2];
	struct stat st;
	int saved = errno, r;

	guest_depth++;
	r = fstat(fd, &st);
	guest_depth--;
	errno = saved;
	if (r < 0)
		return -EBADF;
	name[0] = st.st_dev;
	name[1] = st.st_ino;
	*ret = (struct identity){entry_key(name, sizeof(name)), st.st_ino};
	return 0;
}

struct marking {
	struct object with;
	bool done;
};

static bool mark_shared(struct object *object, void *arg)
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
 * The kernel has given the memory a name outside: from now on others may come to hold it. Never
 * fails the export; without an entry (table full) an importer is charged a second time.
 */
static void exported(struct amd_call *call, uint64_t handle, const struct identity *what)
{
	enum object_kind kind = amd_memory_kind(call);
	struct object_table *objects = call->guest->objects;
	uint64_t key = amd_memory_key(call, handle);
	struct marking marking = {.done = false};
	struct object *object = &marking.with;
	struct amd_device *device;

	FAULT_POINT(GUEST_EXPORTED);
	if (!object_get(objects, kind, key, object) ||
	    object->flags & (OBJECT_SHARED | OBJECT_HOST))
		return;
	device = &call->amd->device[object->device];
	if (shared_add(call->amd->slot, what->key, device->ledger, object->bytes, CAT_IMPORTED,
		       SHARED_COVERED, amd_limit(call->guest, device)))
		return;
	entry_hold(call->guest, what->key, object);
	object->amd.inode = what->inode;
	object_change(objects, kind, key, false, mark_shared, &marking);
	if (!marking.done) /* meanwhile freed, or exported by another thread */
		entry_leave(call->guest, object);
}

/*
 * Joins those who hold it, or is charged for it. An entry of the table cannot be had only if it is
 * full: then this process alone is.
 */
static int join(struct amd_call *call, struct amd_device *device, const struct identity *what,
		uint64_t bytes, struct object *object)
{
	struct amd_charge charge;
	struct slot *slot = call->amd->slot;
	int r = shared_add(slot, what->key, device->ledger, bytes, CAT_IMPORTED, 0,
			   amd_limit(call->guest, device));

	if (r == -EDQUOT) {
		amd_sweep(call->guest, call->amd, call->fd);
		r = shared_add(slot, what->key, device->ledger, bytes, CAT_IMPORTED, 0,
			       amd_limit(call->guest, device));
	}
	if (r == -EDQUOT) {
		quota_count_refusal(slot, device->ledger);
		return -ENOMEM;
	}
	*object = (struct object){.category = CAT_IMPORTED,
				  .device = (int16_t)(device - call->amd->device),
				  .flags = OBJECT_IMPORTED};
	if (!r || r == -EEXIST) {
		entry_hold(call->guest, what->key, object);
		object->amd.inode = what->inode;
		return 0;
	}
	r = amd_charge_reserve(call->guest, call->amd, device, call->fd, DEMAND_VRAM, bytes,
			       &charge);
	if (!r) {
		amd_charge_commit(&charge, CAT_IMPORTED, bytes);
		object->bytes = bytes;
	}
	return r;
}

/* Asks the kernel for an import that was joined before, and puts it down under its handle. */
static int import_joined(struct amd_call *call, const uint64_t *handle, struct object *object)
{
	int r = amd_call_kernel(call);

	if (r >= 0 && amd_memory_put(call, *handle, object)) {
		amd_memory_undo(call, *handle);
		r = -ENOMEM;
	}
	if (r < 0)
		amd_charge_drop(call->guest, call->amd, object);
	return r;
}

static int import_dmabuf(struct amd_call *call)
{
	struct kfd_ioctl_import_dmabuf_args *args = call->block;
	struct kfd_ioctl_get_dmabuf_info_args info = {.dmabuf_fd = args->dmabuf_fd};
	struct amd_device *owner;
	struct identity what;
	struct object object;
	int r;

	if (!amd_is_ours(call->amd, args->gpu_id))
		return -EINVAL;
	/* What the kernel does not know, or says nothing of, it does not import either. */
	if (identify((int)args->dmabuf_fd, &what) ||
	    amd_ask(call->fd, _IOWR('K', KFD_NR_GET_DMABUF_INFO, info), &info) < 0)
		return amd_call_kernel(call);
	owner = amd_device(call->amd, info.gpu_id);
	if (!owner || !owner->ours)
		return -EINVAL;
	if (!(info.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM))
		return amd_call_kernel(call);
	r = join(call, owner, &what, info.size, &object);
	return r ? r : import_joined(call, &args->handle, &object);
}

/* Of a GPU that the tenant has, or of none that it sees. */
static int dmabuf_info(struct amd_call *call)
{
	struct kfd_ioctl_get_dmabuf_info_args *args = call->block;
	const struct kfd_ioctl_get_dmabuf_info_args asked = *args;
	int r = amd_call_kernel(call);

	if (r < 0 || amd_is_ours(call->amd, args->gpu_id))
		return r;
	*args = asked;
	return -EINVAL;
}

/* Without room for the kernel's answer nobody could tell what holds the memory from now on. */
static int export_dmabuf(struct amd_call *call)
{
	const struct kfd_ioctl_export_dmabuf_args *args = call->block;
	struct identity what;
	int r;

	if (!AMD_CALL_HAS(call, kfd_ioctl_export_dmabuf_args, dmabuf_fd))
		return -EINVAL;
	r = amd_call_kernel(call);
	if (r >= 0 && !identify((int)args->dmabuf_fd, &what))
		exported(call, args->handle, &what);
	return r;
}

/* By the headers of AMD's own driver. */
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

static int ipc_export(struct amd_call *call)
{
	const struct ipc_export *args = call->block;
	struct identity what = {.inode = 0};
	int r;

	if (!amd_is_ours(call->amd, args->gpu_id))
		return -EINVAL;
	r = amd_call_kernel(call);
	what.key = entry_key(args->share_handle, sizeof(args->share_handle));
	if (r >= 0)
		exported(call, args->handle, &what);
	return r;
}

/* Of one that nobody in the tenant holds nothing is known, its size neither: its owner's. */
static int ipc_import(struct amd_call *call)
{
	struct ipc_import *args = call->block;
	struct amd_device *device = amd_device(call->amd, args->gpu_id);
	struct identity what = {.inode = 0};
	struct object object;
	int r;

	if (!device || !device->ours)
		return -EINVAL;
	what.key = entry_key(args->share_handle, sizeof(args->share_handle));
	if (!shared_known(call->guest->ledger, what.key))
		return amd_call_kernel(call);
	r = join(call, device, &what, 0, &object);
	return r ? r : import_joined(call, &args->handle, &object);
}

static int prime_export(struct amd_call *call)
{
	const struct drm_prime_handle *args = call->block;
	struct identity what;
	int r = amd_call_kernel(call);

	if (r >= 0 && !identify(args->fd, &what))
		exported(call, args->handle, &what);
	return r;
}

/*
 * Only once the kernel has given it a handle is it known what it is, and a file has one handle for
 * it however often it is imported. No memory is taken by that, so it is early enough.
 */
static int prime_import(struct amd_call *call)
{
	const struct drm_prime_handle *args = call->block;
	struct object_table *objects = call->guest->objects;
	struct identity what;
	struct object object;
	uint64_t bytes = 0, key;
	int r = amd_call_kernel(call);

	if (r < 0 || identify(args->fd, &what))
		return r;
	/* What another file has under the key says nothing of this one. */
	key = amd_memory_key(call, args->handle);
	if ((!amd_files_is_shared(key) && object_get(objects, OBJECT_GEM, key, &object)) ||
	    (!amd_memory_in_vram(call, args->handle, &bytes) &&
	     !shared_known(call->guest->ledger, what.key)))
		return r;
	r = join(call, call->device, &what, bytes, &object);
	if (!r && amd_memory_put(call, args->handle, &object)) {
		amd_charge_drop(call->guest, call->amd, &object);
		r = -ENOMEM;
	}
	if (r)
		amd_memory_undo(call, args->handle);
	return r;
}

int amd_memory_share(struct amd_call *call)
{
	unsigned int nr = _IOC_NR(call->request);

	if (call->device && !AMD_CALL_HAS(call, drm_prime_handle, fd))
		return -EINVAL; /* as above */
	if (call->device)
		return nr == DRM_NR_PRIME_HANDLE_TO_FD ? prime_export(call) : prime_import(call);
	switch (nr) {
	case KFD_NR_GET_DMABUF_INFO:
		return dmabuf_info(call);
	case KFD_NR_IMPORT_DMABUF:
		return import_dmabuf(call);
	case KFD_NR_EXPORT_DMABUF:
		return export_dmabuf(call);
	case KFD_NR_IPC_EXPORT_HANDLE:
		return ipc_export(call);
	case KFD_NR_IPC_IMPORT_HANDLE:
		return ipc_import(call);
	}
	return amd_call_kernel(call);
}
