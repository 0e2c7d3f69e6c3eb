/* SPDX-License-Identifier: Apache-2.0 */
/* The platform and its one device, as NVIDIA's driver shows a GPU; contexts make the process listed. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sim/opencl/pocl.h"

#define VENDOR_ID   0x10DE
#define VENDOR	    "NVIDIA Corporation"
#define UUID_WORD   "cl_khr_device_uuid"
#define TEXT_BYTES  4096
#define GPU_TYPES   (CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_GPU)

static cl_int device_answer(const void *value, size_t bytes, size_t room, void *out, size_t *ret_bytes)
{
	if (out && room < bytes)
		return CL_INVALID_VALUE;
	if (out)
		memcpy(out, value, bytes);
	if (ret_bytes)
		*ret_bytes = bytes;
	return CL_SUCCESS;
}

static cl_int device_answer_text(const char *text, size_t room, void *out, size_t *ret_bytes)
{
	return device_answer(text, strlen(text) + 1, room, out, ret_bytes);
}

static cl_int device_answer_number(cl_ulong number, size_t room, void *out, size_t *ret_bytes)
{
	return device_answer(&number, sizeof(number), room, out, ret_bytes);
}

static cl_int device_answer_extensions(cl_device_id device, size_t room, void *out, size_t *ret_bytes)
{
	char text[TEXT_BYTES] = UUID_WORD " ";
	size_t len = strlen(text);
	cl_int r = sim_pocl.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof(text) - len, text + len,
					    NULL);

	return r ? r : device_answer_text(text, room, out, ret_bytes);
}

static cl_int device_get_info(cl_device_id device, cl_device_info what, size_t room, void *out,
			      size_t *ret_bytes)
{
	const struct sim_device_row *row = &sim_opencl_region->device[0];
	const cl_uint vendor = VENDOR_ID;

	switch (what) {
	case CL_DEVICE_TYPE:
		return device_answer_number(CL_DEVICE_TYPE_GPU, room, out, ret_bytes);
	case CL_DEVICE_VENDOR_ID:
		return device_answer(&vendor, sizeof(vendor), room, out, ret_bytes);
	case CL_DEVICE_VENDOR:
		return device_answer_text(VENDOR, room, out, ret_bytes);
	case CL_DEVICE_NAME:
		return device_answer_text(row->name, room, out, ret_bytes);
	case CL_DEVICE_EXTENSIONS:
		return device_answer_extensions(device, room, out, ret_bytes);
	case CL_DEVICE_UUID_KHR:
		return device_answer(row->uuid, sizeof(row->uuid), room, out, ret_bytes);
	case CL_DEVICE_GLOBAL_MEM_SIZE:
		return device_answer_number(row->total_bytes, room, out, ret_bytes);
	case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
		return device_answer_number(row->total_bytes / 4, room, out, ret_bytes);
	default:
		return sim_pocl.clGetDeviceInfo(device, what, room, out, ret_bytes);
	}
}

static cl_int device_get_platform_info(cl_platform_id platform, cl_platform_info what, size_t room,
				       void *out, size_t *ret_bytes)
{
	if (what == CL_PLATFORM_NAME)
		return device_answer_text("Simulated CUDA", room, out, ret_bytes);
	if (what == CL_PLATFORM_VENDOR)
		return device_answer_text(VENDOR, room, out, ret_bytes);
	return sim_pocl.clGetPlatformInfo(platform, what, room, out, ret_bytes);
}

/* Of pocl's devices, the first one stands for the GPU. */
static cl_int device_get_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
			     cl_device_id *out, cl_uint *ret_n)
{
	if ((out && !room) || (!out && !ret_n))
		return CL_INVALID_VALUE;
	if (!(type & GPU_TYPES))
		return CL_DEVICE_NOT_FOUND;
	if (ret_n)
		*ret_n = 1;
	return out ? sim_pocl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, out, NULL) : CL_SUCCESS;
}

static void device_count_context(int more)
{
	if (!sim_opencl_owns())
		return;
	sim_region_lock(sim_opencl_region);
	sim_opencl_region->row[sim_opencl_row].use[0].contexts += (uint32_t)more;
	sim_region_unlock(sim_opencl_region);
}

static void device_context_ends(cl_context context, void *user_data)
{
	device_count_context(-1);
}

static cl_context device_create_context(const cl_context_properties *properties, cl_uint n,
					const cl_device_id *devices,
					void (*notify)(const char *error, const void *info, size_t bytes,
						       void *user_data),
					void *user_data, cl_int *ret_error)
{
	cl_context context = sim_pocl.clCreateContext(properties, n, devices, notify, user_data, ret_error);

	if (context && !sim_pocl.clSetContextDestructorCallback(context, device_context_ends, NULL))
		device_count_context(1);
	return context;
}

static cl_context device_create_context_from_type(
	const cl_context_properties *properties, cl_device_type type,
	void (*notify)(const char *error, const void *info, size_t bytes, void *user_data),
	void *user_data, cl_int *ret_error)
{
	static _Thread_local cl_device_id device;
	cl_platform_id platform;
	cl_int r = sim_pocl.platforms(1, &platform, NULL);

	if (!r)
		r = device_get_ids(platform, type, 1, &device, NULL);
	if (!r)
		return device_create_context(properties, 1, &device, notify, user_data, ret_error);
	if (ret_error)
		*ret_error = r;
	return NULL;
}

static void *device_find_function(cl_platform_id platform, const char *name)
{
	return sim_opencl_find(name);
}

const struct sim_entry sim_device_entries[] = {
	{1, (void *)device_get_platform_info},
	{2, (void *)device_get_ids},
	{3, (void *)device_get_info},
	{4, (void *)device_create_context},
	{5, (void *)device_create_context_from_type},
	{107, (void *)device_find_function},
	{0, NULL},
};
