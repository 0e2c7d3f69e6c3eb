/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/handle.h"

#include <errno.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/charge.h"

enum object_kind amd_handle_kind(const struct amd_call *call)
{
	return call->device ? OBJECT_GEM : OBJECT_KFD;
}

uint64_t amd_handle_key(struct amd_call *call, uint64_t handle)
{
	if (!call->device)
		return handle;
	return amd_files_key(call->amd, call->fd, (int)(call->device - call->amd->device),
			     (uint32_t)handle);
}

void amd_handle_undo(struct amd_call *call, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args memory = {handle};
	struct drm_gem_close buffer = {.handle = (uint32_t)handle};

	if (call->device)
		amd_ask(call->fd, _IOW('d', DRM_NR_GEM_CLOSE, buffer), &buffer);
	else
		amd_ask(call->fd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, memory), &memory);
}

/*
 * Objects of several files may have one key. Their bytes are charged together, and stay charged
 * until the last of them is gone.
 */
static bool amd_handle_add_to_key(struct object *object, void *arg)
{
	const struct object *more = arg;
	const struct object before = *object;

	*object = *more;
	object->refs = before.refs + 1;
	if (!before.refs)
		return true;
	object->bytes += before.bytes;
	object->amd.gtt += before.amd.gtt;
	object->amd.userptr += before.amd.userptr;
	if (!(before.flags & OBJECT_HOST))
		object->flags &= (uint16_t)~OBJECT_HOST;
	return true;
}

static bool amd_handle_leave_key(struct object *object, void *arg)
{
	object->refs--;
	*(struct object *)arg = *object;
	return object->refs;
}

bool amd_handle_take_from_key(struct amd_call *call, uint64_t key, struct object *ret_last)
{
	struct object object = {.refs = 1};

	if (!object_change(call->guest->objects, OBJECT_GEM, key, false, amd_handle_leave_key,
			   &object) ||
	    object.refs)
		return false;
	*ret_last = object;
	return true;
}

int amd_handle_put(struct amd_call *call, uint64_t handle, struct object *object)
{
	struct object_table *objects = call->guest->objects;
	struct object before;

	object->kind = (uint8_t)amd_handle_kind(call);
	object->key = amd_handle_key(call, handle);
	object->refs = 1;
	if (call->device && amd_files_is_shared(object->key)) {
		object_change(objects, OBJECT_GEM, object->key, true, amd_handle_add_to_key,
			      object);
		return object_get(objects, OBJECT_GEM, object->key, &before) ? 0 : -ENOMEM;
	}
	/* The kernel gives no handle twice: the one before went by a way that we did not see. */
	if (object_take(objects, object->kind, object->key, &before))
		amd_charge_drop(call->guest, call->amd, &before);
	return object_put(objects, object);
}

bool amd_handle_made_as(struct amd_call *call, uint32_t handle,
			struct drm_amdgpu_gem_create_in *ret)
{
	struct drm_amdgpu_gem_op op = {
		.handle = handle, .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, .value = (uintptr_t)ret};

	*ret = (struct drm_amdgpu_gem_create_in){0};
	return amd_ask(call->fd, _IOWR('d', DRM_NR_AMDGPU_GEM_OP, op), &op) >= 0;
}

bool amd_handle_may_be_host(struct amd_call *call, uint32_t handle)
{
	struct drm_amdgpu_gem_create_in made;

	return amd_handle_made_as(call, handle, &made) &&
	       made.domains & (AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_CPU);
}

bool amd_handle_size(struct amd_call *call, uint32_t handle, bool *ret_vram, uint64_t *ret_bytes)
{
	struct drm_amdgpu_gem_create_in made;

	if (!amd_handle_made_as(call, handle, &made))
		return false;
	*ret_vram = made.domains & AMDGPU_GEM_DOMAIN_VRAM;
	*ret_bytes = made.bo_size;
	return true;
}
