/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that own memory of two devices: each is asked for what it has to give. Threads that launch
 * graphs in turns, and trim, never get more than the quota.
 */
#include <pthread.h>
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

static void allocate(CUgraph graph, int device, uint64_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
		.bytesize = bytes};
	CUgraphNode made, freed;

	OK(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &node));
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
	allocate(graph, first, first ? MIB : LIMIT * 2);
	allocate(graph, !first, first ? LIMIT * 2 : MIB);
	exec = instantiate(graph);
	CHECK_EQ(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(cuGraphUpload(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuGraphExecDestroy(exec));
	CHECK_EQ(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
		 CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuGraphDestroy(graph));
	exact();

	OK(cuGraphCreate(&graph, 0));
	allocate(graph, first, 128 * MIB);
	allocate(graph, !first, 256 * MIB);
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

static void *take_turns(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	CUcontext context;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuGraphCreate(&graph, 0));
	allocate(graph, 0, (160 + 16 * seed) * MIB);
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
	CUcontext context[2];

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
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, take_turns, (void *)(uintptr_t)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	exact();
	sim_truth_close(truth);
	return 0;
}
