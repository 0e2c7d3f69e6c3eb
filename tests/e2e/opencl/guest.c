/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses OpenCL as told, one command a line, one line of answer each:
 *
 *   guest loader|own        enters by libOpenCL.so.1, or by a driver's two functions and its table
 *   guest truth             no OpenCL at all
 *
 *   open [cpu]              a context of a GPU: 0, or the error
 *   devices                 how many, total bytes, largest buffer
 *   buffer BYTES [FLAGS]    errors of OpenCL, or 0; the same for the next ones
 *   properties BYTES        a buffer by clCreateBufferWithProperties
 *   image W H               of four floats a pixel
 *   image2d W H             the same by the function of OpenCL 1.0
 *   sub                     all of the last buffer, whose parent is then released
 *   free                    the last object
 *   svm BYTES               0: there is some
 *   svmfree, svmqueue       the last one, by a call or by a queue
 *   named BYTES             a buffer by the function that clGetExtensionFunctionAddress finds
 *   cuda BYTES              device memory by CUDA, in the same process
 *   close                   the context
 *   steps N SEED            N steps at random: bytes that objects should have, as counted here
 *   held                    bytes that this process has by the simulator's count
 *   used                    those of all processes
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "nvidia/cuda_api.h"
#include "opencl/abi/opencl.h"
#include "opencl/opencl_size.h"
#include "sim/truth.h"
#include "tests/check.h"

#define OBJECTS 64
#define LOADER	"libOpenCL.so.1"
#define DRIVER	"libopencl_allot_sim.so"

#define MORE(X)                                                                                          \
	X(7, cl_int, clReleaseContext, (cl_context context))                                             \
	X(9, cl_command_queue, clCreateCommandQueue,                                                     \
	  (cl_context context, cl_device_id device, cl_bitfield properties, cl_int * error))             \
	X(11, cl_int, clReleaseCommandQueue, (cl_command_queue queue))                                   \
	X(17, cl_int, clRetainMemObject, (cl_mem memory))                                                \
	X(47, cl_int, clFinish, (cl_command_queue queue))                                                \
	X(65, void *, clGetExtensionFunctionAddress, (const char *name))                                 \
	X(82, cl_mem, clCreateSubBuffer,                                                                 \
	  (cl_mem buffer, cl_mem_flags flags, cl_uint type, const void *info, cl_int *error))

static struct {
#define OPENCL_HOOK(index, version, result, name, params) result(*name) params;
#define OPENCL_CALL(index, version, result, name, params) result(*name) params;
#include "opencl/opencl_api.def"
#define X(index, result, name, params) result(*name) params;
	MORE(X)
#undef X
} cl;

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_mem objects[OBJECTS];
static void *svm[OBJECTS];
static int nobjects, nsvm;
static struct sim_truth *truth;

static void load_by_table(void **table)
{
#define OPENCL_HOOK(index, version, result, name, params) cl.name = (__typeof__(cl.name))table[index];
#define OPENCL_CALL(index, version, result, name, params) cl.name = (__typeof__(cl.name))table[index];
#include "opencl/opencl_api.def"
#define X(index, result, name, params) cl.name = (__typeof__(cl.name))table[index];
	MORE(X)
#undef X
}

static void load_by_name(void *handle)
{
#define OPENCL_HOOK(index, version, result, name, params) \
	CHECK(cl.name = (__typeof__(cl.name))dlsym(handle, #name));
#define OPENCL_CALL(index, version, result, name, params) \
	CHECK(cl.name = (__typeof__(cl.name))dlsym(handle, #name));
#include "opencl/opencl_api.def"
#define X(index, result, name, params) CHECK(cl.name = (__typeof__(cl.name))dlsym(handle, #name));
	MORE(X)
#undef X
}

typedef cl_int platforms_fn(cl_uint n, cl_platform_id *platforms, cl_uint *ret_n);

static void load(const char *by)
{
	bool loader = !strcmp(by, "loader");
	void *handle = dlopen(loader ? LOADER : DRIVER, RTLD_NOW), *(*find)(const char *name);
	platforms_fn *platforms;
	cl_uint n = 0;

	CHECK(handle);
	if (loader) {
		load_by_name(handle);
		platforms = (platforms_fn *)dlsym(handle, "clGetPlatformIDs");
	} else {
		find = (void *(*)(const char *))dlsym(handle, "clGetExtensionFunctionAddress");
		CHECK(find);
		platforms = (platforms_fn *)find("clIcdGetPlatformIDsKHR");
	}
	CHECK(platforms);
	CHECK_EQ(platforms(1, &platform, &n), 0);
	if (!loader)
		load_by_table(*(void ***)platform);
}

static int open_context(cl_device_type type)
{
	cl_int r = cl.clGetDeviceIDs(platform, type, 1, &device, NULL);

	if (r)
		return r;
	context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &r);
	if (!r)
		queue = cl.clCreateCommandQueue(context, device, 0, &r);
	return r;
}

static int close_context(void)
{
	CHECK_EQ(cl.clReleaseCommandQueue(queue), 0);
	return cl.clReleaseContext(context);
}

static int keep(cl_mem memory, cl_int error)
{
	CHECK(!memory == !!error);
	if (memory) {
		CHECK(nobjects < OBJECTS);
		objects[nobjects++] = memory;
	}
	return error;
}

static int make_buffer(size_t bytes, cl_mem_flags flags)
{
	cl_int error;
	cl_mem memory = cl.clCreateBuffer(context, flags, bytes, NULL, &error);

	/* A caller that does not ask for the error is refused, too. */
	if (!memory)
		CHECK(!cl.clCreateBuffer(context, flags, bytes, NULL, NULL));
	return keep(memory, error);
}

static int make_with_properties(size_t bytes)
{
	cl_int error;
	cl_mem memory = cl.clCreateBufferWithProperties(context, NULL, 0, bytes, NULL, &error);

	return keep(memory, error);
}

static int make_image(size_t width, size_t height, bool old)
{
	cl_image_format format = {.image_channel_order = 0x10B5 /* CL_RGBA */,
				  .image_channel_data_type = 0x10DE /* CL_FLOAT */};
	cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width,
			      .image_height = height};
	cl_int error;
	cl_mem memory = old ? cl.clCreateImage2D(context, 0, &format, width, height, 0, NULL, &error)
			    : cl.clCreateImage(context, 0, &format, &desc, NULL, &error);

	return keep(memory, error);
}

static int make_sub(void)
{
	size_t region[2] = {0, 4096};
	cl_int error;
	cl_mem parent = objects[nobjects - 1], sub;

	sub = cl.clCreateSubBuffer(parent, 0, 0x1220 /* CL_BUFFER_CREATE_TYPE_REGION */, region, &error);
	if (error)
		return error;
	objects[nobjects - 1] = sub;
	return cl.clReleaseMemObject(parent);
}

static int make_svm(size_t bytes)
{
	void *at = cl.clSVMAlloc(context, 0, bytes, 0);

	if (at)
		svm[nsvm++] = at;
	return !at;
}

static int free_svm(bool queued)
{
	void *at = svm[--nsvm];

	if (!queued) {
		cl.clSVMFree(context, at);
		return 0;
	}
	return cl.clEnqueueSVMFree(queue, 1, &at, NULL, NULL, 0, NULL, NULL) ?: cl.clFinish(queue);
}

static int make_named(size_t bytes)
{
	cl_mem memory;
	cl_int error;
	__typeof__(cl.clCreateBuffer) make =
		(__typeof__(make))cl.clGetExtensionFunctionAddressForPlatform(platform, "clCreateBuffer");

	CHECK(make);
	memory = make(context, 0, bytes, NULL, &error);
	return keep(memory, error);
}

static int make_cuda(size_t bytes)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext ctx;
	CUdeviceptr at;

	CHECK(handle);
	cuda_driver_bind(handle, dlsym);
	CHECK_EQ(cuda_real.cuInit(0), 0);
	CHECK_EQ(cuda_real.cuDevicePrimaryCtxRetain(&ctx, 0), 0);
	CHECK_EQ(cuda_real.cuCtxSetCurrent(ctx), 0);
	return cuda_real.cuMemAlloc_v2(&at, bytes);
}

/* An object of the steps: references that this program has, and objects that keep its memory. */
struct step {
	cl_mem memory;
	int refs, parent; /* -1: it is no part of another one */
	int parts;	  /* that live */
	size_t bytes;	  /* 0: it is a part */
};

static struct step steps[OBJECTS];

static void step_die(struct step *step)
{
	while (step && !step->refs && !step->parts && step->memory) {
		struct step *parent = step->parent >= 0 ? &steps[step->parent] : NULL;

		step->memory = NULL;
		if (parent)
			parent->parts--;
		step = parent;
	}
}

static void step_make(int i, int chosen)
{
	struct step *parent = &steps[chosen];
	size_t region[2] = {0, 4096}, bytes = (size_t)(1 + rand() % (8 << 20));
	cl_int error;

	if (parent->memory && parent->refs && parent->bytes > 4096 && rand() % 2) {
		steps[i] = (struct step){.refs = 1, .parent = chosen};
		steps[i].memory = cl.clCreateSubBuffer(parent->memory, 0, 0x1220, region, &error);
		CHECK_EQ(error, 0);
		parent->parts++;
		return;
	}
	steps[i] = (struct step){.refs = 1, .parent = -1, .bytes = bytes};
	steps[i].memory = cl.clCreateBuffer(context, 0, bytes, NULL, &error);
	CHECK(error == 0 || error == CL_MEM_OBJECT_ALLOCATION_FAILURE);
	if (error)
		steps[i] = (struct step){.memory = NULL};
}

static void step_release(struct step *step)
{
	CHECK_EQ(cl.clReleaseMemObject(step->memory), 0);
	step->refs--;
	step_die(step);
}

/* A step about one of the objects, or in place of one that is not there. */
static void step_do(void)
{
	int i = rand() % OBJECTS;

	if (!steps[i].memory) {
		step_make(i, rand() % OBJECTS);
	} else if (steps[i].refs && steps[i].refs < 4 && rand() % 4 == 0) {
		CHECK_EQ(cl.clRetainMemObject(steps[i].memory), 0);
		steps[i].refs++;
	} else if (steps[i].refs) {
		step_release(&steps[i]);
	}
}

static unsigned long long steps_do(int n, unsigned int seed)
{
	unsigned long long sum = 0;

	if (seed)
		srand(seed);
	for (int i = 0; i < n; i++)
		step_do();
	for (int i = 0; i < OBJECTS; i++)
		sum += steps[i].memory ? opencl_size_whole(steps[i].bytes) : 0;
	return sum;
}

static void show_devices(void)
{
	cl_device_id all[8];
	cl_ulong total = 0, most = 0;
	cl_uint n = 0;
	cl_int r = cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, all, &n);

	if (!r) {
		cl.clGetDeviceInfo(all[0], CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(total), &total, NULL);
		cl.clGetDeviceInfo(all[0], CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(most), &most, NULL);
	}
	printf("%d %u %llu %llu\n", r, n, (unsigned long long)total, (unsigned long long)most);
}

static bool told(const char *line, const char *word)
{
	return !strncmp(line, word, strlen(word)) && strchr(" \n", line[strlen(word)]);
}

static int obey_free(void)
{
	return cl.clReleaseMemObject(objects[--nobjects]);
}

static int obey(const char *line, size_t a, size_t b)
{
	return told(line, "open")	  ? open_context(strstr(line, "cpu") ? CL_DEVICE_TYPE_CPU : CL_DEVICE_TYPE_GPU)
	       : told(line, "close")	  ? close_context()
	       : told(line, "buffer")	  ? make_buffer(a, b)
	       : told(line, "properties") ? make_with_properties(a)
	       : told(line, "image")	  ? make_image(a, b, false)
	       : told(line, "image2d")	  ? make_image(a, b, true)
	       : told(line, "sub")	  ? make_sub()
	       : told(line, "free")	  ? obey_free()
	       : told(line, "svm")	  ? make_svm(a)
	       : told(line, "svmfree")	  ? free_svm(false)
	       : told(line, "svmqueue")	  ? free_svm(true)
	       : told(line, "named")	  ? make_named(a)
	       : told(line, "cuda")	  ? make_cuda(a)
					  : 1000;
}

int main(int argc, char **argv)
{
	char line[128];

	CHECK_EQ(argc, 2);
	CHECK_EQ(sim_truth_create(NULL, &truth), 0);
	if (strcmp(argv[1], "truth"))
		load(argv[1]);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long long a = 0, b = 0;

		sscanf(line, "%*s %llu %llu", &a, &b);
		if (told(line, "devices"))
			show_devices();
		else if (told(line, "steps"))
			printf("%llu\n", steps_do((int)a, (unsigned int)b));
		else if (told(line, "held"))
			printf("%llu\n", (unsigned long long)sim_truth_process(truth, getpid(), 0));
		else if (told(line, "used"))
			printf("%llu\n", (unsigned long long)sim_truth_used(truth, 0));
		else
			printf("%d\n", obey(line, a, b));
		fflush(stdout);
	}
	return 0;
}
