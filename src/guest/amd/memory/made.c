/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/made.h"

#include "guest/core/object.h"

static bool amd_made_note(struct object *object, void *arg)
{
	const struct kfd_ioctl_alloc_memory_of_gpu_args *args = arg;

	object->size = args->size;
	object->amd.va = args->va_addr;
	object->amd.offset = args->mmap_offset;
	object->amd.flags = args->flags;
	object->amd.mapped = 0;
	return true;
}

void amd_made_alloc(struct amd_call *call, const struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	if (call->guest->swappable)
		object_change(call->guest->objects, OBJECT_KFD, args->handle, false, amd_made_note,
			      (void *)(uintptr_t)args);
}

struct mapped {
	uint64_t more, less;
};

static bool amd_made_map(struct object *object, void *arg)
{
	const struct mapped *mapped = arg;

	object->amd.mapped = (object->amd.mapped | mapped->more) & ~mapped->less;
	return true;
}

void amd_made_mapped(struct amd_call *call, uint64_t handle, const uint32_t *gpu_ids, uint32_t n)
{
	struct mapped mapped = {0, 0};
	uint64_t gpus = 0;

	if (!call->guest->swappable)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct amd_device *device = amd_device(call->amd, gpu_ids[i]);

		if (device)
			gpus |= UINT64_C(1) << (device - call->amd->device);
	}
	if (_IOC_NR(call->request) == KFD_NR_MAP_MEMORY_TO_GPU)
		mapped.more = gpus;
	else
		mapped.less = gpus;
	object_change(call->guest->objects, OBJECT_KFD, handle, false, amd_made_map, &mapped);
}
