/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of render nodes' buffers in a GPU's address space. The call takes no memory. It is
 * noted if the kernel does not tell the addresses: a checkpoint could not restore them otherwise.
 */
#include <errno.h>

#include "amd/abi/drm.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/memory.h"

enum { UNASKED, TELLS, TELLS_NOT };

/* A list of handles, with no room for any: a kernel that has it tells their addresses, too. */
static int amd_address_ask(int fd)
{
	struct drm_amdgpu_gem_list_handles args = {.num_entries = 0};
	int saved = errno;
	int r = amd_ask(fd, _IOWR('d', DRM_NR_AMDGPU_GEM_LIST_HANDLES, args), &args);

	errno = saved;
	return r == -EINVAL || r == -ENOTTY ? TELLS_NOT : TELLS;
}

/* All of a machine's render nodes have one driver. */
bool amd_memory_notes(struct amd *amd, int fd)
{
	int tells = atomic_load_explicit(&amd->tells, memory_order_relaxed);

	if (tells == UNASKED) {
		tells = amd_address_ask(fd);
		atomic_store_explicit(&amd->tells, tells, memory_order_relaxed);
	}
	return tells == TELLS_NOT;
}

/*
 * After the kernel did it: addresses are the program's to give, so no other thread has these before
 * this one is done. (Handles are the kernel's: they are forgotten before it closes one.)
 */
int amd_memory_address(struct amd_call *call)
{
	const struct drm_amdgpu_gem_va done = *(const struct drm_amdgpu_gem_va *)call->block;
	uint64_t key;
	int r;

	if (!AMD_CALL_HAS(call, drm_amdgpu_gem_va, map_size))
		return -EINVAL;
	r = amd_call_kernel(call);
	if (r < 0)
		return r;
	key = amd_files_key(call->amd, call->fd, (int)(call->device - call->amd->device),
			    done.handle);
	if (!amd_files_is_shared(key)) {
		addresses_note(&call->amd->addresses, key, &done);
		addresses_publish(&call->amd->addresses);
	}
	return r;
}
