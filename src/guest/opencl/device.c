/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/opencl/device.h"

#include <string.h>

#include "guest/opencl/state.h"

#define VENDOR_NVIDIA 0x10DE

static bool device_ask(const struct opencl_functions *functions, cl_device_id device, cl_device_info what,
		       void *ret, size_t bytes)
{
	size_t told = 0;
	bool ok;

	lock_rank_none("clGetDeviceInfo");
	guest_depth++;
	ok = !functions->clGetDeviceInfo(device, what, bytes, ret, &told) && told == bytes;
	guest_depth--;
	return ok;
}

bool opencl_device_ask(const struct opencl_functions *functions, cl_device_id device,
		       struct uuid_device *ret)
{
	struct uuid_device found = {.index = ~0u};
	cl_device_type type;
	cl_uint vendor;

	if (!device_ask(functions, device, CL_DEVICE_VENDOR_ID, &vendor, sizeof(vendor)) ||
	    vendor != VENDOR_NVIDIA ||
	    !device_ask(functions, device, CL_DEVICE_TYPE, &type, sizeof(type)) ||
	    !(type & CL_DEVICE_TYPE_GPU) ||
	    !device_ask(functions, device, CL_DEVICE_UUID_KHR, found.uuid, sizeof(found.uuid)) ||
	    !device_ask(functions, device, CL_DEVICE_GLOBAL_MEM_SIZE, &found.total_bytes,
			sizeof(found.total_bytes)))
		return false;
	*ret = found;
	return true;
}

static int device_find(struct opencl_state *state, const struct uuid_device *device)
{
	int n = atomic_load_explicit(&state->n, memory_order_acquire);

	for (int i = 0; i < n; i++)
		if (!memcmp(state->device[i].uuid, device->uuid, sizeof(device->uuid)))
			return i;
	return OPENCL_DEVICE_NONE;
}

static int device_add(struct opencl_state *state, const struct uuid_device *device)
{
	int i;

	lock_take(&state->lock);
	i = device_find(state, device);
	if (i == OPENCL_DEVICE_NONE) {
		i = atomic_load_explicit(&state->n, memory_order_relaxed);
		if (i < OPENCL_ACCOUNTED) {
			state->device[i] = *device;
			atomic_store_explicit(&state->n, i + 1, memory_order_release);
		}
	}
	lock_drop(&state->lock);
	return i;
}

int opencl_device_index(struct guest *guest, const struct opencl_driver *driver, cl_device_id device)
{
	struct uuid_device found;
	int i;

	if (!opencl_device_ask(&driver->real, device, &found))
		return OPENCL_DEVICE_NONE;
	i = device_find(guest->opencl, &found);
	if (i != OPENCL_DEVICE_NONE)
		return i;
	uuid_device_open(guest, &found);
	return device_add(guest->opencl, &found);
}

bool opencl_device_is_had(struct guest *guest, int index)
{
	struct uuid_device device;

	if (index < 0 || index >= OPENCL_ACCOUNTED)
		return false;
	device = guest->opencl->device[index];
	return uuid_device_open(guest, &device) && uuid_device_limit(guest, &device);
}

uint64_t opencl_device_mask(struct guest *guest, const struct opencl_driver *driver, cl_context context)
{
	cl_device_id devices[OPENCL_DEVICES];
	size_t bytes = 0;
	uint64_t mask = 0;
	cl_int r;

	if (!context)
		return 0;
	r = OPENCL_DRIVER(driver, clGetContextInfo,
			  (context, CL_CONTEXT_DEVICES, sizeof(devices), devices, &bytes));
	if (r) /* the driver refuses a context that is none; of others nothing is known */
		return r == CL_INVALID_CONTEXT ? 0 : UINT64_C(1) << OPENCL_DEVICE_MORE;
	for (size_t i = 0; i < bytes / sizeof(devices[0]); i++) {
		int index = opencl_device_index(guest, driver, devices[i]);

		if (index != OPENCL_DEVICE_NONE)
			mask |= UINT64_C(1) << index;
	}
	return mask;
}
