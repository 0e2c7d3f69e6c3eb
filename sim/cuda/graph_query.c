/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that describe graphs and nodes, and change their edges. */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/kernel.h"

/*
 * Lists come as the driver gives them: without an array the number; with one as many as there are
 * and room for, the rest of the array NULL, and *n says how many were given.
 */
struct list {
	CUgraphNode *nodes, *others;
	size_t room, n;
};

static void graph_query_list_put(struct list *list, const struct sim_node *node,
				 const struct sim_node *other)
{
	if (list->nodes && list->n < list->room) {
		list->nodes[list->n] = (CUgraphNode)node;
		if (list->others)
			list->others[list->n] = (CUgraphNode)other;
	}
	list->n++;
}

static CUresult graph_query_list_end(struct list *list, CUgraphEdgeData *data, size_t *ret_n)
{
	size_t n = list->n < list->room ? list->n : list->room;

	if (!list->nodes) {
		*ret_n = list->n;
		return CUDA_SUCCESS;
	}
	for (size_t i = n; i < list->room; i++) {
		list->nodes[i] = NULL;
		if (list->others)
			list->others[i] = NULL;
	}
	if (data)
		memset(data, 0, list->room * sizeof(*data));
	*ret_n = n;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	struct sim_graph *graph;
	struct list list = {.nodes = nodes};

	if (graph_lookup(hGraph, &graph) || !numNodes)
		return CUDA_ERROR_INVALID_VALUE;
	list.room = *numNodes;
	for (struct sim_node *node = graph->nodes; node; node = node->next)
		graph_query_list_put(&list, node, NULL);
	return graph_query_list_end(&list, NULL, numNodes);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	struct sim_graph *graph;
	struct list list = {.nodes = rootNodes};

	if (graph_lookup(hGraph, &graph) || !numRootNodes)
		return CUDA_ERROR_INVALID_VALUE;
	list.room = *numRootNodes;
	for (struct sim_node *node = graph->nodes; node; node = node->next)
		if (!node->n_deps)
			graph_query_list_put(&list, node, NULL);
	return graph_query_list_end(&list, NULL, numRootNodes);
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				    CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct sim_graph *graph;
	struct list list = {.nodes = from, .others = to};

	if (graph_lookup(hGraph, &graph) || !numEdges || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	list.room = *numEdges;
	for (struct sim_node *node = graph->nodes; node; node = node->next)
		for (size_t i = 0; i < node->n_deps; i++)
			graph_query_list_put(&list, node->deps[i], node);
	return graph_query_list_end(&list, edgeData, numEdges);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				 size_t *numEdges)
{
	return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
					       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	struct sim_node *node;
	struct list list = {.nodes = dependencies};

	if (node_lookup(hNode, &node) || !numDependencies)
		return CUDA_ERROR_INVALID_VALUE;
	list.room = *numDependencies;
	for (size_t i = 0; i < node->n_deps; i++)
		graph_query_list_put(&list, node->deps[i], NULL);
	return graph_query_list_end(&list, edgeData, numDependencies);
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					    size_t *numDependencies)
{
	return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

static bool graph_query_depends(const struct sim_node *node, const struct sim_node *on)
{
	for (size_t i = 0; i < node->n_deps; i++)
		if (node->deps[i] == on)
			return true;
	return false;
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
						 CUgraphEdgeData *edgeData,
						 size_t *numDependentNodes)
{
	struct sim_node *node;
	struct list list = {.nodes = dependentNodes};

	if (node_lookup(hNode, &node) || !numDependentNodes)
		return CUDA_ERROR_INVALID_VALUE;
	list.room = *numDependentNodes;
	for (struct sim_node *other = node->graph->nodes; other; other = other->next)
		if (graph_query_depends(other, node))
			graph_query_list_put(&list, other, NULL);
	return graph_query_list_end(&list, edgeData, numDependentNodes);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
					      size_t *numDependentNodes)
{
	return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
					const CUgraphNode *to, size_t numDependencies)
{
	struct sim_graph *graph;
	struct sim_node *a, *b, **deps;

	if (graph_lookup(hGraph, &graph) || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies; i++) {
		if (node_lookup(from[i], &a) || node_lookup(to[i], &b) || a->graph != graph ||
		    b->graph != graph || a == b || graph_query_depends(b, a))
			return CUDA_ERROR_INVALID_VALUE;
		deps = realloc(b->deps, (b->n_deps + 1) * sizeof(*deps));
		if (!deps)
			return CUDA_ERROR_OUT_OF_MEMORY;
		deps[b->n_deps++] = a;
		b->deps = deps;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					   const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					   size_t numDependencies)
{
	return cuGraphAddDependencies(hGraph, from, to, numDependencies);
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
					   const CUgraphNode *to, size_t numDependencies)
{
	struct sim_graph *graph;
	struct sim_node *a, *b;

	if (graph_lookup(hGraph, &graph) || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies; i++) {
		size_t kept = 0;

		if (node_lookup(from[i], &a) || node_lookup(to[i], &b) ||
		    !graph_query_depends(b, a))
			return CUDA_ERROR_INVALID_VALUE;
		for (size_t k = 0; k < b->n_deps; k++)
			if (b->deps[k] != a)
				b->deps[kept++] = b->deps[k];
		b->n_deps = kept;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					      const CUgraphNode *to,
					      const CUgraphEdgeData *edgeData,
					      size_t numDependencies)
{
	return cuGraphRemoveDependencies(hGraph, from, to, numDependencies);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	struct sim_node *node;

	if (node_lookup(hNode, &node) || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node_type(node);
	return CUDA_SUCCESS;
}

/* A node of that kind, or an error. */
static CUresult graph_query_get_params(CUgraphNode handle, enum work_kind kind, const void *out,
				       struct sim_node **ret_node)
{
	if (!out || node_lookup(handle, ret_node) || (*ret_node)->work.kind != kind)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* The parameters' values are shown where the kernel is known by name; others have none. */
CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
					       CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	struct sim_launch *launch;
	CUresult error = graph_query_get_params(hNode, WORK_KERNEL, nodeParams, &node);

	if (error)
		return error;
	launch = &node->work.launch;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS){
		.func = launch->function,
		.gridDimX = launch->grid[0],
		.gridDimY = launch->grid[1],
		.gridDimZ = launch->grid[2],
		.blockDimX = launch->block[0],
		.blockDimY = launch->block[1],
		.blockDimZ = launch->block[2],
		.sharedMemBytes = launch->shared_bytes,
		.kernelParams = kernel_params(launch, node->params) ? node->params : NULL,
	};
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_COPY, nodeParams, &node);

	if (!error)
		*nodeParams = node->work.copy;
	return error;
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_SET, nodeParams, &node);

	if (!error)
		*nodeParams = node->work.set;
	return error;
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_HOST, nodeParams, &node);

	if (!error)
		*nodeParams = node->work.host;
	return error;
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_GRAPH, phGraph, &node);

	if (!error)
		*phGraph = node->work.graph;
	return error;
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_RECORD_EVENT, event_out, &node);

	if (!error)
		*event_out = (CUevent)node->work.event;
	return error;
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_WAIT_EVENT, event_out, &node);

	if (!error)
		*event_out = (CUevent)node->work.event;
	return error;
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
					      CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_ALLOC, params_out, &node);

	if (!error)
		*params_out = (CUDA_MEM_ALLOC_NODE_PARAMS){
			.poolProps = node->work.mem.props,
			.bytesize = node->work.mem.bytes,
			.dptr = node->work.mem.ptr,
		};
	return error;
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	struct sim_node *node;
	CUresult error = graph_query_get_params(hNode, WORK_FREE, dptr_out, &node);

	if (!error)
		*dptr_out = node->work.mem.ptr;
	return error;
}
