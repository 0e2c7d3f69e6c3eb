/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects and shared virtual memory, counted by the region from when they are made until pocl
 * has done with them. Pieces are of 64 KiB, as large as the driver of a GPU makes them or smaller.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "sim/opencl/pocl.h"

#define PIECE ((size_t)65536)

static size_t memory_whole(size_t bytes)
{
	return (bytes + PIECE - 1) & ~(PIECE - 1);
}

static bool memory_take(size_t bytes)
{
	return sim_opencl_owns() && !sim_charge(sim_opencl_region, sim_opencl_row, 0, bytes);
}

static void memory_give_back(size_t bytes)
{
	if (sim_opencl_owns())
		sim_uncharge(sim_opencl_region, sim_opencl_row, 0, bytes, 0);
}

static void memory_ends(cl_mem memory, void *bytes)
{
	memory_give_back((size_t)bytes);
}

/* Its size is known once pocl has made it, which touches none of it. */
static cl_mem memory_made(cl_mem memory, cl_int *ret_error)
{
	size_t bytes = 0;

	if (!memory)
		return NULL;
	if (!sim_pocl.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL) &&
	    memory_take(memory_whole(bytes))) {
		bytes = memory_whole(bytes);
		if (!sim_pocl.clSetMemObjectDestructorCallback(memory, memory_ends, (void *)bytes))
			return memory;
		memory_give_back(bytes);
	}
	sim_pocl.clReleaseMemObject(memory);
	if (ret_error)
		*ret_error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
	return NULL;
}

static cl_mem memory_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
			    cl_int *ret_error)
{
	return memory_made(sim_pocl.clCreateBuffer(context, flags, size, host, ret_error), ret_error);
}

static cl_mem memory_buffer_with(cl_context context, const cl_mem_properties *properties,
				 cl_mem_flags flags, size_t size, void *host, cl_int *ret_error)
{
	return memory_made(sim_pocl.clCreateBufferWithProperties(context, properties, flags, size, host,
								 ret_error),
			   ret_error);
}

static cl_mem memory_image_2d(cl_context context, cl_mem_flags flags, const cl_image_format *format,
			      size_t width, size_t height, size_t pitch, void *host, cl_int *ret_error)
{
	return memory_made(sim_pocl.clCreateImage2D(context, flags, format, width, height, pitch, host,
						    ret_error),
			   ret_error);
}

static cl_mem memory_image_3d(cl_context context, cl_mem_flags flags, const cl_image_format *format,
			      size_t width, size_t height, size_t depth, size_t row, size_t slice,
			      void *host, cl_int *ret_error)
{
	return memory_made(sim_pocl.clCreateImage3D(context, flags, format, width, height, depth, row,
						    slice, host, ret_error),
			   ret_error);
}

static cl_mem memory_image(cl_context context, cl_mem_flags flags, const cl_image_format *format,
			   const cl_image_desc *desc, void *host, cl_int *ret_error)
{
	cl_mem memory = sim_pocl.clCreateImage(context, flags, format, desc, host, ret_error);

	return desc && desc->mem_object ? memory : memory_made(memory, ret_error);
}

static cl_mem memory_image_with(cl_context context, const cl_mem_properties *properties,
				cl_mem_flags flags, const cl_image_format *format,
				const cl_image_desc *desc, void *host, cl_int *ret_error)
{
	cl_mem memory = sim_pocl.clCreateImageWithProperties(context, properties, flags, format, desc, host,
							     ret_error);

	return desc && desc->mem_object ? memory : memory_made(memory, ret_error);
}

/* Shared virtual memory that is there. */
struct svm {
	struct svm *next;
	void *at;
	size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct svm *all;

static bool memory_svm_note(void *at, size_t bytes)
{
	struct svm *svm = malloc(sizeof(*svm));

	if (!svm)
		return false;
	*svm = (struct svm){.at = at, .bytes = bytes};
	pthread_mutex_lock(&lock);
	svm->next = all;
	all = svm;
	pthread_mutex_unlock(&lock);
	return true;
}

static void *memory_svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
	size_t bytes = memory_whole(size);
	void *at;

	if (!memory_take(bytes))
		return NULL;
	at = sim_pocl.clSVMAlloc(context, flags, size, alignment);
	if (at && memory_svm_note(at, bytes))
		return at;
	if (at)
		sim_pocl.clSVMFree(context, at);
	memory_give_back(bytes);
	return NULL;
}

static void memory_svm_free(cl_context context, void *at)
{
	struct svm *svm, **link;

	pthread_mutex_lock(&lock);
	for (link = &all; (svm = *link) && svm->at != at; link = &svm->next)
		;
	if (svm)
		*link = svm->next;
	pthread_mutex_unlock(&lock);
	sim_pocl.clSVMFree(context, at);
	if (svm)
		memory_give_back(svm->bytes);
	free(svm);
}

static void memory_svm_queued(cl_command_queue queue, cl_uint n, void *at[], void *context)
{
	for (cl_uint i = 0; i < n; i++)
		memory_svm_free(context, at[i]);
}

static cl_int memory_enqueue_svm_free(cl_command_queue queue, cl_uint n, void *at[],
				      void (*own)(cl_command_queue queue, cl_uint n, void *at[],
						  void *user_data),
				      void *user_data, cl_uint waits, const cl_event *wait, cl_event *event)
{
	cl_context context;

	if (!own && !sim_pocl.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL)) {
		own = memory_svm_queued;
		user_data = context;
	}
	return sim_pocl.clEnqueueSVMFree(queue, n, at, own, user_data, waits, wait, event);
}

const struct sim_entry sim_memory_entries[] = {
	{14, (void *)memory_buffer},
	{15, (void *)memory_image_2d},
	{16, (void *)memory_image_3d},
	{96, (void *)memory_image},
	{126, (void *)memory_svm_alloc},
	{127, (void *)memory_svm_free},
	{128, (void *)memory_enqueue_svm_free},
	{146, (void *)memory_buffer_with},
	{147, (void *)memory_image_with},
	{0, NULL},
};
