/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/inherit.h"

#include <errno.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/handle.h"
#include "guest/amd/memory/reserve.h"

/*
 * The kernel gives out the lowest handle that is free, and closed ones leave gaps: behind one of this
 * length none is looked for. A dump does the same (criu/render_dump.c).
 */
#define NONE_IN_A_ROW 16384

static bool amd_inherit_put(struct object *there, void *arg)
{
	struct object *object = arg;

	if (!there->refs) {
		*there = *object;
		object->refs = 0;
	}
	return true;
}

/*
 * There is no refusing it: memory above the limit is charged, too, and nothing more is given then. Memory
 * that another process shared may be charged there as well, until that one gives it back.
 */
static void amd_inherit_charge(struct amd_call *call, uint32_t handle,
			       const struct drm_amdgpu_gem_create_in *made)
{
	bool vram = made->domains & AMDGPU_GEM_DOMAIN_VRAM;
	struct object object = {.kind = OBJECT_GEM,
				.key = amd_handle_key(call, handle),
				.category = CAT_DATA,
				.device = (int16_t)(call->device - call->amd->device),
				.flags = vram ? 0 : OBJECT_HOST,
				.refs = 1};
	struct amd_charge charge = {call->amd, call->device,
				    vram || amd_is_unified(call->device) ? DEMAND_VRAM : DEMAND_GTT,
				    made->bo_size};
	int row = charge.memory == DEMAND_VRAM ? call->device->ledger : call->amd->host;

	amd_charge_note(&charge, &object);
	if (amd_files_is_shared(object.key) ||
	    quota_reserve(call->amd->slot, row, charge.reserved, UINT64_MAX))
		return;
	object_change(call->guest->objects, OBJECT_GEM, object.key, true, amd_inherit_put, &object);
	if (object.refs)
		amd_charge_cancel(&charge);
	else
		amd_charge_commit(&charge, CAT_DATA, charge.reserved);
}

static void amd_inherit_file(struct amd_call *call)
{
	struct drm_amdgpu_gem_create_in made;

	amd_learn_unified(call->guest, call->device, call->fd);
	for (uint32_t handle = 1, none = 0; none < NONE_IN_A_ROW; handle++) {
		if (!amd_handle_made_as(call, handle, &made)) {
			none++;
			continue;
		}
		none = 0;
		amd_inherit_charge(call, handle, &made);
	}
}

static void amd_inherit_before(int fd, void *arg)
{
	struct amd_call call = *(const struct amd_call *)arg;

	call.fd = fd;
	call.device = amd_device_of_minor(call.amd, amd_file(fd));
	if (call.device && call.device->ours)
		amd_inherit_file(&call);
}

void amd_inherit(struct amd_call *call)
{
	int saved = errno;

	amd_files_find_before(call->amd, amd_inherit_before, call);
	if (call->device && amd_files_meet(call->amd, call->fd,
					   (int)(call->device - call->amd->device)))
		amd_inherit_file(call);
	errno = saved;
}

void amd_inherit_vm(const struct amd_call *call)
{
	const struct kfd_ioctl_acquire_vm_args *args = call->block;
	struct amd_call node = *call;

	node.fd = (int)args->drm_fd;
	node.device = amd_device_of_minor(call->amd, amd_file(node.fd));
	if (node.device && node.device->ours)
		amd_inherit(&node);
}
