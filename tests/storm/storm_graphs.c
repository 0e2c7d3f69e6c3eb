/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs with nodes that allocate. */
#include "storm_work.h"

/* Another device now and then, if there is one. */
static int graphs_device(struct worker *w, const struct block *b)
{
	return pick(&w->seed, 3) ? b->device : (b->device + 1) % storm->options.devices;
}

static CUgraph graphs_new(struct worker *w, const struct block *b)
{
	CUgraph graph;

	OK(cu.cuGraphCreate(&graph, 0));
	for (unsigned int n = 1 + pick(&w->seed, 3); n; n--) {
		CUDA_MEM_ALLOC_NODE_PARAMS params = {
			.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = storm_location(graphs_device(w, b))},
			.bytesize = b->bytes / n + 1};
		CUgraphNode node, end;

		OK(cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
		OK(cu.cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr));
	}
	return graph;
}

static bool graphs_take(struct worker *w, struct block *b)
{
	CUgraph graph = graphs_new(w, b);
	CUgraphExec exec = NULL;
	bool no = REFUSED(w, cu.cuGraphInstantiateWithFlags(&exec, graph, 0)) ||
		  REFUSED(w, cu.cuGraphLaunch(exec, w->stream[b->device]));

	OK(cu.cuStreamSynchronize(w->stream[b->device]));
	OK(cu.cuGraphDestroy(graph));
	if (no && exec)
		OK(cu.cuGraphExecDestroy(exec));
	b->object = exec;
	return !no;
}

static void graphs_use(struct worker *w, struct block *b)
{
	REFUSED(w, cu.cuGraphLaunch(b->object, w->stream[b->device]));
}

static void graphs_trim(struct worker *w, const struct block *b)
{
	if (pick(&w->seed, 4) == 0)
		OK(cu.cuDeviceGraphMemTrim(b->device));
}

static void graphs_give(struct worker *w, struct block *b)
{
	OK(cu.cuGraphExecDestroy(b->object));
	graphs_trim(w, b);
}

const struct family storm_graph = {"graph", graphs_take, graphs_give, graphs_use, NULL};
