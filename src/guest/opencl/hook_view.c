/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a tenant: its devices alone, each of the size of its quota. */
#include <stddef.h>

#include "base/number.h"
#include "guest/opencl/device.h"
#include "guest/opencl/driver.h"
#include "guest/opencl/hooks.h"
#include "guest/opencl/state.h"

static uint64_t view_total(struct guest *guest, int index)
{
	uint64_t total = 0, room;

	if (opencl_device_is_had(guest, index))
		uuid_device_view(guest, &guest->opencl->device[index], 0, &total, &room);
	return total;
}

cl_int opencl_hook_clGetDeviceInfo(cl_device_id device, cl_device_info param_name,
				   size_t param_value_size, void *param_value,
				   size_t *param_value_size_ret)
{
	const struct opencl_driver *driver = opencl_driver_of(device);
	cl_int r = driver->real.clGetDeviceInfo(device, param_name, param_value_size, param_value,
						param_value_size_ret);
	struct guest *guest;
	int index;

	if (r || !param_value || guest_inside() ||
	    (param_name != CL_DEVICE_GLOBAL_MEM_SIZE && param_name != CL_DEVICE_MAX_MEM_ALLOC_SIZE))
		return r;
	guest = guest_get();
	index = opencl_device_index(guest, driver, device);
	if (index != OPENCL_DEVICE_NONE) {
		cl_ulong *bytes = param_value, total = view_total(guest, index);

		*bytes = param_name == CL_DEVICE_GLOBAL_MEM_SIZE ? total : min_u64(*bytes, total);
	}
	return r;
}

struct view_list {
	cl_uint n, hidden;
	cl_device_id device[OPENCL_DEVICES];
};

/* An accounted device is there if the tenant has it. */
static bool view_shows(const struct opencl_driver *driver, cl_device_id device)
{
	struct guest *guest = guest_get();
	int index = opencl_device_index(guest, driver, device);

	return index == OPENCL_DEVICE_NONE || opencl_device_is_had(guest, index);
}

static cl_int view_list(const struct opencl_driver *driver, cl_platform_id platform, cl_device_type type,
			struct view_list *ret)
{
	struct view_list list = {.n = 0};
	cl_device_id all[OPENCL_DEVICES];
	cl_uint n = 0;
	cl_int r = OPENCL_DRIVER(driver, clGetDeviceIDs, (platform, type, OPENCL_DEVICES, all, &n));

	if (r)
		return r;
	for (cl_uint i = 0; i < n && i < OPENCL_DEVICES; i++)
		if (view_shows(driver, all[i]))
			list.device[list.n++] = all[i];
	list.hidden = n - list.n;
	*ret = list;
	return CL_SUCCESS;
}

/* The driver's default device may be another tenant's: then the first one of this tenant's is it. */
static cl_int view_list_of(const struct opencl_driver *driver, cl_platform_id platform,
			   cl_device_type type, struct view_list *ret)
{
	cl_int r = view_list(driver, platform, type, ret);

	if (r || ret->n || type != CL_DEVICE_TYPE_DEFAULT)
		return r;
	r = view_list(driver, platform, CL_DEVICE_TYPE_GPU, ret);
	if (!r && ret->n)
		ret->n = 1;
	return r;
}

cl_int opencl_hook_clGetDeviceIDs(cl_platform_id platform, cl_device_type device_type, cl_uint num_entries,
				  cl_device_id *devices, cl_uint *num_devices)
{
	const struct opencl_driver *driver = opencl_driver_of(platform);
	struct view_list list;
	cl_int r;

	if (guest_inside() || (devices && !num_entries) || (!devices && !num_devices))
		return driver->real.clGetDeviceIDs(platform, device_type, num_entries, devices,
						   num_devices);
	r = view_list_of(driver, platform, device_type, &list);
	if (!r && !list.n)
		r = CL_DEVICE_NOT_FOUND;
	if (r) {
		if (num_devices && r == CL_DEVICE_NOT_FOUND)
			*num_devices = 0;
		return r;
	}
	for (cl_uint i = 0; devices && i < list.n && i < num_entries; i++)
		devices[i] = list.device[i];
	if (num_devices)
		*num_devices = list.n;
	return CL_SUCCESS;
}

static cl_platform_id view_platform(const cl_context_properties *properties)
{
	for (size_t i = 0; properties && properties[i]; i += 2)
		if (properties[i] == CL_CONTEXT_PLATFORM)
			return (cl_platform_id)properties[i + 1];
	return NULL;
}

/* Where the driver would take a device that the tenant has not, it is given those that it has. */
cl_context opencl_hook_clCreateContextFromType(
	const cl_context_properties *properties, cl_device_type device_type,
	void (*pfn_notify)(const char *errinfo, const void *private_info, size_t cb, void *user_data),
	void *user_data, cl_int *errcode_ret)
{
	cl_platform_id platform = view_platform(properties);
	const struct opencl_driver *driver = opencl_driver_of(platform);
	struct view_list list;

	if (guest_inside() ||
	    view_list_of(driver, platform ? platform : driver->platform, device_type, &list) ||
	    !list.hidden)
		return driver->real.clCreateContextFromType(properties, device_type, pfn_notify, user_data,
							    errcode_ret);
	if (!list.n) {
		if (errcode_ret)
			*errcode_ret = CL_DEVICE_NOT_FOUND;
		return NULL;
	}
	return driver->real.clCreateContext(properties, list.n, list.device, pfn_notify, user_data,
					    errcode_ret);
}
