/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that tell how large a GPU's memory is, and which GPUs there are. The kernel answers into
 * memory of ours, and the program gets what the tenant is to see of it: its own memory would show
 * the real figure to another thread meanwhile, and may be none at all.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "amd/abi/drm.h"
#include "base/number.h"
#include "guest/amd/ask.h"
#include "guest/amd/call.h"
#include "guest/amd/user.h"

/* Requests of our own: the program's may claim another size, and say which way its block goes. */
#define ASK_APERTURES                                                                              \
	_IOWR(AMDKFD_IOCTL_BASE, KFD_NR_GET_PROCESS_APERTURES_NEW,                                 \
	      struct kfd_ioctl_get_process_apertures_new_args)
#define ASK_INFO _IOW(DRM_IOCTL_BASE, DRM_NR_AMDGPU_INFO, struct drm_amdgpu_info)

static int amd_view_version(struct amd_call *call)
{
	int r = amd_call_kernel(call);

	if (r >= 0)
		kfd_view_version(call->block);
	return r;
}

/* Of the tenant's GPUs, in the kernel's order: the device cgroup leaves out others so, too. */
static int amd_view_list_apertures(const struct amd_call *call,
				   struct kfd_process_device_apertures ret[GUEST_DEVICES],
				   uint32_t *ret_n)
{
	struct kfd_process_device_apertures all[GUEST_DEVICES] = {0};
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = (uintptr_t)all, .num_of_nodes = GUEST_DEVICES};
	uint32_t n = 0;
	int r = amd_ask(call->fd, ASK_APERTURES, &args);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < args.num_of_nodes && i < GUEST_DEVICES; i++) {
		const struct amd_device *device = amd_device(call->amd, all[i].gpu_id);

		if (device && device->ours)
			ret[n++] = all[i];
	}
	*ret_n = n;
	return r;
}

static int amd_view_apertures(struct amd_call *call)
{
	struct kfd_ioctl_get_process_apertures_args *args = call->block;
	struct kfd_process_device_apertures ours[GUEST_DEVICES];
	uint32_t n;
	int r = amd_view_list_apertures(call, ours, &n);

	if (r < 0)
		return r;
	args->num_of_nodes = min_u64(n, NUM_OF_SUPPORTED_GPUS);
	memset(args->process_apertures, 0, sizeof(args->process_apertures));
	memcpy(args->process_apertures, ours, args->num_of_nodes * sizeof(ours[0]));
	return r;
}

/* A program with room for none asks how many there are. */
static int amd_view_apertures_new(struct amd_call *call)
{
	struct kfd_ioctl_get_process_apertures_new_args *args = call->block;
	struct kfd_process_device_apertures ours[GUEST_DEVICES];
	uint32_t n;
	int r = amd_view_list_apertures(call, ours, &n);

	if (r < 0)
		return r;
	if (args->num_of_nodes) {
		n = min_u64(n, args->num_of_nodes);
		if (user_write(args->kfd_process_device_apertures_ptr, ours, n * sizeof(ours[0])))
			r = -EFAULT;
	}
	args->num_of_nodes = n;
	return r;
}

/* Bytes of the answer to a query of which something is written over; 0 for any other. */
static uint32_t amd_view_info_bytes(uint32_t query)
{
	switch (query) {
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		return sizeof(uint64_t);
	case AMDGPU_INFO_VRAM_GTT:
		return sizeof(struct drm_amdgpu_info_vram_gtt);
	case AMDGPU_INFO_MEMORY:
		return sizeof(struct drm_amdgpu_memory_info);
	case AMDGPU_INFO_DEV_INFO:
		return sizeof(struct drm_amdgpu_info_device);
	case AMDGPU_INFO_HW_IP_INFO:
		return sizeof(struct drm_amdgpu_info_hw_ip);
	}
	return 0;
}

static int amd_view_info(struct amd_call *call)
{
	struct drm_amdgpu_info *args = call->block, whole = *args;
	struct drm_amdgpu_info_device answer = {0}; /* the largest of them */
	uint32_t bytes = amd_view_info_bytes(args->query);
	struct kfd_view view;
	int r;

	if (!bytes || !args->return_pointer || !args->return_size)
		return amd_call_kernel(call);
	whole.return_pointer = (uintptr_t)&answer;
	whole.return_size = bytes;
	r = amd_ask(call->fd, ASK_INFO, &whole);
	if (r < 0)
		return r;
	view = amd_view(call->guest, call->device);
	kfd_view_info(&view, args->query, &answer, bytes);
	return user_write(args->return_pointer, &answer, min_u64(bytes, args->return_size))
		       ? -EFAULT
		       : r;
}

int amd_view_call(struct amd_call *call)
{
	if (call->device)
		return _IOC_NR(call->request) == DRM_NR_AMDGPU_INFO ? amd_view_info(call) : -EINVAL;
	switch (_IOC_NR(call->request)) {
	case KFD_NR_GET_VERSION:
		return amd_view_version(call);
	case KFD_NR_GET_PROCESS_APERTURES:
		return amd_view_apertures(call);
	case KFD_NR_GET_PROCESS_APERTURES_NEW:
		return amd_view_apertures_new(call);
	}
	return -ENOTTY;
}
