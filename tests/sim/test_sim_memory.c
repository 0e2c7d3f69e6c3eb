/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc and what else takes device memory in one process: what each costs, and gives back. */
#include "tests/sim/sim_test.h"

#define TOTAL (1024 * MIB)

static void test_granules(void)
{
	CUdeviceptr p[5000], base;
	size_t size;
	uint64_t before = used(0);

	OK(cuMemAlloc_v2(&p[0], 1 * MIB)); /* the smallest with a granule of its own */
	CHECK_EQ(used(0) - before, 2 * MIB);
	OK(cuMemAlloc_v2(&p[1], 2 * MIB + 1));
	CHECK_EQ(used(0) - before, 6 * MIB);
	OK(cuMemFree_v2(p[1]));
	OK(cuMemFree_v2(p[0]));
	CHECK_EQ(used(0), before);

	/* 4096 of 512 bytes fill one chunk; one more takes another. */
	for (int i = 0; i < 4097; i++) {
		OK(cuMemAlloc_v2(&p[i], 1 + i % 512));
		CHECK_EQ(p[i] % 512, 0);
		CHECK_EQ(used(0) - before, i < 4096 ? 2 * MIB : 4 * MIB);
	}
	OK(cuMemGetAddressRange_v2(&base, &size, p[7] + 3));
	CHECK_EQ(base, p[7]);
	CHECK_EQ(size, 8);
	for (int i = 0; i < 4097; i++)
		OK(cuMemFree_v2(p[i]));
	CHECK_EQ(used(0), before);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p[0]));
	OK(cuMemFree_v2(0));
}

static void test_capacity(void)
{
	CUdeviceptr p, last;
	size_t free, total;
	uint64_t before = used(0);

	OK(cuMemGetInfo_v2(&free, &total));
	CHECK_EQ(total, TOTAL);
	CHECK_EQ(free, TOTAL - before);
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&p, free + 1));
	OK(cuMemAlloc_v2(&p, free));
	CHECK_EQ(used(0), TOTAL);
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&last, 1));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&last, SIZE_MAX));
	CHECK_EQ(sim_truth_peak(truth, 0), TOTAL);
	OK(cuMemFree_v2(p));
	sim_truth_reset_peak(truth, 0);
	CHECK_EQ(sim_truth_peak(truth, 0), before);
	OK(cuMemAlloc_v2(&p, 100 * MIB));
	OK(cuMemFree_v2(p));
	CHECK_EQ(sim_truth_peak(truth, 0), before + 100 * MIB);
	CHECK_EQ(sim_truth_process(truth, getpid(), 0), before);
}

static void test_content(void)
{
	CUdeviceptr p, q;
	size_t pitch;

	OK(cuMemAlloc_v2(&p, 3 * MIB));
	OK(cuMemAlloc_v2(&q, 100));
	memset((void *)p, 1, 3 * MIB);
	memset((void *)q, 2, 100);
	CHECK_EQ(((unsigned char *)p)[3 * MIB - 1], 1);
	OK(cuMemFree_v2(p));
	OK(cuMemFree_v2(q));
	OK(cuMemAllocPitch_v2(&p, &pitch, 1000, 3000, 4));
	CHECK_EQ(pitch, 1024);
	OK(cuMemFree_v2(p));
	OK(cuMemAllocManaged(&p, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemFree_v2(p));
}

static void test_host(void)
{
	uint64_t before = used(0);
	static char own[8192];
	CUdeviceptr d;
	void *p;

	OK(cuMemHostAlloc(&p, 10 * MIB, 0));
	CHECK_EQ(used(0), before);
	((char *)p)[10 * MIB - 1] = 1;
	OK(cuMemHostGetDevicePointer_v2(&d, p, 0));
	CHECK_EQ(d, (CUdeviceptr)p);
	OK(cuMemFreeHost(p));
	OK(cuMemHostRegister_v2(own, sizeof(own), 0));
	GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(own, 1, 0));
	OK(cuMemHostUnregister(own));
	GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(own));
}

static void test_pointer(CUcontext ctx)
{
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	int ordinal, type, here;
	void *answers[] = {&ordinal, &type};
	CUcontext of;
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, 2 * MIB));
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	CHECK(of == ctx);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
	CHECK_EQ(type, CU_MEMORYTYPE_DEVICE);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&here));
	OK(cuPointerGetAttributes(2, names, answers, (CUdeviceptr)&here));
	CHECK_EQ(ordinal, CU_DEVICE_INVALID);
	CHECK_EQ(type, 0);
	OK(cuMemFree_v2(p));
}

static void test_contexts(void)
{
	uint64_t before = used(0);
	CUcontext ctx, primary, now;
	CUdeviceptr p;
	unsigned int flags;
	int active;

	OK(cuCtxGetCurrent(&primary));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	CHECK_EQ(used(0) - before, 64 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1025));
	CHECK_EQ(used(0) - before, 66 * MIB); /* one byte x 2048 threads x 132 SMs */
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1 << 20));
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuMemAlloc_v2(&p, 10));
	OK(cuCtxDestroy_v2(ctx)); /* and all that it had */
	CHECK_EQ(used(0), before);
	GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxPushCurrent_v2(ctx));
	OK(cuCtxGetCurrent(&now));
	CHECK(now == primary);

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(ctx == primary);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK_EQ(used(0), before);
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK_EQ(used(0), before - 64 * MIB);
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK_EQ(active, 0);
	GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&p, 1));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(ctx == primary);
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK_EQ(used(0), before - 64 * MIB);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK_EQ(used(0), before);
}

static void test_modules(void)
{
	uint64_t before = used(0);
	static const char big[] = "allot-sim-module bytes=5000000\n", ptx[] = ".version 9.0";
	CUmodule m[3];
	CUfunction f;
	CUlibrary lib;
	CUkernel k;
	const char *name;

	OK(cuModuleLoadData(&m[0], big));
	CHECK_EQ(used(0), before); /* lazily */
	OK(cuModuleGetFunction(&f, m[0], "anything"));
	CHECK_EQ(used(0) - before, 6 * MIB);
	OK(cuModuleLoadData(&m[1], ptx));
	OK(cuModuleLoadData(&m[2], ptx));
	OK(cuModuleGetFunction(&f, m[1], "a"));
	OK(cuModuleGetFunction(&f, m[2], "a"));
	CHECK_EQ(used(0) - before, 8 * MIB); /* both in one granule */
	OK(cuModuleUnload(m[1]));
	CHECK_EQ(used(0) - before, 8 * MIB);
	OK(cuModuleUnload(m[2]));
	OK(cuModuleUnload(m[0]));
	CHECK_EQ(used(0), before);
	GIVES(CUDA_ERROR_INVALID_HANDLE, cuFuncLoad(f));

	OK(cuLibraryLoadData(&lib, big, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&k, lib, "kernel"));
	CHECK_EQ(used(0), before);
	OK(cuKernelGetFunction(&f, k));
	OK(cuFuncGetName(&name, f));
	CHECK(!strcmp(name, "kernel"));
	CHECK_EQ(used(0) - before, 6 * MIB);
	OK(cuLibraryUnload(lib));
	CHECK_EQ(used(0), before);

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	OK(cuModuleLoadData(&m[0], big));
	CHECK_EQ(used(0) - before, 6 * MIB);
	OK(cuModuleUnload(m[0]));
	unsetenv("CUDA_MODULE_LOADING");
	GIVES(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&m[0], "/nonexistent"));
}

static void test_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		CUdeviceptr p;
		int n;

		GIVES(CUDA_ERROR_NOT_INITIALIZED, cuInit(0));
		GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
		GIVES(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&p, 1));
		exit(0);
	}
	sim_reap(pid);
}

int main(void)
{
	CUcontext ctx;
	CUdeviceptr p;
	int n;

	sim_begin("1", "1GiB");
	GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
	OK(cuInit(0));
	GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&p, 1));
	CHECK_EQ(used(0), 0);
	ctx = sim_context(0);
	CHECK_EQ(used(0), 64 * MIB);
	test_granules();
	test_capacity();
	test_content();
	test_host();
	test_pointer(ctx);
	test_contexts();
	test_modules();
	test_fork();
	CHECK_EQ(used(0), 64 * MIB);
	return 0;
}
