/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared virtual memory. It has no count of references: it is charged until the program frees it, by a
 * call or by a command in a queue. Memory that a program never frees stays charged when its
 * context ends.
 */
#include <stddef.h>

#include "guest/core/object.h"
#include "guest/opencl/charge.h"
#include "guest/opencl/device.h"
#include "guest/opencl/driver.h"
#include "guest/opencl/hooks.h"

static void *svm_alloc(struct guest *guest, const struct opencl_driver *driver, cl_context context,
		       cl_svm_mem_flags flags, size_t size, cl_uint alignment,
		       const struct opencl_charge *charge)
{
	void *at = OPENCL_DRIVER(driver, clSVMAlloc, (context, flags, size, alignment));
	struct object object = {.kind = OBJECT_OPENCL, .key = (uintptr_t)at, .device = -1,
				.category = CAT_ARRAY, .bytes = charge->bytes, .size = size,
				.opencl = {.devices = charge->devices}}, before;

	if (at && object_exchange(guest->objects, &object, &before)) {
		driver->real.clSVMFree(context, at);
		return NULL;
	}
	if (at)
		opencl_release_object(guest, &before);
	return at;
}

void *opencl_hook_clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
	const struct opencl_driver *driver = opencl_driver_of(context);
	struct guest *guest = guest_get();
	uint64_t devices = guest_inside() ? 0 : opencl_device_mask(guest, driver, context);
	struct opencl_charge charge;
	void *at;

	if (!devices || !size)
		return driver->real.clSVMAlloc(context, flags, size, alignment);
	if (!opencl_charge_reserve(guest, devices, size, &charge))
		return NULL;
	at = svm_alloc(guest, driver, context, flags, size, alignment, &charge);
	if (at)
		opencl_charge_commit(&charge);
	else
		opencl_charge_cancel(&charge);
	return at;
}

void opencl_hook_clSVMFree(cl_context context, void *svm_pointer)
{
	const struct opencl_driver *driver = opencl_driver_of(context);
	struct guest *guest = guest_made();
	struct opencl_release release;
	struct object object;

	if (!guest || !svm_pointer || guest_inside() ||
	    !object_take(guest->objects, OBJECT_OPENCL, (uintptr_t)svm_pointer, &object)) {
		driver->real.clSVMFree(context, svm_pointer);
		return;
	}
	opencl_release_begin(guest, object.opencl.devices, &release);
	driver->real.clSVMFree(context, svm_pointer);
	opencl_release_add(&release, object.opencl.devices, object.bytes);
	opencl_release_end(&release);
}

/* In place of the driver's own way, as the command runs. */
static void svm_free_queued(cl_command_queue queue, cl_uint num_svm_pointers, void *svm_pointers[],
			    void *context)
{
	for (cl_uint i = 0; i < num_svm_pointers; i++)
		opencl_hook_clSVMFree(context, svm_pointers[i]);
}

/* A function of the program's frees by clSVMFree, which is hooked. */
cl_int opencl_hook_clEnqueueSVMFree(cl_command_queue command_queue, cl_uint num_svm_pointers,
				    void *svm_pointers[],
				    void (*pfn_free_func)(cl_command_queue queue,
							  cl_uint num_svm_pointers,
							  void *svm_pointers[], void *user_data),
				    void *user_data, cl_uint num_events_in_wait_list,
				    const cl_event *event_wait_list, cl_event *event)
{
	const struct opencl_driver *driver = opencl_driver_of(command_queue);
	cl_context context;

	if (!pfn_free_func && command_queue && !guest_inside() &&
	    !OPENCL_DRIVER(driver, clGetCommandQueueInfo,
			   (command_queue, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL))) {
		pfn_free_func = svm_free_queued;
		user_data = context;
	}
	return driver->real.clEnqueueSVMFree(command_queue, num_svm_pointers, svm_pointers,
					     pfn_free_func, user_data, num_events_in_wait_list,
					     event_wait_list, event);
}
