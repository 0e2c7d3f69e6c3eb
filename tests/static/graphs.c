/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that own memory of two devices: each is asked for what it has to give. Threads that launch
 * graphs in turns, and trim, never get more than the quota. Nor does one whose graph lost its memory
 * to a call that was on its way there before the launch, or to the driver.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "guest/core/hook.h"
#include "sim/cuda/api.h"
#include "sim/truth.h"
#include "tests/unit/tenant_fixture.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define LIMIT	 (512 * MIB)
#define CONTEXT	 (8 * MIB)
#define THREADS	 4
#define ROUNDS	 200

static struct sim_truth *truth;
static CUcontext context[2];

/* What is to be kept is in use from the launch on until the program frees it. */
static void allocate(CUgraph graph, int device, uint64_t bytes, CUdeviceptr *ret_kept)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
		.bytesize = bytes};
	CUgraphNode made, freed;

	OK(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &node));
	if (ret_kept)
		*ret_kept = node.dptr;
	else
		OK(cuGraphAddMemFreeNode(&freed, graph, &made, 1, node.dptr));
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void exact(void)
{
	for (int i = 0; i < 2; i++) {
		struct guest_device *device = guest_device(guest_get(), i);

		OK(cuDeviceGraphMemTrim(i));
		CHECK(sim_truth_peak(truth, i) <= LIMIT);
		CHECK_EQ(quota_used(guest_get()->ledger, device->ledger), sim_truth_used(truth, i));
		CHECK_EQ(sim_truth_used(truth, i), CONTEXT);
	}
}

/* The first device's node is the first, or the last, that the graph has. */
static void two_devices(int first)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	allocate(graph, first, first ? MIB : LIMIT * 2, NULL);
	allocate(graph, !first, first ? LIMIT * 2 : MIB, NULL);
	exec = instantiate(graph);
	CHECK_EQ(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(cuGraphUpload(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuGraphExecDestroy(exec));
	CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
		 CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuGraphDestroy(graph));
	exact();

	OK(cuGraphCreate(&graph, 0));
	allocate(graph, first, 128 * MIB, NULL);
	allocate(graph, !first, 256 * MIB, NULL);
	exec = instantiate(graph);
	for (int i = 0; i < 3; i++)
		OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
	for (int i = 0; i < 2; i++) {
		struct guest_device *device = guest_device(guest_get(), i);

		CHECK_EQ(quota_used(guest_get()->ledger, device->ledger), sim_truth_used(truth, i));
		CHECK_EQ(sim_truth_used(truth, i), CONTEXT + (i == first ? 128 : 256) * MIB);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	exact();
}

/* The driver's trim and launch, as slow as the test wants them. */
static __typeof__(cuda_real.cuDeviceGraphMemTrim) trim;
static __typeof__(cuda_real.cuGraphLaunch) launch;
static _Thread_local bool is_late;
static _Atomic bool arrived, go;

static void be_late(void)
{
	if (!is_late)
		return;
	atomic_store(&arrived, true);
	while (!atomic_load(&go))
		sched_yield();
}

static CUresult late_trim(CUdevice device)
{
	be_late();
	return trim(device);
}

static CUresult late_launch(CUgraphExec exec, CUstream stream)
{
	be_late();
	return launch(exec, stream);
}

static void *take_late(void *exec)
{
	OK(cuCtxSetCurrent(context[0]));
	is_late = true;
	if (exec)
		OK(cuGraphLaunch(exec, NULL));
	else
		OK(cuDeviceGraphMemTrim(0));
	return NULL;
}

static CUgraphExec of_size(uint64_t bytes, CUdeviceptr *ret_kept)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	allocate(graph, 0, bytes, ret_kept);
	exec = instantiate(graph);
	OK(cuGraphDestroy(graph));
	return exec;
}

/*
 * The other call began before the launch, and its driver takes the graph's memory after the launch
 * has ended: it gives it to another graph, or trims it and the program allocates. So the graph has
 * to ask for it anew.
 */
static void taken_late(bool by_graph)
{
	CUdeviceptr taken;
	CUgraphExec exec = of_size(256 * MIB, NULL), other = of_size(160 * MIB, &taken);
	pthread_t thread;
	CUresult e;

	atomic_store(&arrived, false);
	atomic_store(&go, false);
	CHECK_EQ(pthread_create(&thread, NULL, take_late, by_graph ? other : NULL), 0);
	while (!atomic_load(&arrived))
		sched_yield();
	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
	atomic_store(&go, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);

	if (!by_graph)
		OK(cuMemAlloc_v2(&taken, 256 * MIB));
	OK(cuStreamSynchronize(NULL));
	e = cuGraphLaunch(exec, NULL);
	CHECK(sim_truth_peak(truth, 0) <= LIMIT);
	CHECK_EQ(e, CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(taken));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuGraphExecDestroy(other));
	OK(cuGraphExecDestroy(exec));
	exact();
}

/* The driver takes it back by itself, as when the device is full; a program that asks sees it. */
static void taken_unasked(void)
{
	CUgraphExec exec = of_size(256 * MIB, NULL);
	size_t room, total;
	CUdeviceptr data;
	CUresult e;

	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(trim(0));
	OK(cuMemGetInfo_v2(&room, &total));
	OK(cuMemAlloc_v2(&data, 256 * MIB));
	e = cuGraphLaunch(exec, NULL);
	CHECK(sim_truth_peak(truth, 0) <= LIMIT);
	CHECK_EQ(e, CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(data));
	OK(cuGraphExecDestroy(exec));
	exact();
}

static void *take_turns(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	CUcontext current;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	OK(cuDevicePrimaryCtxRetain(&current, 0));
	OK(cuCtxSetCurrent(current));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuGraphCreate(&graph, 0));
	allocate(graph, 0, (160 + 16 * seed) * MIB, NULL);
	exec = instantiate(graph);
	for (int i = 0; i < ROUNDS; i++) {
		CUresult e = cuGraphLaunch(exec, stream);

		CHECK(e == CUDA_SUCCESS || e == CUDA_ERROR_OUT_OF_MEMORY);
		if (rand_r(&seed) % 2)
			OK(cuStreamSynchronize(stream));
		if (rand_r(&seed) % 16 == 0)
			OK(cuDeviceGraphMemTrim(0));
	}
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(stream));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return NULL;
}

int main(void)
{
	struct policy policy = fixture_policy(LIMIT);
	char tenant[PATH_MAX], sim[PATH_MAX + 8];
	pthread_t thread[THREADS];

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "graphs", &policy, tenant, sizeof(tenant)),
		 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", tenant, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_GPUS", "2", 1);
	setenv("ALLOT_SIM_MEMORY", "24GiB", 1);
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context[1], 1));
	OK(cuDevicePrimaryCtxRetain(&context[0], 0));
	OK(cuCtxSetCurrent(context[0]));
	CHECK_EQ(sim_truth_open(sim, &truth), 0);

	two_devices(0);
	two_devices(1);
	trim = cuda_real.cuDeviceGraphMemTrim;
	launch = cuda_real.cuGraphLaunch;
	cuda_real.cuDeviceGraphMemTrim = late_trim;
	cuda_real.cuGraphLaunch = late_launch;
	taken_late(false);
	taken_late(true);
	taken_unasked();
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, take_turns, (void *)(uintptr_t)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	exact();
	sim_truth_close(truth);
	return 0;
}
