/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects. Drivers keep one until its last reference is gone, the objects made of it are, and so
 * are the commands that use it: what says so is its destructor callback, which is ours first and so
 * called last. The count of references says less, and is another thread's to change.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "guest/core/object.h"
#include "guest/opencl/charge.h"
#include "guest/opencl/device.h"
#include "guest/opencl/driver.h"
#include "guest/opencl/hooks.h"
#include "opencl/opencl_size.h"

/* A call that makes a memory object, from before the driver to behind it. */
struct memory_making {
	struct guest *guest;
	const struct opencl_driver *driver;
	bool charged;
	struct opencl_charge charge;
	cl_int *errcode_ret; /* the program's; NULL: it has none */
};

/* This thread's clReleaseMemObject: what dies in it is given back when the driver has freed it. */
static _Thread_local struct opencl_release *memory_releasing __attribute__((tls_model("initial-exec")));

static cl_mem memory_refuse(const struct memory_making *making, cl_int error)
{
	if (making->errcode_ret)
		*making->errcode_ret = error;
	return NULL;
}

/* False: the tenant's quota does not allow it, and the program was told. */
static bool memory_begin(cl_context context, uint64_t bytes, cl_int *errcode_ret,
			 struct memory_making *ret)
{
	uint64_t devices;

	ret->guest = guest_get();
	ret->driver = opencl_driver_of(context);
	ret->errcode_ret = errcode_ret;
	ret->charged = false;
	if (guest_inside() || !bytes)
		return true;
	devices = opencl_device_mask(ret->guest, ret->driver, context);
	if (!devices)
		return true;
	ret->charged = opencl_charge_reserve(ret->guest, devices, bytes, &ret->charge);
	if (!ret->charged)
		memory_refuse(ret, CL_MEM_OBJECT_ALLOCATION_FAILURE);
	return ret->charged;
}

static void memory_give_back(struct guest *guest, const struct object *object)
{
	uint64_t here = memory_releasing ? memory_releasing->devices : 0;
	struct object rest = *object;

	if (here & object->opencl.devices)
		opencl_release_add(memory_releasing, object->opencl.devices, object->bytes);
	rest.opencl.devices &= ~here;
	opencl_release_object(guest, &rest);
}

/* By the driver, in whichever thread. A forked child has nothing of its parent's. */
static void memory_destroyed(cl_mem memory, void *user_data)
{
	struct guest *guest = guest_made();
	struct object object;

	if (guest && object_take(guest->objects, OBJECT_OPENCL, (uintptr_t)memory, &object))
		memory_give_back(guest, &object);
}

/* Known before the driver may call memory_destroyed. False: it cannot be followed to its end. */
static bool memory_note(const struct memory_making *making, cl_mem memory, uint64_t bytes)
{
	const struct opencl_driver *driver = making->driver;
	struct object object = {.kind = OBJECT_OPENCL, .key = (uintptr_t)memory, .device = -1,
				.category = CAT_ARRAY, .bytes = bytes, .size = bytes,
				.opencl = {.devices = making->charge.devices}}, before;

	if (!driver->real.clSetMemObjectDestructorCallback ||
	    object_exchange(making->guest->objects, &object, &before))
		return false;
	opencl_release_object(making->guest, &before);
	if (!OPENCL_DRIVER(driver, clSetMemObjectDestructorCallback, (memory, memory_destroyed, NULL)))
		return true;
	object_take(making->guest->objects, OBJECT_OPENCL, object.key, &object);
	return false;
}

/* The driver may have made it larger than was foreseen: the rest is charged as well. */
static bool memory_reserve_rest(const struct memory_making *making, cl_mem memory,
				struct opencl_charge *ret_rest)
{
	size_t size = 0;
	bool told = !OPENCL_DRIVER(making->driver, clGetMemObjectInfo,
				   (memory, CL_MEM_SIZE, sizeof(size), &size, NULL));

	ret_rest->devices = ret_rest->bytes = 0;
	return !told || size <= making->charge.bytes ||
	       opencl_charge_reserve(making->guest, making->charge.devices,
				     size - making->charge.bytes, ret_rest);
}

static cl_mem memory_drop(struct memory_making *making, cl_mem memory, cl_int error)
{
	OPENCL_DRIVER(making->driver, clReleaseMemObject, (memory));
	opencl_charge_cancel(&making->charge);
	return memory_refuse(making, error);
}

static cl_mem memory_end(struct memory_making *making, cl_mem memory)
{
	struct opencl_charge rest;

	if (!making->charged)
		return memory;
	if (!memory) {
		opencl_charge_cancel(&making->charge);
		return NULL;
	}
	if (!memory_reserve_rest(making, memory, &rest))
		return memory_drop(making, memory, CL_MEM_OBJECT_ALLOCATION_FAILURE);
	if (!memory_note(making, memory, making->charge.bytes + rest.bytes)) {
		opencl_charge_cancel(&rest);
		return memory_drop(making, memory, CL_OUT_OF_HOST_MEMORY);
	}
	opencl_charge_commit(&making->charge);
	opencl_charge_commit(&rest);
	return memory;
}

/* The driver's own call, marked as ours where it is charged. `errcode_ret` is the hook's argument. */
#define MEMORY_MAKE(context, bytes, name, args)                                              \
	({                                                                                   \
		struct memory_making making_;                                                \
		cl_mem memory_ = NULL;                                                       \
		if (memory_begin(context, bytes, errcode_ret, &making_)) {                   \
			memory_ = making_.charged ? OPENCL_DRIVER(making_.driver, name, args) \
						  : making_.driver->real.name args;          \
			memory_ = memory_end(&making_, memory_);                             \
		}                                                                            \
		memory_;                                                                     \
	})

cl_mem opencl_hook_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
				  cl_int *errcode_ret)
{
	return MEMORY_MAKE(context, size, clCreateBuffer, (context, flags, size, host_ptr, errcode_ret));
}

cl_mem opencl_hook_clCreateBufferWithProperties(cl_context context, const cl_mem_properties *properties,
						cl_mem_flags flags, size_t size, void *host_ptr,
						cl_int *errcode_ret)
{
	return MEMORY_MAKE(context, size, clCreateBufferWithProperties,
			   (context, properties, flags, size, host_ptr, errcode_ret));
}

cl_mem opencl_hook_clCreateImage2D(cl_context context, cl_mem_flags flags,
				   const cl_image_format *image_format, size_t image_width,
				   size_t image_height, size_t image_row_pitch, void *host_ptr,
				   cl_int *errcode_ret)
{
	cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = image_width,
			      .image_height = image_height};

	return MEMORY_MAKE(context, opencl_size_image(image_format, &desc), clCreateImage2D,
			   (context, flags, image_format, image_width, image_height, image_row_pitch,
			    host_ptr, errcode_ret));
}

cl_mem opencl_hook_clCreateImage3D(cl_context context, cl_mem_flags flags,
				   const cl_image_format *image_format, size_t image_width,
				   size_t image_height, size_t image_depth, size_t image_row_pitch,
				   size_t image_slice_pitch, void *host_ptr, cl_int *errcode_ret)
{
	cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = image_width,
			      .image_height = image_height, .image_depth = image_depth};

	return MEMORY_MAKE(context, opencl_size_image(image_format, &desc), clCreateImage3D,
			   (context, flags, image_format, image_width, image_height, image_depth,
			    image_row_pitch, image_slice_pitch, host_ptr, errcode_ret));
}

cl_mem opencl_hook_clCreateImage(cl_context context, cl_mem_flags flags,
				 const cl_image_format *image_format, const cl_image_desc *image_desc,
				 void *host_ptr, cl_int *errcode_ret)
{
	return MEMORY_MAKE(context, opencl_size_image(image_format, image_desc), clCreateImage,
			   (context, flags, image_format, image_desc, host_ptr, errcode_ret));
}

cl_mem opencl_hook_clCreateImageWithProperties(cl_context context, const cl_mem_properties *properties,
					       cl_mem_flags flags, const cl_image_format *image_format,
					       const cl_image_desc *image_desc, void *host_ptr,
					       cl_int *errcode_ret)
{
	return MEMORY_MAKE(context, opencl_size_image(image_format, image_desc),
			   clCreateImageWithProperties,
			   (context, properties, flags, image_format, image_desc, host_ptr, errcode_ret));
}

cl_mem opencl_hook_clCreatePipe(cl_context context, cl_mem_flags flags, cl_uint pipe_packet_size,
				cl_uint pipe_max_packets, const cl_pipe_properties *properties,
				cl_int *errcode_ret)
{
	return MEMORY_MAKE(context, opencl_size_pipe(pipe_packet_size, pipe_max_packets), clCreatePipe,
			   (context, flags, pipe_packet_size, pipe_max_packets, properties, errcode_ret));
}

/* The driver calls the program's own destructors in it, so it is not marked as a call of ours. */
cl_int opencl_hook_clReleaseMemObject(cl_mem memobj)
{
	const struct opencl_driver *driver = opencl_driver_of(memobj);
	struct opencl_release release, *around = memory_releasing;
	struct guest *guest = guest_made();
	cl_context context = NULL;
	cl_int r;

	if (!guest || !memobj || guest_inside() ||
	    OPENCL_DRIVER(driver, clGetMemObjectInfo,
			  (memobj, CL_MEM_CONTEXT, sizeof(context), &context, NULL)))
		return driver->real.clReleaseMemObject(memobj);
	opencl_release_begin(guest, opencl_device_mask(guest, driver, context), &release);
	memory_releasing = &release;
	r = driver->real.clReleaseMemObject(memobj);
	memory_releasing = around;
	opencl_release_end(&release);
	return r;
}

typedef cl_mem buffer_nv_fn(cl_context context, cl_mem_flags flags, cl_bitfield flags_nv, size_t size,
			    void *host_ptr, cl_int *errcode_ret);

static _Atomic(buffer_nv_fn *) memory_buffer_nv;

static cl_mem memory_hook_buffer_nv(cl_context context, cl_mem_flags flags, cl_bitfield flags_nv,
				    size_t size, void *host_ptr, cl_int *errcode_ret)
{
	struct memory_making making;
	cl_mem memory;

	if (!memory_begin(context, size, errcode_ret, &making))
		return NULL;
	guest_depth += making.charged;
	memory = atomic_load(&memory_buffer_nv)(context, flags, flags_nv, size, host_ptr, errcode_ret);
	guest_depth -= making.charged;
	return memory_end(&making, memory);
}

void *opencl_hook_buffer_nv(void *real)
{
	buffer_nv_fn *none = NULL, *own = (buffer_nv_fn *)real;

	if (!atomic_compare_exchange_strong(&memory_buffer_nv, &none, own) && none != own)
		return NULL;
	return (void *)memory_hook_buffer_nv;
}
