/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs made by hand: nodes, edges, parameters, clones, updates, memory nodes. */
#include "tests/sim/exec.h"

static CUdeviceptr mem;
static uint32_t *words;
static CUstream stream;

static CUDA_MEMSET_NODE_PARAMS set_to(unsigned int value, size_t n)
{
	return (CUDA_MEMSET_NODE_PARAMS){mem, 0, value, 4, n, 1};
}

static void run(CUgraphExec exec)
{
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

static void add_five(void *arg)
{
	*(uint32_t *)arg += 5;
}

static void test_nodes(void)
{
	CUDA_MEMSET_NODE_PARAMS set = set_to(3, 8), got_set;
	CUDA_HOST_NODE_PARAMS host = {add_five, words};
	CUDA_KERNEL_NODE_PARAMS kernel = {0}, got_kernel;
	CUDA_MEMCPY3D copy = {0}, got_copy;
	CUgraphNode a, b, c, d, found, list[8];
	CUgraphExec exec;
	CUgraph graph, clone;
	uint64_t count = 4;
	uint32_t seed = 9;
	CUdeviceptr at = mem + 256;
	void *params[] = {&at, &count, &seed};
	size_t n;

	kernel.func = exec_function("sim_fill");
	kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
	kernel.blockDimX = 32;
	kernel.blockDimY = kernel.blockDimZ = 1;
	kernel.kernelParams = params;
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = mem;
	copy.dstDevice = mem + 128;
	copy.WidthInBytes = 32;
	copy.Height = copy.Depth = 1;

	/* Made in an order that only the edges put right. */
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&c, graph, NULL, 0, &copy, NULL));
	OK(cuGraphAddHostNode(&b, graph, NULL, 0, &host));
	OK(cuGraphAddMemsetNode(&a, graph, NULL, 0, &set, NULL));
	OK(cuGraphAddKernelNode_v2(&d, graph, &c, 1, &kernel));
	OK(cuGraphAddDependencies(graph, (CUgraphNode[]){a, b}, (CUgraphNode[]){b, c}, 2));
	CHECK_EQ(cuGraphAddDependencies(graph, &a, &b, 1), CUDA_ERROR_INVALID_VALUE);
	seed = 1; /* parameters were copied */

	n = 8;
	OK(cuGraphGetRootNodes(graph, list, &n));
	CHECK(n == 1 && list[0] == a);
	n = 1;
	OK(cuGraphNodeGetDependencies(d, list, &n));
	CHECK(n == 1 && list[0] == c);
	n = 8;
	OK(cuGraphNodeGetDependentNodes(b, list, &n));
	CHECK(n == 1 && list[0] == c && !list[1]);
	OK(cuGraphMemsetNodeGetParams(a, &got_set));
	CHECK(!memcmp(&set, &got_set, sizeof(set)));
	OK(cuGraphMemcpyNodeGetParams(c, &got_copy));
	CHECK(got_copy.dstDevice == mem + 128);
	OK(cuGraphKernelNodeGetParams_v2(d, &got_kernel));
	CHECK(got_kernel.func == kernel.func && got_kernel.blockDimX == 32);
	CHECK_EQ(*(uint32_t *)got_kernel.kernelParams[2], 9);
	CHECK_EQ(cuGraphHostNodeGetParams(a, &host), CUDA_ERROR_INVALID_VALUE);

	OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	memset(words, 0, 1024);
	run(exec);
	CHECK(words[0] == 8 && words[1] == 3 && words[32] == 8 && words[64] != 0);
	OK(cuGraphNodeSetEnabled(exec, a, 0));
	run(exec);
	CHECK_EQ(words[0], 13);
	OK(cuGraphExecDestroy(exec));

	OK(cuGraphClone(&clone, graph));
	OK(cuGraphNodeFindInClone(&found, a, clone));
	set.value = 100;
	OK(cuGraphMemsetNodeSetParams(found, &set));
	OK(cuGraphMemsetNodeGetParams(a, &got_set));
	CHECK_EQ(got_set.value, 3);
	OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	run(exec);
	CHECK_EQ(words[0], 105);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroyNode(found));
	n = 0;
	OK(cuGraphGetNodes(clone, NULL, &n));
	CHECK_EQ(n, 3);
	OK(cuGraphDestroy(clone));

	/* A circle does not become an executable. */
	OK(cuGraphAddDependencies(graph, &d, &a, 1));
	CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphRemoveDependencies(graph, &d, &a, 1));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void test_update(void)
{
	CUDA_MEMSET_NODE_PARAMS set = set_to(1, 1);
	CUgraphExecUpdateResultInfo info;
	CUgraph graph, other;
	CUgraphNode a, b, child;
	CUgraphExec exec;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&a, graph, NULL, 0, &set, NULL));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	set.value = 2;
	OK(cuGraphExecMemsetNodeSetParams(exec, a, &set, NULL));
	run(exec);
	CHECK_EQ(words[0], 2);

	OK(cuGraphCreate(&other, 0));
	set.value = 3;
	OK(cuGraphAddMemsetNode(&b, other, NULL, 0, &set, NULL));
	OK(cuGraphExecUpdate_v2(exec, other, &info));
	CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	run(exec);
	CHECK_EQ(words[0], 3);
	OK(cuGraphAddEmptyNode(&b, other, &b, 1));
	CHECK_EQ(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CHECK_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	OK(cuGraphExecDestroy(exec));

	/* A child is copied into its node. */
	OK(cuGraphAddChildGraphNode(&child, graph, &a, 1, other));
	OK(cuGraphDestroy(other));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	run(exec);
	CHECK_EQ(words[0], 3);
	OK(cuGraphChildGraphNodeGetGraph(child, &other));
	CHECK_EQ(cuGraphDestroy(other), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void test_events(void)
{
	CUgraphNode record, wait;
	CUgraphExec exec;
	CUevent event, got;
	CUgraph graph;

	OK(cuEventCreate(&event, 0));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEventRecordNode(&record, graph, NULL, 0, event));
	OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
	OK(cuGraphEventWaitNodeGetEvent(wait, &got));
	CHECK(got == event);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(exec_spin(stream, 5000));
	OK(cuGraphLaunch(exec, stream));
	CHECK_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	OK(cuEventSynchronize(event));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuEventDestroy_v2(event));
}

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = bytes,
	};
}

static void test_memory(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(4 << 20), got;
	CUgraphNode alloc, set, release;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUgraphExec exec, second;
	CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
	CUdeviceptr freed;
	CUgraph graph, clone;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
	CHECK(params.dptr);
	OK(cuGraphMemAllocNodeGetParams(alloc, &got));
	CHECK(got.dptr == params.dptr && got.bytesize == params.bytesize);
	fill = (CUDA_MEMSET_NODE_PARAMS){params.dptr, 0, 5, 4, (4 << 20) / 4, 1};
	OK(cuGraphAddMemsetNode(&set, graph, &alloc, 1, &fill, NULL));
	CHECK_EQ(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);

	/* Left allocated: no second launch until it is freed. */
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK_EQ(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
	run(exec);
	CHECK_EQ(((uint32_t *)(uintptr_t)params.dptr)[1000], 5);
	CHECK_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(params.dptr, stream));
	OK(cuStreamSynchronize(stream));
	run(exec);
	OK(cuMemFree_v2(params.dptr));
	OK(cuGraphExecDestroy(exec));

	/* Freed by itself at the next launch. */
	OK(cuGraphInstantiateWithFlags(&exec, graph,
				       CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFreeAsync(params.dptr, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));

	/* Freed within the graph. */
	any.free.dptr = params.dptr;
	OK(cuGraphAddNode(&release, graph, &set, 1, &any));
	OK(cuGraphMemFreeNodeGetParams(release, &freed));
	CHECK(freed == params.dptr);
	CHECK_EQ(cuGraphAddMemFreeNode(&release, graph, NULL, 0, params.dptr),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuGraphAddMemFreeNode(&release, graph, NULL, 0, mem), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphUpload(exec, stream));
	for (int i = 0; i < 3; i++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));

	/* More than the device has: the launch is refused, and the next one too. */
	params = alloc_params(1ull << 40);
	OK(cuGraphCreate(&graph, 0));
	if (cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params) == CUDA_SUCCESS) {
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		CHECK_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
		CHECK_EQ(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
		OK(cuGraphExecDestroy(exec));
	}
	OK(cuGraphDestroy(graph));
}

static void gone(void *arg)
{
	__atomic_fetch_add((int *)arg, 1, __ATOMIC_SEQ_CST);
}

/* Graphs, their copies and executables keep an object, and so does a launch that is on its way. */
static void test_user_objects(void)
{
	CUDA_MEMSET_NODE_PARAMS set = set_to(1, 1);
	CUgraphExecUpdateResultInfo info;
	CUgraph graph, clone, other;
	CUuserObject object, moved;
	CUgraphExec exec;
	CUgraphNode node;
	static int ended, moved_ended;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, NULL));
	OK(cuGraphClone(&other, graph));
	CHECK_EQ(cuUserObjectCreate(&object, &ended, gone, 1, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuUserObjectCreate(&object, &ended, gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuGraphRetainUserObject(graph, object, 1, 0));
	OK(cuUserObjectRelease(object, 1));
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphDestroy(graph));
	OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	OK(cuGraphReleaseUserObject(clone, object, 1));
	CHECK_EQ(cuGraphReleaseUserObject(clone, object, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(ended, 0);
	OK(cuStreamWaitValue32_v2(stream, mem + 512, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuGraphLaunch(exec, stream));

	OK(cuUserObjectCreate(&moved, &moved_ended, gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuGraphRetainUserObject(other, moved, 1, CU_GRAPH_USER_OBJECT_MOVE));
	OK(cuGraphExecUpdate_v2(exec, other, &info));
	OK(cuGraphDestroy(other));
	OK(cuGraphExecDestroy(exec));
	CHECK_EQ(ended + moved_ended, 0);
	words[128] = 1;
	OK(cuStreamSynchronize(stream));
	for (int i = 0; i < 1000 && __atomic_load_n(&ended, __ATOMIC_SEQ_CST) +
					    __atomic_load_n(&moved_ended, __ATOMIC_SEQ_CST) < 2; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	CHECK_EQ(ended, 1);
	CHECK_EQ(moved_ended, 1);
	OK(cuGraphDestroy(clone));
}

int main(void)
{
	exec_init();
	exec_context();
	OK(cuMemAlloc_v2(&mem, 4096));
	words = (uint32_t *)(uintptr_t)mem;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	test_nodes();
	test_update();
	test_events();
	test_memory();
	test_user_objects();
	OK(cuStreamDestroy_v2(stream));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
