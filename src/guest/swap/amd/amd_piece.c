/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_piece.h"

#include <sys/ioctl.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "guest/amd/ask.h"

int amd_piece_reach(int kfd, const struct amd *amd, uint64_t handle, uint64_t gpus, bool map,
		    uint64_t *now)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < amd->ndevices; i++) {
		uint32_t id = amd->device[i].node->gpu_id;
		struct kfd_ioctl_map_memory_to_gpu_args args = {handle, (uintptr_t)&id, 1, 0};

		if (!(gpus >> i & 1))
			continue;
		r = amd_ask(kfd,
			    map ? _IOWR('K', KFD_NR_MAP_MEMORY_TO_GPU, args)
				: _IOWR('K', KFD_NR_UNMAP_MEMORY_FROM_GPU, args),
			    &args);
		if (r >= 0 && map)
			*now |= UINT64_C(1) << i;
		else if (r >= 0)
			*now &= ~(UINT64_C(1) << i);
	}
	return r < 0 ? r : 0;
}
