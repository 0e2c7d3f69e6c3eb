/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML as the tenant sees it: the memory figures, by the rule of account/view.h. They always add up.
 * A device that the tenant was not given has no memory.
 */
#include "guest/nvml/hook.h"

#include "guest/core/library.h"
#include "nvidia/uuid.h"

enum nvml_way nvml_call(nvmlDevice_t device, struct nvml_call *ret_call, nvmlReturn_t *ret_error)
{
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	struct nvml_call call = {.index = ~0u};
	nvmlReturn_t r;

	if (!library_present(&library_nvml)) {
		*ret_error = NVML_ERROR_UNINITIALIZED; /* called by name without the library */
		return NVML_WAY_REFUSE;
	}
	if (guest_inside())
		return NVML_WAY_PASS;
	call.guest = guest_get();
	if (guest_mode(call.guest) == GUEST_INERT)
		return NVML_WAY_PASS;
	r = NVML_REAL(nvmlDeviceGetUUID, (device, text, sizeof(text)));
	if (r == NVML_SUCCESS && guest_mode(call.guest) == GUEST_CLOSED)
		r = NVML_ERROR_NO_PERMISSION;
	if (r == NVML_SUCCESS && uuid_parse(text, call.uuid) < 0)
		r = NVML_ERROR_UNKNOWN; /* a name of another form: no limit can be found by it */
	if (r != NVML_SUCCESS) {
		*ret_error = r;
		return NVML_WAY_REFUSE;
	}
	/* A part of a device has no number of its own; limits are found by UUID then. */
	if (NVML_REAL(nvmlDeviceGetIndex, (device, &call.index)) != NVML_SUCCESS)
		call.index = ~0u;
	*ret_call = call;
	return NVML_WAY_VIEW;
}

/*
 * The part of the tenant's quota that others hold is shown as reserved, like the driver's own
 * memory, so `used` is the sum of the tenant's processes. The older form has no field for that;
 * there it counts as used, as in the real library.
 */
static nvmlMemory_v2_t nvml_view(const struct nvml_call *call, uint64_t total, uint64_t device_free)
{
	struct view v;
	uint64_t free_bytes;

	view_get(call->guest, call->uuid, call->index, total, &v);
	free_bytes = view_free(call->guest, call->uuid, &v, device_free);
	return (nvmlMemory_v2_t){.total = v.total_bytes,
				 .reserved = v.total_bytes - v.used_bytes - free_bytes,
				 .free = free_bytes,
				 .used = v.used_bytes};
}

static nvmlMemory_t nvml_view_v1(const struct nvml_call *call, const nvmlMemory_t *device)
{
	nvmlMemory_v2_t v = nvml_view(call, device->total, device->free);

	return (nvmlMemory_t){.total = v.total, .free = v.free, .used = v.used + v.reserved};
}

#define MEMORY(name)                                                                \
	nvmlReturn_t hook_##name(nvmlDevice_t device, nvmlMemory_t *memory)         \
	{                                                                           \
		struct nvml_call call;                                              \
		nvmlReturn_t r;                                                     \
                                                                                    \
		NVML_VIEW_OR_RETURN(name, (device, memory), device, &call);         \
		r = NVML_REAL(name, (device, memory));                              \
		if (r == NVML_SUCCESS)                                              \
			*memory = nvml_view_v1(&call, memory);                      \
		return r;                                                           \
	}

MEMORY(nvmlDeviceGetMemoryInfo)
/* Where computing is confidential, the device's memory is the protected memory. */
MEMORY(nvmlDeviceGetConfComputeProtectedMemoryUsage)

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct nvml_call call;
	unsigned int version;
	nvmlReturn_t r;

	NVML_VIEW_OR_RETURN(nvmlDeviceGetMemoryInfo_v2, (device, memory), device, &call);
	r = NVML_REAL(nvmlDeviceGetMemoryInfo_v2, (device, memory));
	if (r != NVML_SUCCESS)
		return r;
	version = memory->version;
	*memory = nvml_view(&call, memory->total, memory->free);
	memory->version = version;
	return NVML_SUCCESS;
}
