/* SPDX-License-Identifier: Apache-2.0 */
#include "load/form.h"

#include <stddef.h>

const char *const load_form_names[LOAD_FORMS] = {
	"plain", "ex", "cooperative", "graph", "streams", "sync", "request",
};

static CUresult launch_kernel(const struct load_work *work, CUstream stream)
{
	const struct load_device *d = work->device;
	uint64_t loops = work->loops;
	void *params[] = {&loops};
	CUlaunchConfig config = {
		.gridDimX = d->blocks,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = d->threads,
		.blockDimY = 1,
		.blockDimZ = 1,
		.hStream = stream,
	};

	switch (work->form) {
	case LOAD_EX:
		return cu.cuLaunchKernelEx(&config, d->spin, params, NULL);
	case LOAD_COOPERATIVE:
		return cu.cuLaunchCooperativeKernel(d->spin, d->blocks, 1, 1, d->threads, 1, 1, 0,
						    stream, params);
	default:
		return cu.cuLaunchKernel(d->spin, d->blocks, 1, 1, d->threads, 1, 1, 0, stream,
					 params, NULL);
	}
}

/* Captured rather than put together, as frameworks do it. */
static void open_graph(struct load_work *work)
{
	CUgraph graph;

	MUST(cu.cuStreamBeginCapture_v2(work->stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (unsigned int i = 0; i < work->kernels; i++)
		MUST(launch_kernel(work, work->stream[0]));
	MUST(cu.cuStreamEndCapture(work->stream[0], &graph));
	MUST(cu.cuGraphInstantiateWithFlags(&work->graph, graph, 0));
	MUST(cu.cuGraphDestroy(graph));
}

void load_work_open(struct load_work *ret, const struct load_device *device, enum load_form form,
		    double kernel_us, unsigned int nodes)
{
	*ret = (struct load_work){
		.device = device,
		.form = form,
		.loops = load_device_loops(device, kernel_us),
		.kernels = form == LOAD_GRAPH ? nodes : 1,
		.nstreams = form == LOAD_STREAMS4 ? 4 : 1,
	};
	for (unsigned int i = 0; i < ret->nstreams; i++)
		MUST(cu.cuStreamCreate(&ret->stream[i], CU_STREAM_NON_BLOCKING));
	if (form == LOAD_GRAPH)
		open_graph(ret);
}

CUresult load_work_launch(const struct load_work *work, unsigned int stream)
{
	if (work->form == LOAD_GRAPH)
		return cu.cuGraphLaunch(work->graph, work->stream[stream]);
	return launch_kernel(work, work->stream[stream]);
}
