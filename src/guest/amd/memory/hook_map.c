/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs reach memory: mapping and unmapping, by an array of GPUs. The kernel goes through it
 * from n_success on and says in n_success how far it came. It gets a copy of the array, up to the
 * first GPU that the tenant does not have, and what comes then fails as for no GPU.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "amd/abi/kfd.h"
#include "base/pages.h"
#include "guest/amd/memory/made.h"
#include "guest/amd/memory/memory.h"
#include "guest/amd/user.h"

/* Both blocks are the same. */
_Static_assert(sizeof(struct kfd_ioctl_map_memory_to_gpu_args) ==
		       sizeof(struct kfd_ioctl_unmap_memory_from_gpu_args),
	       "map and unmap");

#define IDS_HERE 128
#define IDS_MOST (1u << 20) /* that the kernel has memory for in one piece */

static int amd_memory_map_ids(struct amd_call *call, uint32_t *ids)
{
	struct kfd_ioctl_map_memory_to_gpu_args *args = call->block;
	const struct kfd_ioctl_map_memory_to_gpu_args asked = *args;
	uint32_t n = asked.n_success;
	int r;

	if (user_read(ids, asked.device_ids_array_ptr, asked.n_devices * sizeof(*ids)))
		return -EFAULT;
	while (n < asked.n_devices && amd_is_ours(call->amd, ids[n]))
		n++;
	if (n == asked.n_success && n < asked.n_devices)
		return -EINVAL;
	args->device_ids_array_ptr = (uintptr_t)ids;
	args->n_devices = n;
	r = amd_call_kernel(call);
	if (args->n_success > asked.n_success && args->n_success <= n)
		amd_made_mapped(call, args->handle, ids + asked.n_success,
				args->n_success - asked.n_success);
	args->device_ids_array_ptr = asked.device_ids_array_ptr;
	args->n_devices = asked.n_devices;
	return r >= 0 && n < asked.n_devices ? -EINVAL : r;
}

int amd_memory_map(struct amd_call *call)
{
	const struct kfd_ioctl_map_memory_to_gpu_args *args = call->block;
	size_t bytes = args->n_devices * sizeof(uint32_t);
	uint32_t here[IDS_HERE], *ids;
	int r, saved = errno;

	if (!args->n_devices || args->n_success > args->n_devices)
		return -EINVAL;
	if (args->n_devices <= IDS_HERE)
		return amd_memory_map_ids(call, here);
	if (args->n_devices > IDS_MOST)
		return -ENOMEM;
	ids = pages_map(bytes);
	errno = saved;
	if (!ids)
		return -ENOMEM;
	r = amd_memory_map_ids(call, ids);
	munmap(ids, bytes);
	return r;
}
