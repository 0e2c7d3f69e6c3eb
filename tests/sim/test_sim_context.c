/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of contexts beside their own size: when it is taken and given back, as on an H200. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/sim/sim_test.h"

static void launch(CUfunction function)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static CUfunction load(const char *text)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&function, module, "any"));
	return function;
}

static size_t limit(CUlimit which)
{
	size_t value;

	OK(cuCtxGetLimit(&value, which));
	return value;
}

static void test_heap(void)
{
	static const char uses[] = "allot-sim-module bytes=2000000 heap\n";
	uint64_t before = used(0);
	CUfunction function, plain;
	CUcontext ctx, other;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 508 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 108 * MIB));
	plain = load("allot-sim-module bytes=2000000\n");
	function = load(uses);
	launch(plain);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 108 * MIB));
	CHECK_EQ(used(0) - before, (64 + 2 + 2) * MIB);
	launch(function);
	CHECK_EQ(used(0) - before, (68 + 110) * MIB);
	launch(function);
	CHECK_EQ(used(0) - before, (68 + 110) * MIB);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 108 * MIB));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
	CHECK_EQ(limit(CU_LIMIT_MALLOC_HEAP_SIZE), 108 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));

	/* Each context has a heap of its own. */
	OK(cuCtxCreate_v2(&other, 0, 0));
	launch(load(uses));
	CHECK_EQ(used(0) - before, (178 + 64 + 2 + 10) * MIB);
	OK(cuCtxDestroy_v2(other));
	CHECK_EQ(used(0) - before, 178 * MIB);
	OK(cuCtxDestroy_v2(ctx));
	CHECK_EQ(used(0), before);
}

/* A launch that finds no room for the heap is refused, and the next one may find it. */
static void test_heap_refused(void)
{
	uint64_t before = used(0);
	CUfunction function;
	CUcontext ctx;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, SIZE_MAX));
	function = load("allot-sim-module bytes=2000000 heap\n");
	GIVES(CUDA_ERROR_OUT_OF_MEMORY,
	      cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2048 * MIB));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY,
	      cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	CHECK_EQ(used(0) - before, 66 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 30 * MIB));
	launch(function);
	CHECK_EQ(used(0) - before, (66 + 32) * MIB);
	OK(cuCtxDestroy_v2(ctx));
	CHECK_EQ(used(0), before);
}

/* A graph backs the heap when it is launched, not when it is captured. */
static void test_heap_graph(void)
{
	uint64_t before = used(0);
	CUgraphExec exec;
	CUfunction function;
	CUstream stream;
	CUcontext ctx;
	CUgraph graph;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	function = load("allot-sim-module bytes=2000000 heap\n");
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 20 * MIB));
	CHECK_EQ(used(0) - before, 66 * MIB);
	OK(cuGraphLaunch(exec, stream));
	CHECK_EQ(used(0) - before, (66 + 22) * MIB);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 20 * MIB));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuCtxDestroy_v2(ctx));
	CHECK_EQ(used(0), before);
}

static void test_fifo(void)
{
	static const char prints[] = "allot-sim-module bytes=2000000 printf\n";
	uint64_t before = used(0);
	CUfunction function;
	CUmodule module;
	CUcontext ctx;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 300 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 63 * MIB));
	launch(load("allot-sim-module bytes=2000000\n"));
	CHECK_EQ(used(0) - before, (64 + 2) * MIB);
	function = load(prints);
	CHECK_EQ(used(0) - before, (66 + 2 + 64) * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 63 * MIB));
	launch(function);
	CHECK_EQ(used(0) - before, (66 + 2 + 64) * MIB);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 63 * MIB));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, MIB));
	CHECK_EQ(limit(CU_LIMIT_PRINTF_FIFO_SIZE), 63 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 20 * MIB));
	load(prints);
	CHECK_EQ(used(0) - before, (66 + 4 + 64) * MIB);
	OK(cuCtxDestroy_v2(ctx));
	CHECK_EQ(used(0), before);

	/* The default is part of the context. A load that finds no room is refused. */
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	load(prints);
	CHECK_EQ(used(0) - before, (64 + 2) * MIB);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2048 * MIB));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuModuleLoadData(&module, prints));
	OK(cuCtxDestroy_v2(ctx));
	CHECK_EQ(used(0), before);
}

static bool primary_active(CUdevice device)
{
	unsigned int flags;
	int active;

	OK(cuDevicePrimaryCtxGetState(device, &flags, &active));
	return active;
}

static CUdevResourceDesc description(CUdevice device)
{
	CUdevResource all, groups[4], rest;
	CUdevResourceDesc desc;
	unsigned int n = 4;

	OK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK_EQ(all.sm.smCount, 132);
	OK(cuDevSmResourceSplitByCount(groups, &n, &all, &rest, 0, 30));
	CHECK_EQ(n, 4);
	CHECK_EQ(groups[0].sm.smCount, 32);
	CHECK_EQ(rest.sm.smCount, 4);
	OK(cuDevResourceGenerateDesc(&desc, groups, 1));
	return desc;
}

static void test_green(void)
{
	CUdevResourceDesc desc = description(1);
	CUgreenCtx green[3];
	CUcontext ctx, was;
	CUdeviceptr p, small, q;

	CHECK_EQ(used(1), 0);
	OK(cuGreenCtxCreate(&green[0], desc, 1, 1));
	CHECK(primary_active(1));
	CHECK_EQ(used(1), 70 * MIB);
	GIVES(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(1)); /* nobody retained it */
	OK(cuCtxGetCurrent(&was));
	OK(cuCtxFromGreenCtx(&ctx, green[0]));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	OK(cuMemAlloc_v2(&q, 20 * MIB));
	OK(cuMemAlloc_v2(&small, 100));
	launch(load("allot-sim-module bytes=2000000 heap\n"));
	OK(cuCtxSetCurrent(was));
	OK(cuGreenCtxCreate(&green[1], desc, 1, 1));
	OK(cuGreenCtxCreate(&green[2], desc, 1, 1));
	CHECK_EQ(used(1), (80 + 32 + 12) * MIB);

	/* The end of a green context gives nothing back; its memory is there until it is freed. */
	OK(cuGreenCtxDestroy(green[0]));
	OK(cuGreenCtxDestroy(green[2]));
	GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuGreenCtxDestroy(green[0]));
	CHECK_EQ(used(1), (80 + 32 + 12) * MIB);
	*(volatile char *)(q + 20 * MIB - 1) = 1;
	OK(cuMemFree_v2(q));
	OK(cuMemFree_v2(small));
	CHECK_EQ(used(1), (80 + 10 + 12) * MIB);
	CHECK(primary_active(1));
	OK(cuGreenCtxDestroy(green[1]));
	CHECK_EQ(used(1), 0);
	CHECK(!primary_active(1));

	OK(cuDevicePrimaryCtxRetain(&ctx, 1));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p));
	OK(cuDevicePrimaryCtxRelease_v2(1));
	CHECK_EQ(used(1), 0);
	CHECK(!primary_active(1));
}

/* The primary context ends with the last green context or the last retain, in either order. */
static void test_green_last(void)
{
	CUdevResourceDesc desc = description(1);
	CUcontext ctx, was;
	CUgreenCtx green;
	CUdeviceptr p;

	OK(cuCtxGetCurrent(&was));
	for (int retained_last = 0; retained_last < 2; retained_last++) {
		OK(cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cuGreenCtxCreate(&green, desc, 1, 1));
		OK(cuCtxSetCurrent(ctx));
		OK(cuMemAlloc_v2(&p, 300 * MIB));
		OK(cuCtxSetCurrent(was));
		if (retained_last)
			OK(cuGreenCtxDestroy(green));
		else
			OK(cuDevicePrimaryCtxRelease_v2(1));
		CHECK_EQ(used(1), (70 + 300) * MIB);
		CHECK(primary_active(1));
		if (retained_last)
			OK(cuDevicePrimaryCtxRelease_v2(1));
		else
			OK(cuGreenCtxDestroy(green));
		CHECK_EQ(used(1), 0);
		CHECK(!primary_active(1));
	}
}

static void test_green_reset(void)
{
	CUdevResourceDesc desc = description(1);
	CUgreenCtx green;

	OK(cuGreenCtxCreate(&green, desc, 1, 1));
	OK(cuDevicePrimaryCtxReset_v2(1));
	CHECK_EQ(used(1), 0);
	GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuGreenCtxDestroy(green));
	OK(cuGreenCtxCreate(&green, desc, 1, 1));
	CHECK_EQ(used(1), 70 * MIB);
	OK(cuGreenCtxDestroy(green));
	CHECK_EQ(used(1), 0);
}

/* Code of a library is in every context that exists, and in those that are made later. */
static void test_eager(void)
{
	static const char text[] = "allot-sim-module bytes=10000000\n";
	uint64_t before = used(0);
	CUcontext first, later, none;
	CUlibrary library, other;
	CUfunction function;
	CUmodule module;
	CUkernel kernel;

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	OK(cuCtxCreate_v2(&first, 0, 0));
	CHECK_EQ(used(0) - before, 64 * MIB);
	OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	CHECK_EQ(used(0) - before, (64 + 2 * 10) * MIB); /* also in the primary one */
	OK(cuCtxCreate_v2(&later, 0, 0));
	CHECK_EQ(used(0) - before, (2 * 64 + 3 * 10) * MIB);
	OK(cuLibraryGetKernel(&kernel, library, "any"));
	OK(cuKernelGetFunction(&function, kernel));
	CHECK_EQ(used(0) - before, (2 * 64 + 3 * 10) * MIB);
	OK(cuModuleLoadData(&module, text)); /* of the current one alone */
	CHECK_EQ(used(0) - before, (2 * 64 + 4 * 10) * MIB);

	/* A library without room in one context is in none, and such a context is not made. */
	GIVES(CUDA_ERROR_OUT_OF_MEMORY,
	      cuLibraryLoadData(&other, "allot-sim-module bytes=400000000\n", NULL, NULL, 0, NULL,
				NULL, 0));
	CHECK_EQ(used(0) - before, (2 * 64 + 4 * 10) * MIB);
	OK(cuLibraryLoadData(&other, "allot-sim-module bytes=200000000\n", NULL, NULL, 0, NULL,
			     NULL, 0));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate_v2(&none, 0, 0));
	OK(cuLibraryUnload(other));
	CHECK_EQ(used(0) - before, (2 * 64 + 4 * 10) * MIB);

	OK(cuCtxDestroy_v2(later));
	CHECK_EQ(used(0) - before, (64 + 2 * 10) * MIB);
	OK(cuLibraryUnload(library));
	CHECK_EQ(used(0) - before, 64 * MIB);
	OK(cuCtxDestroy_v2(first));
	CHECK_EQ(used(0), before);
	unsetenv("CUDA_MODULE_LOADING");
}

/* Without it a library is in a context from the first look-up of its function there. */
static void test_lazy(void)
{
	uint64_t before = used(0);
	CUcontext ctx, other;
	CUfunction function;
	CUlibrary library;
	CUkernel kernel;

	OK(cuLibraryLoadData(&library, "allot-sim-module bytes=10000000\n", NULL, NULL, 0, NULL,
			     NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "any"));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	CHECK_EQ(used(0) - before, 64 * MIB);
	OK(cuKernelGetFunction(&function, kernel));
	CHECK_EQ(used(0) - before, (64 + 10) * MIB);
	OK(cuCtxCreate_v2(&other, 0, 0));
	CHECK_EQ(used(0) - before, (2 * 64 + 10) * MIB);
	OK(cuCtxDestroy_v2(other));
	OK(cuLibraryUnload(library));
	OK(cuCtxDestroy_v2(ctx));
	CHECK_EQ(used(0), before);
}

static _Atomic bool over;

/* Any answer is in order, as the context may be gone by each call. */
static void *use_primary(void *unused)
{
	CUDA_ARRAY_DESCRIPTOR flat = {256, 256, CU_AD_FORMAT_FLOAT, 1};
	CUcontext primary;
	CUdeviceptr ptr;
	CUarray array;
	CUmodule module;
	CUevent event;

	(void)unused;
	while (!atomic_load(&over)) {
		if (cuDevicePrimaryCtxRetain(&primary, 1))
			continue;
		cuCtxSetCurrent(primary);
		if (!cuMemAlloc_v2(&ptr, 4096)) {
			cuCtxSynchronize();
			cuMemFree_v2(ptr);
		}
		if (!cuArrayCreate_v2(&array, &flat))
			cuArrayDestroy(array);
		if (!cuModuleLoadData(&module, "allot-sim-module bytes=2000000\n"))
			cuModuleUnload(module);
		if (!cuEventCreate(&event, 0))
			cuEventDestroy_v2(event);
		cuDevicePrimaryCtxRelease_v2(1);
	}
	return NULL;
}

/* A thread ends a context in which others are in the middle of calls. */
static void test_ends_beside_calls(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, use_primary, NULL), 0);
	for (int i = 0; i < 1000; i++) {
		usleep(100);
		OK(cuDevicePrimaryCtxReset_v2(1));
	}
	atomic_store(&over, true);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	OK(cuDevicePrimaryCtxReset_v2(1));
	CHECK_EQ(used(1), 0);
}

int main(void)
{
	sim_begin("2", "1GiB");
	sim_context(0);
	test_heap();
	test_heap_refused();
	test_heap_graph();
	test_fifo();
	test_green();
	test_green_last();
	test_green_reset();
	test_eager();
	test_lazy();
	test_ends_beside_calls();
	CHECK_EQ(used(0), 64 * MIB);
	return 0;
}
