/* SPDX-License-Identifier: Apache-2.0 */
/* What contexts take beside their own size, when, and when they give it back: as on an H200. */
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

int main(void)
{
	sim_begin("1", "1GiB");
	sim_context(0);
	test_heap();
	test_heap_refused();
	test_heap_graph();
	CHECK_EQ(used(0), 64 * MIB);
	return 0;
}
