/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that take memory of GPUs or give it back. The charge for a handle is an object of the
 * guest's table: of /dev/kfd, whose handles are the process's, or of an open render node.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/handle.h"
#include "guest/amd/memory/inherit.h"
#include "guest/amd/memory/made.h"
#include "guest/amd/memory/memory.h"
#include "guest/amd/memory/reserve.h"
#include "guest/amd/memory/room.h"
#include "guest/amd/memory/sweep.h"

/* The reservations for the parts of a call: all of them are charged, or none. */
struct taking {
	struct amd_charge charge[DEMAND_PARTS];
	uint32_t n;
};

static void amd_memory_cancel(const struct taking *taking)
{
	for (uint32_t i = 0; i < taking->n; i++)
		amd_charge_cancel(&taking->charge[i]);
}

/* Of a GPU that has the machine's memory alone, a second part would be the first once more. */
static bool amd_memory_is_twice(const struct amd_device *device, const struct demand *demand,
				uint32_t part)
{
	return part && amd_is_unified(device) && demand->parts[part].memory == DEMAND_GTT;
}

static int amd_memory_reserve(struct amd_call *call, struct amd_device *device,
			      const struct demand *demand, struct taking *taking)
{
	int r = 0;

	taking->n = 0;
	for (uint32_t i = 0; !r && i < demand->count; i++) {
		if (amd_memory_is_twice(device, demand, i))
			continue;
		r = amd_reserve(call->guest, call->amd, device, call->fd, demand->parts[i].memory,
				demand->parts[i].bytes, &taking->charge[taking->n]);
		taking->n += !r;
	}
	if (r)
		amd_memory_cancel(taking);
	return r;
}

/*
 * A buffer for which the GPU has no room the kernel makes as one that may be in the machine's memory,
 * too, and says so (amdgpu_gem_create_ioctl).
 */
static int amd_memory_fall_back(struct amd_call *call, struct amd_device *device,
				const struct demand *demand, uint64_t handle,
				struct taking *taking)
{
	uint64_t bytes = demand->parts[0].bytes;
	int r;

	if (!call->device || demand->count > 1 || demand->parts[0].memory != DEMAND_VRAM ||
	    amd_is_unified(device) || !amd_handle_may_be_host(call, (uint32_t)handle))
		return 0;
	r = amd_reserve(call->guest, call->amd, device, call->fd, DEMAND_GTT, bytes,
			&taking->charge[taking->n]);
	taking->n += !r;
	return r;
}

/*
 * Asks the kernel, which answers the handle in `handle`, for what is reserved. -ENOSPC: the GPU is
 * full, or what is free there is promised to others.
 */
static int amd_memory_ask(struct amd_call *call, struct amd_device *device,
			  const struct demand *demand, const struct room *room)
{
	const struct demand_part *part = &demand->parts[0];
	bool vram = part->memory == DEMAND_VRAM;
	int r;

	if (vram && amd_room_is_promised(room, call, device, part->bytes))
		return -ENOSPC;
	r = amd_call_kernel(call);
	return r == -ENOMEM && vram ? -ENOSPC : r;
}

/* Puts down what a handle is charged with. */
static int amd_memory_note(struct amd_call *call, struct amd_device *device, uint64_t handle,
			   const struct taking *taking)
{
	struct object object = {.category = CAT_DATA,
				.device = (int16_t)(device - call->amd->device)};

	for (uint32_t i = 0; i < taking->n; i++)
		amd_charge_note(&taking->charge[i], &object);
	if (!object.bytes || amd_is_unified(device))
		object.flags = OBJECT_HOST;
	return amd_handle_put(call, handle, &object);
}

/* Takes what `demand` says, on a GPU of the tenant. -ENOSPC: as amd_memory_ask. */
static int amd_memory_try(struct amd_call *call, struct amd_device *device,
			  const struct demand *demand, const void *handle, size_t handle_bytes,
			  const struct room *room)
{
	struct taking taking;
	uint64_t given = 0;
	int r = amd_memory_reserve(call, device, demand, &taking), noted;

	if (r)
		return r;
	r = amd_memory_ask(call, device, demand, room);
	if (r >= 0) {
		memcpy(&given, handle, handle_bytes);
		noted = amd_memory_fall_back(call, device, demand, given, &taking);
		if (!noted)
			noted = amd_memory_note(call, device, given, &taking);
		if (noted) {
			amd_handle_undo(call, given);
			r = -ENOMEM;
		}
	}
	if (r < 0)
		amd_memory_cancel(&taking);
	for (uint32_t i = 0; r >= 0 && i < taking.n; i++)
		amd_charge_commit(&taking.charge[i], CAT_DATA, taking.charge[i].reserved);
	return r;
}

/* Nothing is reserved while others leave for it: it may have to leave itself meanwhile. */
static int amd_memory_take(struct amd_call *call, struct amd_device *device,
			   const struct demand *demand, const void *handle, size_t handle_bytes)
{
	struct room room = {0};
	int r;

	do
		r = amd_memory_try(call, device, demand, handle, handle_bytes, &room);
	while (r == -ENOSPC &&
	       room_await(&room, call->guest, device->ledger, demand->parts[0].bytes));
	room_end(&room);
	return r == -ENOSPC ? -ENOMEM : r;
}

static int amd_memory_alloc(struct amd_call *call, const struct demand *demand)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *args = call->block;
	struct amd_device *device = amd_device(call->amd, args->gpu_id);
	int r;

	if (!device || !device->ours)
		return -EINVAL;
	if (demand->act != DEMAND_TAKE)
		return amd_call_kernel(call);
	r = amd_memory_take(call, device, demand, &args->handle, sizeof(args->handle));
	if (r >= 0)
		amd_made_alloc(call, args);
	return r;
}

static int amd_memory_create(struct amd_call *call, const struct demand *demand)
{
	union drm_amdgpu_gem_create *args = call->block;

	if (demand->act != DEMAND_TAKE)
		return amd_call_kernel(call);
	amd_learn_unified(call->guest, call->device, call->fd);
	return amd_memory_take(call, call->device, demand, &args->out.handle,
			       sizeof(args->out.handle));
}

/* Pages of the program's own as a buffer. */
static int amd_memory_pin(struct amd_call *call, const struct demand *demand)
{
	struct drm_amdgpu_gem_userptr *args = call->block;

	return amd_memory_take(call, call->device, demand, &args->handle, sizeof(args->handle));
}

static bool amd_memory_hand_over(struct object *dmabuf, void *arg)
{
	struct object *gone = arg;

	if (!dmabuf->refs) {
		*dmabuf = *gone;
		gone->refs = 0;
	}
	return true;
}

/* The handle is gone. An open dma-buf may still hold the memory: then it stays charged. */
static void amd_memory_let_go(struct amd_call *call, const struct object *object)
{
	struct object dmabuf = *object;

	dmabuf.kind = OBJECT_DMABUF;
	dmabuf.key = object->amd.inode;
	dmabuf.refs = 1;
	if (object->amd.inode && amd_files_has_inode(object->amd.inode))
		object_change(call->guest->objects, OBJECT_DMABUF, dmabuf.key, true,
			      amd_memory_hand_over, &dmabuf);
	if (dmabuf.refs)
		amd_charge_drop(call->guest, call->amd, object);
	if (object->amd.inode)
		amd_sweep_dmabufs(call->guest, call->amd);
}

/*
 * The object leaves the table before the kernel is asked, for as soon as the kernel has the handle
 * back it may give it to another thread. Of two threads that free one handle, one finds the object.
 */
static int amd_memory_give(struct amd_call *call, uint64_t handle)
{
	enum object_kind kind = amd_handle_kind(call);
	struct object_table *objects = call->guest->objects;
	uint64_t key = amd_handle_key(call, handle);
	struct object object;
	bool known;
	int r;

	if (call->device)
		addresses_forget(&call->amd->addresses, key);
	if (call->device && amd_files_is_shared(key)) {
		r = amd_call_kernel(call);
		if (r >= 0 && amd_handle_take_from_key(call, key, &object))
			amd_memory_let_go(call, &object);
		return r;
	}
	known = object_take(objects, kind, key, &object);
	r = amd_call_kernel(call);
	if (known && r >= 0)
		amd_memory_let_go(call, &object);
	else if (known)
		object_put(objects, &object); /* there was room for it just now */
	return r;
}

/* Adds to an object what it is charged with from now on. */
static bool amd_memory_add(struct object *object, void *arg)
{
	const struct taking *taking = arg;

	for (uint32_t i = 0; i < taking->n; i++)
		amd_charge_note(&taking->charge[i], object);
	if (object->bytes)
		object->flags &= (uint16_t)~OBJECT_HOST;
	return true;
}

/* Fills in the sizes of the parts of `demand`: an object is charged once in each memory. */
static void amd_memory_place_sizes(const struct object *object, struct demand *demand)
{
	uint64_t bytes = object->bytes ? object->bytes : object->amd.gtt;

	for (uint32_t i = 0; i < demand->count; i++) {
		bool has = demand->parts[i].memory == DEMAND_VRAM ? object->bytes : object->amd.gtt;

		demand->parts[i].bytes = has ? 0 : bytes;
	}
}

static bool amd_memory_place_asks_vram(const struct demand *demand)
{
	for (uint32_t i = 0; i < demand->count; i++)
		if (demand->parts[i].memory == DEMAND_VRAM)
			return true;
	return false;
}

static bool amd_memory_add_vram(struct object *object, void *arg)
{
	const struct object *with = arg;
	const uint64_t bytes = object->bytes + with->bytes;

	if (!object->refs)
		*object = *with;
	object->bytes = bytes;
	object->flags &= (uint16_t)~OBJECT_HOST;
	return true;
}

/* Without room in the table it stays charged until the process ends. */
static void amd_memory_note_vram(struct amd_call *call, uint64_t handle, uint64_t bytes)
{
	struct object object = {.kind = OBJECT_GEM,
				.key = amd_handle_key(call, handle),
				.category = CAT_IMPORTED,
				.device = (int16_t)(call->device - call->amd->device),
				.flags = OBJECT_IMPORTED,
				.refs = 1,
				.bytes = bytes};

	object_change(call->guest->objects, OBJECT_GEM, object.key, true, amd_memory_add_vram,
		      &object);
}

/*
 * Another process made it, and is charged for it where it made it: in the machine's memory, that
 * says nothing of the GPU's. `object`: what is known of it here, without refs if nothing is.
 */
static int amd_memory_place_others(struct amd_call *call, const struct demand *demand,
				   const struct object *object)
{
	struct amd_charge charge;
	uint64_t bytes;
	bool vram;
	int r;

	if (object->bytes || !amd_memory_place_asks_vram(demand) ||
	    !amd_handle_size(call, demand->object, &vram, &bytes) ||
	    (object->refs ? !(object->flags & OBJECT_HOST) : vram))
		return amd_call_kernel(call);
	r = amd_reserve(call->guest, call->amd, call->device, call->fd, DEMAND_VRAM, bytes,
			&charge);
	if (r)
		return r;
	r = amd_call_kernel(call);
	if (r < 0) {
		amd_charge_cancel(&charge);
		return r;
	}
	amd_memory_note_vram(call, demand->object, bytes);
	amd_charge_commit(&charge, CAT_IMPORTED, bytes);
	return r;
}

/*
 * Lets an object move between the GPU's memory and the machine's. The kernel moves none
 * of the program's own pages. A GPU with the machine's memory alone has both in one.
 */
static int amd_memory_place(struct amd_call *call, struct demand demand)
{
	uint64_t key = amd_handle_key(call, demand.object);
	struct object object = {.flags = 0};
	struct taking taking;
	int r;

	if (amd_is_unified(call->device))
		return amd_call_kernel(call);
	if (!object_get(call->guest->objects, OBJECT_GEM, key, &object) ||
	    object.flags & OBJECT_IMPORTED)
		return amd_memory_place_others(call, &demand, &object);
	if (object.amd.userptr)
		return amd_call_kernel(call);
	amd_memory_place_sizes(&object, &demand);
	r = amd_memory_reserve(call, call->device, &demand, &taking);
	if (r)
		return r;
	r = amd_call_kernel(call);
	if (r < 0 || !object_change(call->guest->objects, OBJECT_GEM, key, false, amd_memory_add,
				    &taking)) {
		amd_memory_cancel(&taking);
		return r;
	}
	for (uint32_t i = 0; i < taking.n; i++)
		amd_charge_commit(&taking.charge[i], CAT_DATA, taking.charge[i].reserved);
	return r;
}

/* The object is charged under the new handle before the kernel changes it. */
static int amd_memory_change_handle(struct amd_call *call)
{
	const struct drm_gem_change_handle *args = call->block;
	struct object_table *objects = call->guest->objects;
	uint64_t from = amd_handle_key(call, args->handle);
	uint64_t to = amd_handle_key(call, args->new_handle);
	struct object object, other;
	int r;

	if (from == to || amd_files_is_shared(from) ||
	    object_get(objects, OBJECT_GEM, to, &other) ||
	    !object_take(objects, OBJECT_GEM, from, &object))
		return amd_call_kernel(call);
	object.key = to;
	r = object_put(objects, &object) ? -ENOMEM : amd_call_kernel(call);
	if (r < 0) {
		object_take(objects, OBJECT_GEM, to, &object);
		object.key = from;
		object_put(objects, &object);
	}
	return r;
}

/*
 * Memory that is gone is counted off first: a program that asks for no more than this answer would
 * never reach the refusal before which that is done. An unknown GPU fails as in the kernel.
 */
static int amd_memory_available(struct amd_call *call)
{
	struct kfd_ioctl_get_available_memory_args *args = call->block;
	struct amd_device *device = amd_device(call->amd, args->gpu_id);
	struct kfd_view view;
	int r;

	if (!device || !device->ours)
		return -EINVAL;
	amd_sweep(call->guest, call->amd, call->fd);
	r = amd_call_kernel(call);
	if (r < 0)
		return r;
	view = amd_view(call->guest, device);
	kfd_view_available(&view, args);
	return r;
}

static struct demand amd_memory_demand_of(const struct amd_call *call)
{
	uint32_t page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);

	return call->device ? demand_of_drm(call->request, call->block, call->bytes, page_bytes,
					    call->device->node->gpu_id)
			    : demand_of_kfd(call->request, call->block, call->bytes, page_bytes);
}

static int amd_memory_call_kfd(struct amd_call *call, const struct demand *demand)
{
	switch (_IOC_NR(call->request)) {
	case KFD_NR_ALLOC_MEMORY_OF_GPU:
		return amd_memory_alloc(call, demand);
	case KFD_NR_FREE_MEMORY_OF_GPU:
		return amd_memory_give(call, demand->object);
	case KFD_NR_GET_DMABUF_INFO:
	case KFD_NR_IMPORT_DMABUF:
	case KFD_NR_EXPORT_DMABUF:
	case KFD_NR_IPC_IMPORT_HANDLE:
	case KFD_NR_IPC_EXPORT_HANDLE:
		return amd_memory_share(call);
	case KFD_NR_SVM:
		return amd_memory_svm(call, demand);
	case KFD_NR_AVAILABLE_MEMORY:
		return amd_memory_available(call);
	}
	return amd_call_kernel(call);
}

static int amd_memory_call_drm(struct amd_call *call, const struct demand *demand)
{
	switch (_IOC_NR(call->request)) {
	case DRM_NR_AMDGPU_GEM_CREATE:
		return amd_memory_create(call, demand);
	case DRM_NR_AMDGPU_GEM_OP:
		return demand->act == DEMAND_PLACE ? amd_memory_place(call, *demand)
						   : amd_call_kernel(call);
	case DRM_NR_AMDGPU_GEM_USERPTR:
		return amd_memory_pin(call, demand);
	case DRM_NR_GEM_CLOSE:
		return amd_memory_give(call, demand->object);
	case DRM_NR_GEM_CHANGE_HANDLE:
		return amd_memory_change_handle(call);
	case DRM_NR_PRIME_HANDLE_TO_FD:
	case DRM_NR_PRIME_FD_TO_HANDLE:
		return amd_memory_share(call);
	}
	return amd_call_kernel(call);
}

/* Calls by which memory neither comes nor goes. */
static bool amd_memory_call_maps(const struct amd_call *call)
{
	unsigned int nr = _IOC_NR(call->request);

	return !call->device &&
	       (nr == KFD_NR_MAP_MEMORY_TO_GPU || nr == KFD_NR_UNMAP_MEMORY_FROM_GPU);
}

int amd_memory_call(struct amd_call *call)
{
	struct demand demand;

	amd_inherit(call);
	if (amd_memory_call_maps(call))
		return amd_memory_map(call);
	if (call->device && _IOC_NR(call->request) == DRM_NR_AMDGPU_GEM_VA)
		return amd_memory_address(call);
	demand = amd_memory_demand_of(call);
	if (demand.act == DEMAND_REFUSE)
		return demand.error;
	return call->device ? amd_memory_call_drm(call, &demand)
			    : amd_memory_call_kfd(call, &demand);
}
