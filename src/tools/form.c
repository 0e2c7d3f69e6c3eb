/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/form.h"

#include <stddef.h>

const char *const load_form_names[LOAD_FORMS] = {
	"plain", "ex", "cooperative", "graph", "streams", "sync", "request", "token",
};

#define TOKEN_BYTES 128 /* what a token is to the host: a number for each of 16 sequences */

static CUresult form_launch_kernel(const struct load_work *work, CUstream stream)
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
static void form_open_graph(struct load_work *work)
{
	CUgraph graph;

	MUST(cu.cuStreamBeginCapture_v2(work->stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (unsigned int i = 0; i < work->kernels; i++)
		MUST(form_launch_kernel(work, work->stream[0]));
	MUST(cu.cuStreamEndCapture(work->stream[0], &graph));
	MUST(cu.cuGraphInstantiateWithFlags(&work->graph, graph, 0));
	MUST(cu.cuGraphDestroy(graph));
}

/*
 * The beginning of a program of an LLM, before its first graph: thousands of kernels, of as many
 * grids and lengths as a layer has. Most take less time than their launch. None is wider than the
 * device, so a kernel takes as long in any grid.
 */
static void form_run_eager(const struct load_work *work, unsigned int kernels)
{
	static const double lengths_us[] = {1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 15, 25};
	const unsigned int kinds = sizeof(lengths_us) / sizeof(lengths_us[0]);
	const struct load_device *d = work->device;

	for (unsigned int i = 0; i < kernels; i++) {
		unsigned int kind = i % kinds;
		uint64_t loops = load_device_loops(d, lengths_us[kind]);
		void *params[] = {&loops};

		MUST(cu.cuLaunchKernel(d->spin, 1 + (d->blocks - 1) * kind / (kinds - 1), 1, 1,
				       d->threads, 1, 1, 0, work->stream[0], params, NULL));
	}
	MUST(cu.cuStreamSynchronize(work->stream[0]));
}

bool load_work_is_graph(enum load_form form)
{
	return form == LOAD_GRAPH || form == LOAD_TOKEN;
}

void load_work_open(struct load_work *ret, const struct load_device *device, enum load_form form,
		    double kernel_us, unsigned int nodes, unsigned int eager)
{
	*ret = (struct load_work){
		.device = device,
		.form = form,
		.loops = load_device_loops(device, kernel_us),
		.kernels = load_work_is_graph(form) ? nodes : 1,
		.nstreams = form == LOAD_STREAMS4 ? 4 : 1,
	};
	for (unsigned int i = 0; i < ret->nstreams; i++)
		MUST(cu.cuStreamCreate(&ret->stream[i], CU_STREAM_NON_BLOCKING));
	if (form == LOAD_TOKEN) {
		MUST(cu.cuMemAlloc_v2(&ret->token, TOKEN_BYTES));
		form_run_eager(ret, eager);
	}
	if (load_work_is_graph(form))
		form_open_graph(ret);
}

CUresult load_work_launch(const struct load_work *work, unsigned int stream)
{
	if (load_work_is_graph(work->form))
		return cu.cuGraphLaunch(work->graph, work->stream[stream]);
	return form_launch_kernel(work, work->stream[stream]);
}

CUresult load_work_wait(const struct load_work *work)
{
	char token[TOKEN_BYTES]; /* in memory that is not pinned, as most programs' is */
	CUresult r = CUDA_SUCCESS;

	if (work->form == LOAD_TOKEN)
		r = cu.cuMemcpyDtoHAsync_v2(token, work->token, sizeof(token), work->stream[0]);
	return r ? r : cu.cuStreamSynchronize(work->stream[0]);
}
