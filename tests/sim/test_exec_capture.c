/* SPDX-License-Identifier: Apache-2.0 */
/* Capture: what is recorded, how streams fork and join, what is forbidden meanwhile. */
#include <pthread.h>

#include "tests/sim/exec.h"

static CUdeviceptr mem;
static uint32_t *words; /* the same memory */
static int host_calls;

static void count_call(void *arg)
{
	host_calls += *(int *)arg;
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
	CUstreamCaptureStatus status;

	OK(cuStreamIsCapturing(stream, &status));
	return status;
}

/* Begin, and end with a certain answer; the graph goes. */
static void begin(CUstream stream, CUstreamCaptureMode mode)
{
	OK(cuStreamBeginCapture_v2(stream, mode));
	CHECK_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static void end(CUstream stream, CUresult with)
{
	CUgraph graph;

	CHECK_EQ(cuStreamEndCapture(stream, &graph), with);
	CHECK_EQ(!graph, with != CUDA_SUCCESS);
	CHECK_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
	if (graph)
		OK(cuGraphDestroy(graph));
}

static void test_replay(CUstream stream)
{
	CUgraphExec exec;
	CUgraph graph, seen;
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	const CUgraphNode *deps;
	CUstreamCaptureStatus status;
	cuuint64_t id;
	size_t n = 8, n_deps;
	int one = 1;

	words[0] = 1;
	host_calls = 0;
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemsetD32Async(mem, 7, 4, stream));
	OK(cuMemcpyDtoDAsync_v2(mem + 64, mem, 16, stream));
	OK(exec_spin(stream, 10));
	OK(cuLaunchHostFunc(stream, count_call, &one));
	OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &seen, &deps, &n_deps));
	CHECK_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK_EQ(n_deps, 1);
	OK(cuGraphNodeGetType(deps[0], &type));
	CHECK_EQ(type, CU_GRAPH_NODE_TYPE_HOST);
	OK(cuStreamEndCapture(stream, &graph));
	CHECK(graph == seen);
	/* Nothing has run. */
	CHECK(words[0] == 1 && !host_calls);
	OK(cuGraphGetNodes(graph, nodes, &n));
	CHECK_EQ(n, 4);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	for (int i = 1; i <= 3; i++) {
		words[0] = words[16] = 0;
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		CHECK(words[0] == 7 && words[16] == 7 && host_calls == i);
	}
	/* Launches are in the stream's order, and destroying the executable stops none. */
	for (int i = 0; i < 5; i++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuStreamSynchronize(stream));
	CHECK_EQ(host_calls, 8);
}

static void test_fork(CUstream stream, CUstream other)
{
	CUgraphNode from[8], to[8];
	CUevent fork, join;
	CUgraph graph;
	size_t n = 8;

	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	OK(exec_spin(stream, 1));
	OK(cuEventRecord(fork, stream));
	OK(cuStreamWaitEvent(other, fork, 0));
	CHECK_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK_EQ(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
	OK(exec_spin(other, 1));
	OK(exec_spin(stream, 1));
	OK(cuEventRecord(join, other));
	OK(cuStreamWaitEvent(stream, join, 0));
	OK(exec_spin(stream, 1));
	OK(cuStreamEndCapture(stream, &graph));
	CHECK_EQ(status_of(other), CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuGraphGetEdges(graph, from, to, &n));
	CHECK_EQ(n, 4); /* a diamond */
	OK(cuGraphDestroy(graph));

	/* A fork that is not joined; an event of the past; the wrong end; two captures in one. */
	begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	OK(cuEventRecord(fork, stream));
	OK(cuStreamWaitEvent(other, fork, 0));
	OK(exec_spin(other, 1));
	end(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	OK(cuEventRecord(join, other));
	begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CHECK_EQ(cuStreamWaitEvent(stream, join, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	CHECK_EQ(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	CHECK_EQ(exec_spin(stream, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	begin(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	OK(cuEventRecord(fork, stream));
	CHECK_EQ(cuStreamWaitEvent(other, fork, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	end(other, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CHECK_EQ(cuStreamWaitEvent(other, fork, 0), CUDA_ERROR_CAPTURED_EVENT);
	OK(cuEventDestroy_v2(fork));
	OK(cuEventDestroy_v2(join));
}

static void *others_thread(void *ctx)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr ptr;

	OK(cuCtxSetCurrent(ctx));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAlloc_v2(&ptr, 4096));
	OK(cuMemFree_v2(ptr));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK_EQ(cuMemAlloc_v2(&ptr, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return NULL;
}

static void test_forbidden(CUcontext ctx, CUstream stream)
{
	CUstreamCaptureStatus status;
	CUstream blocking;
	pthread_t thread;
	CUdeviceptr ptr;
	CUgraph graph;
	char byte;

	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	CHECK_EQ(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
		 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);

	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK_EQ(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	/* The legacy stream: not beside a blocking stream's capture, but beside another's. */
	begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	CHECK_EQ(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	CHECK_EQ(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CHECK_EQ(exec_spin(NULL, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	end(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(exec_spin(NULL, 1));
	end(stream, CUDA_SUCCESS);

	/* Unsafe calls, by mode. */
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK_EQ(cuMemAlloc_v2(&ptr, 4096), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CHECK_EQ(cuMemcpyDtoH_v2(&byte, mem, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuMemAlloc_v2(&ptr, 4096));
	OK(cuMemFree_v2(ptr));
	end(stream, CUDA_SUCCESS);
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK(!pthread_create(&thread, NULL, others_thread, ctx));
	CHECK(!pthread_join(thread, NULL));
	end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	/* A stream that goes away takes its capture along. */
	begin(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(exec_spin(blocking, 1));
	OK(cuStreamDestroy_v2(blocking));
	OK(cuMemAlloc_v2(&ptr, 4096));
	OK(cuMemFree_v2(ptr));
}

static void *end_elsewhere(void *stream)
{
	CUgraph graph;

	OK(cuDevicePrimaryCtxRetain((CUcontext *)&graph, 0));
	OK(cuCtxSetCurrent((CUcontext)graph));
	CHECK_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return NULL;
}

static void test_threads(CUstream stream)
{
	pthread_t thread;

	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK(!pthread_create(&thread, NULL, end_elsewhere, stream));
	CHECK(!pthread_join(thread, NULL));
	end(stream, CUDA_SUCCESS);
}

/* The program may say itself what comes next depends on, and capture into its own graph. */
static void test_dependencies(CUstream stream)
{
	const CUgraphNode *deps;
	CUstreamCaptureStatus status;
	CUgraphNode node, roots[4];
	CUgraph graph, same;
	cuuint64_t id;
	size_t n;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	OK(cuStreamBeginCaptureToGraph(stream, graph, &node, NULL, 1,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(exec_spin(stream, 1));
	OK(cuStreamUpdateCaptureDependencies(stream, &node, 1, 0));
	OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &same, &deps, NULL, &n));
	CHECK(same == graph);
	CHECK_EQ(n, 2);
	OK(exec_spin(stream, 1));
	OK(cuStreamEndCapture(stream, &same));
	CHECK(same == graph);
	n = 4;
	OK(cuGraphGetRootNodes(graph, roots, &n));
	CHECK_EQ(n, 1);
	CHECK(roots[0] == node);
	n = 0;
	OK(cuGraphGetEdges(graph, NULL, NULL, &n));
	CHECK_EQ(n, 3);
	OK(cuGraphDestroy(graph));
}

/* Allocation and free become nodes; the memory is there at each launch. */
static void test_memory(CUstream stream)
{
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	CUdeviceptr ptr;
	CUgraphExec exec;
	CUgraph graph;
	size_t n = 8;

	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAllocAsync(&ptr, 1 << 20, stream));
	OK(cuMemsetD32Async(ptr, 42, 1 << 18, stream));
	OK(cuMemcpyDtoDAsync_v2(mem, ptr + (1 << 20) - 64, 64, stream));
	OK(cuMemFreeAsync(ptr, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, nodes, &n));
	CHECK_EQ(n, 4);
	OK(cuGraphNodeGetType(nodes[0], &type));
	CHECK_EQ(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	OK(cuGraphNodeGetType(nodes[3], &type));
	CHECK_EQ(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		words[0] = 0;
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		CHECK_EQ(words[0], 42);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

int main(void)
{
	CUstream stream, other;
	CUcontext ctx;

	exec_init();
	ctx = exec_context();
	OK(cuMemAlloc_v2(&mem, 4096));
	words = (uint32_t *)(uintptr_t)mem;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(exec_spin(stream, 1));
	OK(cuCtxSynchronize());
	test_replay(stream);
	test_fork(stream, other);
	test_forbidden(ctx, stream);
	test_threads(stream);
	test_dependencies(stream);
	test_memory(stream);
	OK(cuStreamDestroy_v2(stream));
	OK(cuStreamDestroy_v2(other));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
