/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs with nodes that allocate, and that free or leave it to the program. */
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

/* A graph that leaves its memory to the program, or to its next launch if that frees it. */

#define AUTO_FREE CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH

static CUgraph graphs_new_kept(struct worker *w, struct block *b)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = storm_location(graphs_device(w, b))},
		.bytesize = b->bytes};
	CUgraphNode node;
	CUgraph graph;

	OK(cu.cuGraphCreate(&graph, 0));
	OK(cu.cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	b->ptr = params.dptr;
	return graph;
}

/* Launches it behind all frees of its memory: a launch that finds it in use would be an error. */
static void graphs_launch_kept(struct worker *w, struct block *b)
{
	OK(cu.cuStreamSynchronize(w->stream[b->device]));
	OK(cu.cuStreamSynchronize(w->other[b->device]));
	if (!REFUSED(w, cu.cuGraphLaunch(b->object, w->stream[b->device])))
		b->live = true;
}

static bool graphs_take_kept(struct worker *w, struct block *b)
{
	CUgraph graph = graphs_new_kept(w, b);
	CUgraphExec exec;
	bool no;

	b->frees = pick(&w->seed, 2);
	no = REFUSED(w, cu.cuGraphInstantiateWithFlags(&exec, graph, b->frees ? AUTO_FREE : 0));
	if (!no) {
		b->object = exec;
		graphs_launch_kept(w, b);
	}
	OK(cu.cuGraphDestroy(graph));
	return !no;
}

static void graphs_free_kept(struct worker *w, struct block *b)
{
	if (b->live)
		storm_free(w, b->device, b->ptr, pick(&w->seed, 2));
	b->live = false;
}

static void graphs_use_kept(struct worker *w, struct block *b)
{
	if (b->live && (!b->frees || pick(&w->seed, 3) == 0))
		graphs_free_kept(w, b);
	else
		graphs_launch_kept(w, b);
}

static void graphs_give_kept(struct worker *w, struct block *b)
{
	if (pick(&w->seed, 2))
		graphs_free_kept(w, b);
	OK(cu.cuGraphExecDestroy(b->object));
	graphs_free_kept(w, b);
	graphs_trim(w, b);
}

const struct family storm_graph_kept = {"graph-kept", graphs_take_kept, graphs_give_kept,
					graphs_use_kept, NULL};
const struct family storm_graph = {"graph", graphs_take, graphs_give, graphs_use, NULL};
