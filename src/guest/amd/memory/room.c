/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/room.h"

#include <sys/ioctl.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "base/number.h"
#include "guest/amd/ask.h"

static bool amd_room_of_node(int fd, uint64_t *ret_bytes)
{
	struct drm_amdgpu_memory_info memory = {0};
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)&memory,
				       .return_size = sizeof(memory),
				       .query = AMDGPU_INFO_MEMORY};

	if (amd_ask(fd, _IOW('d', DRM_NR_AMDGPU_INFO, args), &args) < 0)
		return false;
	*ret_bytes = sat_sub_u64(memory.vram.usable_heap_size, memory.vram.heap_usage);
	return true;
}

static bool amd_room_of_kfd(int fd, const struct amd_device *device, uint64_t *ret_bytes)
{
	struct kfd_ioctl_get_available_memory_args args = {.gpu_id = device->node->gpu_id};

	if (amd_ask(fd, _IOWR('K', KFD_NR_AVAILABLE_MEMORY, args), &args) < 0)
		return false;
	*ret_bytes = args.available;
	return true;
}

bool amd_room_is_promised(const struct room *room, const struct amd_call *call,
			  const struct amd_device *device, uint64_t bytes)
{
	uint64_t promised = room_promised(room, call->guest, device->uuid), free_bytes;

	if (!promised)
		return false;
	if (call->device ? !amd_room_of_node(call->fd, &free_bytes)
			 : !amd_room_of_kfd(call->fd, device, &free_bytes))
		return false;
	return free_bytes < bytes + promised;
}
