/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that name a GPU and are otherwise nobody's business: for those of the tenant only. */
#include <errno.h>
#include <string.h>

#include "amd/abi/kfd.h"
#include "guest/amd/call.h"
#include "guest/amd/files.h"

/* Where a block names its GPU. Those without a struct: by the headers of AMD's own driver. */
static const struct {
	unsigned int nr;
	size_t at;
} calls[] = {
	{KFD_NR_SET_MEMORY_POLICY, offsetof(struct kfd_ioctl_set_memory_policy_args, gpu_id)},
	{KFD_NR_GET_CLOCK_COUNTERS, offsetof(struct kfd_ioctl_get_clock_counters_args, gpu_id)},
	{KFD_NR_DBG_REGISTER_DEPRECATED, 0},
	{KFD_NR_DBG_UNREGISTER_DEPRECATED, 0},
	{KFD_NR_DBG_ADDRESS_WATCH_DEPRECATED, 8},
	{KFD_NR_DBG_WAVE_CONTROL_DEPRECATED, 8},
	{KFD_NR_SET_SCRATCH_BACKING_VA,
	 offsetof(struct kfd_ioctl_set_scratch_backing_va_args, gpu_id)},
	{KFD_NR_GET_TILE_CONFIG, offsetof(struct kfd_ioctl_get_tile_config_args, gpu_id)},
	{KFD_NR_SET_TRAP_HANDLER, offsetof(struct kfd_ioctl_set_trap_handler_args, gpu_id)},
	{KFD_NR_ACQUIRE_VM, offsetof(struct kfd_ioctl_acquire_vm_args, gpu_id)},
	{KFD_NR_SMI_EVENTS, offsetof(struct kfd_ioctl_smi_events_args, gpuid)},
	{KFD_NR_RLC_SPM, 20},
	{KFD_NR_PC_SAMPLE, 16},
};

/* Of a block that is zero beyond what there is: 0 names no GPU. */
static uint32_t amd_device_gpu_named(const struct amd_call *call)
{
	uint32_t id = 0;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].nr == _IOC_NR(call->request))
			memcpy(&id, (const char *)call->block + calls[i].at, sizeof(id));
	return id;
}

/* With no GPU the kernel tells the CPU's clocks, and 0 for the other. */
static int amd_device_clocks_of_no_gpu(struct amd_call *call)
{
	struct kfd_ioctl_get_clock_counters_args *args = call->block;
	uint32_t id = args->gpu_id;
	int r;

	args->gpu_id = 0;
	r = amd_call_kernel(call);
	args->gpu_id = id;
	return r;
}

/* The kernel keeps that file, by which memory of the GPU is mapped for the CPU. */
static int amd_device_acquire_vm(struct amd_call *call)
{
	const struct kfd_ioctl_acquire_vm_args *args = call->block;
	struct amd_device *device = amd_device(call->amd, args->gpu_id);
	int r = amd_call_kernel(call);

	if (r >= 0)
		amd_learn_unified(call->guest, device, (int)args->drm_fd);
	if (r >= 0 && call->guest->swappable)
		atomic_store(&device->vm_file,
			     amd_files_key(call->amd, (int)args->drm_fd,
					   (int)(device - call->amd->device), 0));
	return r;
}

int amd_device_call(struct amd_call *call)
{
	if (amd_is_ours(call->amd, amd_device_gpu_named(call)))
		return _IOC_NR(call->request) == KFD_NR_ACQUIRE_VM ? amd_device_acquire_vm(call)
								   : amd_call_kernel(call);
	if (_IOC_NR(call->request) == KFD_NR_GET_CLOCK_COUNTERS)
		return amd_device_clocks_of_no_gpu(call);
	return -EINVAL;
}
