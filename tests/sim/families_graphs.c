/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of graphs that own memory. */
#include "families_steps.h"

static void add_alloc(CUgraph graph, uint64_t bytes, CUgraphNode *ret, CUdeviceptr *ret_ptr)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
		.bytesize = bytes};

	OK(cu.cuGraphAddMemAllocNode(ret, graph, NULL, 0, &node));
	*ret_ptr = node.dptr;
}

static CUgraph balanced(uint64_t bytes)
{
	CUgraphNode a, f;
	CUdeviceptr p;
	CUgraph graph;

	OK(cu.cuGraphCreate(&graph, 0));
	add_alloc(graph, bytes, &a, &p);
	OK(cu.cuGraphAddMemFreeNode(&f, graph, &a, 1, p));
	return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

void graphs_take_turns(void)
{
	CUgraphExec a, b;
	CUstream stream;

	guest_context(0);
	stream = new_stream();
	a = instantiate(balanced(100 * MIB));
	b = instantiate(balanced(110 * MIB));
	tell(NOTE_USED, 0, 0, "instantiated");
	for (int i = 0; i < 10; i++) {
		OK(cu.cuGraphLaunch(i % 2 ? a : b, stream));
		OK(cu.cuStreamSynchronize(stream));
		tell(NOTE_LEDGER, 0, 0, "launched");
	}
	alloc(160 * MIB);
	tell(NOTE_USED, 0, 160 * MIB, "trimmed for another family");
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(a, stream));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphUpload(b, stream));
	tell(NOTE_USED, 0, 160 * MIB, "refused");
	OK(cu.cuGraphExecDestroy(a));
	OK(cu.cuGraphExecDestroy(b));
}

void graphs_nested(void)
{
	CUgraph outer, inner, deep;
	CUgraphNode n;
	CUgraphExec e;

	guest_context(0);
	inner = balanced(60 * MIB);
	OK(cu.cuGraphCreate(&deep, 0));
	OK(cu.cuGraphCreate(&outer, 0));
	if (cu.cuGraphAddChildGraphNode(&n, deep, NULL, 0, inner) ||
	    cu.cuGraphAddChildGraphNode(&n, outer, NULL, 0, deep))
		return; /* a driver that nests no memory nodes */
	e = instantiate(outer);
	fill_rest();
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(e, NULL));
	tell(NOTE_FULL, 0, GRANULE, "refused");
}

void graph_relaunched(void)
{
	CUgraphExec kept, other;
	CUgraphNode n;
	CUdeviceptr p;
	CUgraph graph;

	guest_context(0);
	OK(cu.cuGraphCreate(&graph, 0));
	add_alloc(graph, 90 * MIB, &n, &p);
	kept = instantiate(graph);
	other = instantiate(balanced(90 * MIB));
	/* `other` first has the memory, then loses it to one that keeps it. */
	OK(cu.cuGraphLaunch(other, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuGraphLaunch(kept, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_LEDGER, 0, 0, "kept");
	alloc(80 * MIB);
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuGraphLaunch(other, NULL));
	tell(NOTE_LEDGER, 0, 0, "refused");
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuGraphLaunch(other, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_LEDGER, 0, 0, "has it again");
	OK(cu.cuGraphExecDestroy(kept));
	OK(cu.cuGraphExecDestroy(other));
	OK(cu.cuDeviceGraphMemTrim(0));
	tell(NOTE_USED, 0, 80 * MIB, "trimmed");
}

/* Near the limit while a capture is under way: what we give back is none of its business. */
void refused_in_capture(void)
{
	CUmemoryPool standard;
	CUgraphExec exec;
	CUstream stream, idle;
	CUdeviceptr p, q;
	CUgraph graph;

	guest_context(0);
	stream = new_stream();
	idle = new_stream();
	OK(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	keep_all(standard);
	p = alloc_async(100 * MIB, NULL);
	OK(cu.cuMemFreeAsync(p, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cu.cuMemAllocAsync(&q, 16 * MIB, stream));
	p = alloc(150 * MIB);
	OK(cu.cuMemFreeAsync(q, stream));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&q, 100 * MIB, idle));
	OK(cu.cuStreamEndCapture(stream, &graph));
	OK(cu.cuMemFree_v2(p));
	exec = instantiate(graph);
	OK(cu.cuGraphLaunch(exec, stream));
	OK(cu.cuStreamSynchronize(stream));
	tell(NOTE_LEDGER, 0, 0, "captured and launched");
}
