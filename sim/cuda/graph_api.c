/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that make graphs and nodes, and change nodes. */
#include <stdlib.h>

#include "sim/cuda/api.h"
#include "sim/cuda/block.h"
#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/kernel.h"
#include "sim/cuda/user_object.h"

/* Generic nodes' parameters have the layout of the kinds' own. */
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == sizeof(CUDA_KERNEL_NODE_PARAMS_v3), "alike");
_Static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2),
	       "alike");

CUresult CUDAAPI cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct sim_graph *graph;

	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph = graph_new();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = (CUgraph)graph;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph)
{
	struct sim_graph *graph;

	if (graph_lookup(hGraph, &graph) || graph->child)
		return CUDA_ERROR_INVALID_VALUE;
	graph_free(graph);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode)
{
	struct sim_node *node;

	if (node_lookup(hNode, &node))
		return CUDA_ERROR_INVALID_VALUE;
	if (node->mem)
		return CUDA_ERROR_NOT_SUPPORTED;
	node_free(node);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct sim_graph *graph, *clone;

	if (!phGraphClone || graph_lookup(originalGraph, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_has_memory(graph))
		return CUDA_ERROR_NOT_SUPPORTED;
	clone = graph_copy(graph);
	if (!clone)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraphClone = (CUgraph)clone;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
					CUgraph hClonedGraph)
{
	struct sim_graph *graph;
	struct sim_node *node;

	if (!phNode || graph_lookup(hClonedGraph, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	node = graph_find_copy(graph, (struct sim_node *)hOriginalNode);
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* ---- Parameters to works ---- */

CUresult graph_kernel_work(const CUDA_KERNEL_NODE_PARAMS *params, struct sim_work *ret_work)
{
	CUlaunchConfig config;
	CUfunction function;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	function = params->func ? params->func : (CUfunction)params->kern;
	config = (CUlaunchConfig){params->gridDimX, params->gridDimY, params->gridDimZ,
				  params->blockDimX, params->blockDimY, params->blockDimZ,
				  params->sharedMemBytes, NULL, NULL, 0};
	*ret_work = (struct sim_work){.kind = WORK_KERNEL};
	return kernel_describe(&ret_work->launch, &config, function, params->kernelParams,
			       params->extra);
}

CUresult graph_copy_work(const CUDA_MEMCPY3D *params, struct sim_work *ret_work)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_work = (struct sim_work){.kind = WORK_COPY, .copy = *params};
	return copy_check(params, false);
}

CUresult graph_set_work(const CUDA_MEMSET_NODE_PARAMS *params, struct sim_work *ret_work)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_work = (struct sim_work){.kind = WORK_SET, .set = *params};
	return set_check(params, false);
}

CUresult graph_host_work(const CUDA_HOST_NODE_PARAMS *params, struct sim_work *ret_work)
{
	if (!params || !params->fn)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_work = (struct sim_work){.kind = WORK_HOST, .host = *params};
	return CUDA_SUCCESS;
}

CUresult graph_event_work(enum work_kind kind, CUevent event, struct sim_work *ret_work)
{
	*ret_work = (struct sim_work){.kind = kind};
	return event_lookup(event, &ret_work->event);
}

CUresult graph_params_work(const CUgraphNodeParams *params, struct sim_work *ret_work)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return graph_kernel_work((const void *)&params->kernel, ret_work);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return graph_copy_work(&params->memcpy.copyParams, ret_work);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return graph_set_work(
			&(CUDA_MEMSET_NODE_PARAMS){
				params->memset.dst, params->memset.pitch, params->memset.value,
				params->memset.elementSize, params->memset.width,
				params->memset.height},
			ret_work);
	case CU_GRAPH_NODE_TYPE_HOST:
		return graph_host_work(
			&(CUDA_HOST_NODE_PARAMS){params->host.fn, params->host.userData},
			ret_work);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		*ret_work = (struct sim_work){.kind = WORK_EMPTY};
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return graph_event_work(WORK_WAIT_EVENT, params->eventWait.event, ret_work);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return graph_event_work(WORK_RECORD_EVENT, params->eventRecord.event, ret_work);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* ---- New nodes ---- */

/* `error` is what became of describing the work. */
static CUresult graph_api_add_node(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps,
				   size_t n_deps, CUresult error, const struct sim_work *work)
{
	struct sim_graph *graph;
	struct sim_node *node;

	if (!ret || graph_lookup(handle, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = node_add(graph, work, deps, n_deps, &node);
	if (!error)
		*ret = (CUgraphNode)node;
	return error;
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
					 const CUgraphNode *dependencies, size_t numDependencies,
					 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_kernel_work(nodeParams, &work);

	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error, &work);
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct sim_work work;
	CUresult error = graph_copy_work(copyParams, &work);

	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error, &work);
}

/* True if the program has mapped the memory, which tells no context then. */
static bool graph_api_is_mapped(CUdeviceptr at)
{
	const struct sim_range *range;
	bool mapped;

	sim_lock();
	range = sim_range_find(at);
	mapped = range && range->kind == SIM_RANGE_VMM;
	sim_unlock();
	return mapped;
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct sim_work work;
	CUresult error = graph_set_work(memsetParams, &work);

	if (!error && !ctx && graph_api_is_mapped(memsetParams->dst))
		error = CUDA_ERROR_INVALID_VALUE;
	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error, &work);
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies, size_t numDependencies,
				    const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_host_work(nodeParams, &work);

	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error, &work);
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies)
{
	const struct sim_work work = {.kind = WORK_EMPTY};

	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, CUDA_SUCCESS,
				  &work);
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   CUevent event)
{
	struct sim_work work;
	CUresult error = graph_event_work(WORK_RECORD_EVENT, event, &work);

	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error, &work);
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					 const CUgraphNode *dependencies, size_t numDependencies,
					 CUevent event)
{
	struct sim_work work;
	CUresult error = graph_event_work(WORK_WAIT_EVENT, event, &work);

	return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error, &work);
}

/* The node owns a copy of the child. */
CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					  const CUgraphNode *dependencies, size_t numDependencies,
					  CUgraph childGraph)
{
	struct sim_work work = {.kind = WORK_GRAPH};
	struct sim_graph *child;
	CUresult error;

	if (graph_lookup(childGraph, &child))
		return CUDA_ERROR_INVALID_VALUE;
	if (graph_has_memory(child))
		return CUDA_ERROR_NOT_SUPPORTED;
	child = graph_copy(child);
	if (!child)
		return CUDA_ERROR_OUT_OF_MEMORY;
	child->child = true;
	work.graph = (CUgraph)child;
	error = graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, CUDA_SUCCESS,
				   &work);
	if (error)
		graph_free(child);
	return error;
}

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					const CUgraphNode *dependencies, size_t numDependencies,
					CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct sim_graph *graph;
	struct sim_node *node;
	CUresult error;

	if (!phGraphNode || !nodeParams || !nodeParams->bytesize || graph_lookup(hGraph, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (graph->child)
		return CUDA_ERROR_NOT_SUPPORTED;
	error = node_add_alloc(graph, &nodeParams->poolProps, nodeParams->bytesize, dependencies,
			       numDependencies, &node);
	if (error)
		return error;
	nodeParams->dptr = node->work.mem.ptr;
	*phGraphNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       CUdeviceptr dptr)
{
	struct sim_graph *graph;
	struct sim_node *node;
	CUresult error;

	if (!phGraphNode || graph_lookup(hGraph, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	error = node_add_free(graph, dptr, dependencies, numDependencies, &node);
	if (!error)
		*phGraphNode = (CUgraphNode)node;
	return error;
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies, size_t numDependencies,
				CUgraphNodeParams *nodeParams)
{
	struct sim_work work;
	CUresult error;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	switch (nodeParams->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies,
						nodeParams->graph.graph);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies,
					      (void *)&nodeParams->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(phGraphNode, hGraph, dependencies, numDependencies,
					     nodeParams->free.dptr);
	default:
		error = graph_params_work(nodeParams, &work);
		return graph_api_add_node(phGraphNode, hGraph, dependencies, numDependencies, error,
					  &work);
	}
}

/* Edge data only matters for kernels that start before others end, which is not simulated. */
CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies,
				   const CUgraphEdgeData *dependencyData, size_t numDependencies,
				   CUgraphNodeParams *nodeParams)
{
	return cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

/* ---- Changed nodes ---- */

static CUresult graph_api_change_node(CUgraphNode handle, CUresult error,
				      const struct sim_work *work)
{
	struct sim_node *node;

	if (node_lookup(handle, &node))
		return CUDA_ERROR_INVALID_VALUE;
	return error ? error : node_set(node, work);
}

CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
					       const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_kernel_work(nodeParams, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_copy_work(nodeParams, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode hNode,
					    const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_set_work(nodeParams, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode hNode,
					  const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_host_work(nodeParams, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	struct sim_work work;
	CUresult error = graph_event_work(WORK_RECORD_EVENT, event, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	struct sim_work work;
	CUresult error = graph_event_work(WORK_WAIT_EVENT, event, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_params_work(nodeParams, &work);

	return graph_api_change_node(hNode, error, &work);
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
					       const CUkernelNodeAttrValue *value)
{
	struct sim_node *node;

	return node_lookup(hNode, &node) || !value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
					       CUkernelNodeAttrValue *value_out)
{
	struct sim_node *node;

	if (node_lookup(hNode, &node) || !value_out)
		return CUDA_ERROR_INVALID_VALUE;
	*value_out = (CUkernelNodeAttrValue){{0}};
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct sim_node *node;

	return node_lookup(dst, &node) || node_lookup(src, &node) ? CUDA_ERROR_INVALID_VALUE
								  : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
					 unsigned int flags)
{
	struct sim_graph *in;
	CUresult error = graph_lookup(graph, &in);

	if (error)
		return error;
	if (flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	return user_object_refs_retain(&in->objects, object, count,
				       flags & CU_GRAPH_USER_OBJECT_MOVE);
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct sim_graph *in;
	CUresult error = graph_lookup(graph, &in);

	return error ? error : user_object_refs_give(&in->objects, object, count);
}
