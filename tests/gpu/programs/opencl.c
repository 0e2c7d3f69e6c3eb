/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl MIB [any]: takes so much of the first of NVIDIA's GPUs by OpenCL, writes all of it, says
 * that it holds it, and ends when its input does. With "any" it takes any vendor's device, so that
 * it can be tried where there is no GPU. What it uses of OpenCL's headers is written down here,
 * since few machines that have a driver have them. So it is with libOpenCL.so.1, which only looks
 * for the drivers' libraries: without it NVIDIA's is asked in the way that libOpenCL.so.1 does it.
 */
#include "absent.h"

#define LOADER "libOpenCL.so.1"
#define DRIVER "libnvidia-opencl.so.1"

#define PIECE  (256 * MIB)
#define STAGE  (32 * MIB)
#define NVIDIA 0x10de

enum {
	CL_DEVICE_TYPE_GPU = 1 << 2,
	CL_MEM_READ_WRITE = 1 << 0,
	CL_DEVICE_VENDOR_ID = 0x1001,
	CL_PLATFORMS = 8,
};
#define CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)

/*
 * Calls, each with its place in the table that every object of a driver's begins with, by which
 * libOpenCL.so.1 passes calls on.
 */
#define CL_CALLS(call)                                                                            \
	call(2, int, clGetDeviceIDs,                                                              \
	     (void *platform, uint64_t type, uint32_t n, void **ret, uint32_t *ret_n))            \
	call(3, int, clGetDeviceInfo,                                                             \
	     (void *device, uint32_t what, size_t size, void *ret, size_t *ret_size))             \
	call(4, void *, clCreateContext,                                                          \
	     (const intptr_t *properties, uint32_t n, void *const *devices, void *notify,         \
	      void *data, int *ret_error))                                                        \
	call(9, void *, clCreateCommandQueue,                                                     \
	     (void *context, void *device, uint64_t properties, int *ret_error))                  \
	call(14, void *, clCreateBuffer,                                                          \
	     (void *context, uint64_t flags, size_t size, void *host, int *ret_error))            \
	call(47, int, clFinish, (void *queue))                                                    \
	call(49, int, clEnqueueWriteBuffer,                                                       \
	     (void *queue, void *buffer, uint32_t blocking, size_t offset, size_t size,           \
	      const void *from, uint32_t nwait, void *const *wait, void **ret_event))

#define CL_MEMBER(place, type, name, params) type(*name) params;
static struct {
	CL_CALLS(CL_MEMBER)
} cl;

typedef int cl_platforms_fn(uint32_t n, void **ret, uint32_t *ret_n);
typedef void *cl_address_fn(const char *name);

static bool any;

static void bind_loader(void *library)
{
#define CL_BIND(place, type, name, params) cl.name = (type(*) params)dlsym(library, #name);
	CL_CALLS(CL_BIND)
}

static void bind_platform(void *platform)
{
	void *const *table = *(void *const **)platform;

#define CL_PASS(place, type, name, params) cl.name = (type(*) params)table[place];
	CL_CALLS(CL_PASS)
}

/* A device of the wanted vendor, or NULL. */
static void *find_device(const char *library, cl_platforms_fn *platforms, bool is_loader)
{
	void *platform[CL_PLATFORMS], *device;
	uint32_t n = 0, vendor = 0;
	int r = platforms(CL_PLATFORMS, platform, &n);

	if (r)
		absent_note(library, "clGetPlatformIDs fails", r);
	for (uint32_t i = 0; !r && i < n && i < CL_PLATFORMS; i++) {
		if (!is_loader)
			bind_platform(platform[i]);
		if (!cl.clGetDeviceIDs(platform[i], any ? CL_DEVICE_TYPE_ALL : CL_DEVICE_TYPE_GPU,
				       1, &device, NULL) &&
		    !cl.clGetDeviceInfo(device, CL_DEVICE_VENDOR_ID, sizeof(vendor), &vendor,
					NULL) &&
		    (any || vendor == NVIDIA))
			return device;
	}
	if (!r)
		absent_note(library, "no GPU of NVIDIA's", 0);
	return NULL;
}

static void *device_of_loader(void)
{
	void *library = absent_open(LOADER);
	cl_platforms_fn *platforms;

	if (!library)
		return NULL;
	platforms = (cl_platforms_fn *)dlsym(library, "clGetPlatformIDs");
	bind_loader(library);
	return platforms ? find_device(LOADER, platforms, true) : NULL;
}

static void *device_of_driver(void)
{
	void *library = absent_open(DRIVER);
	cl_platforms_fn *platforms;
	cl_address_fn *address;

	if (!library)
		return NULL;
	address = (cl_address_fn *)dlsym(library, "clGetExtensionFunctionAddress");
	platforms = address ? (cl_platforms_fn *)address("clIcdGetPlatformIDsKHR") : NULL;
	if (!platforms)
		absent_note(DRIVER, "no clIcdGetPlatformIDsKHR", 0);
	return platforms ? find_device(DRIVER, platforms, false) : NULL;
}

/* Drivers take memory when it is first used. */
static void take(void *context, void *queue, uint64_t bytes)
{
	static const char stage[STAGE];
	void *buffer;
	int r = 0;

	for (uint64_t got = 0; got < bytes; got += PIECE) {
		buffer = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, PIECE, NULL, &r);
		absent_must(r, "clCreateBuffer");
		for (uint64_t at = 0; at < PIECE; at += STAGE)
			absent_must(cl.clEnqueueWriteBuffer(queue, buffer, true, at, STAGE, stage,
							    0, NULL, NULL),
				    "clEnqueueWriteBuffer");
	}
	absent_must(cl.clFinish(queue), "clFinish");
}

int main(int argc, char **argv)
{
	void *device, *context, *queue;
	char word[32];
	int r = 0;

	if (argc < 2)
		return 2;
	any = argc > 2 && !strcmp(argv[2], "any");
	child_watched(120);
	device = device_of_loader();
	if (!device)
		device = device_of_driver();
	if (!device)
		absent_all();
	context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &r);
	absent_must(r, "clCreateContext");
	queue = cl.clCreateCommandQueue(context, device, 0, &r);
	absent_must(r, "clCreateCommandQueue");
	take(context, queue, strtoull(argv[1], NULL, 10) * MIB);
	printf("{\"stage\": \"held\", \"pid\": %d}\n", getpid());
	while (child_told(word))
		;
	return 0;
}
