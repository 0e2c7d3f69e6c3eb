/* SPDX-License-Identifier: Apache-2.0 */
/*
 * way: fills the first device and says what it was told. Built twice: LINKED calls the driver as a
 * program linked with -lcuda does; else every function comes from cuGetProcAddress, as the CUDA
 * runtime gets them.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nvidia/abi/cuda.h"

#define USES(X)                                                                      \
	X(cuInit, "cuInit", (unsigned int flags))                                    \
	X(cuDeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal))               \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                      \
	  (CUcontext *context, CUdevice device))                                     \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                   \
	X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", (size_t *bytes, CUdevice device)) \
	X(cuMemGetInfo_v2, "cuMemGetInfo", (size_t *free_bytes, size_t *total))      \
	X(cuMemAlloc_v2, "cuMemAlloc", (CUdeviceptr *ptr, size_t bytes))

#ifdef LINKED
#define DECLARE(name, plain, params) CUresult name params;
USES(DECLARE)
#define CALL(name) name
static void load(void) {}
#else
#define MEMBER(name, plain, params) CUresult (*name) params;
static struct {
	USES(MEMBER)
} found;
#define CALL(name) found.name

static void load(void)
{
	CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	*(void **)&get = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
	if (!get)
		exit(2);
#define FIND(name, plain, params) \
	if (get(plain, (void **)&found.name, 12000, 0, NULL) || !found.name) \
		exit(3);
	USES(FIND)
}
#endif

int main(void)
{
	size_t free_bytes, total, device_total, got = 0;
	CUcontext context;
	CUdeviceptr ptr;
	CUdevice device;
	CUresult r = CUDA_SUCCESS;
	char c;

	alarm(60);
	load();
	if (CALL(cuInit)(0) || CALL(cuDeviceGet)(&device, 0) ||
	    CALL(cuDevicePrimaryCtxRetain)(&context, device) || CALL(cuCtxSetCurrent)(context) ||
	    CALL(cuDeviceTotalMem_v2)(&device_total, device) ||
	    CALL(cuMemGetInfo_v2)(&free_bytes, &total))
		return 1;
	for (size_t piece = 64 << 20; piece >= 2 << 20; piece /= 2)
		while (!(r = CALL(cuMemAlloc_v2)(&ptr, piece)))
			got += piece;
	printf("{\"stage\": \"full\", \"total\": %zu, \"device_total\": %zu, \"bytes\": %zu, "
	       "\"refused\": %d}\n",
	       total, device_total, got, (int)r);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
