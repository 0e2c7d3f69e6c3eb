/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of executables: instantiate, launch, update, destroy. */
#include <stdlib.h>

#include "sim/cuda/event.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/kernel.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/user_object.h"

#define FLAGS                                                                                  \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
	 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

CUresult graph_exec_lookup(CUgraphExec handle, struct sim_graph_exec **ret_exec)
{
	struct sim_graph_exec *exec = (struct sim_graph_exec *)handle;
	CUresult error = sim_ready();

	if (error)
		return error;
	if (!exec || exec->magic != GRAPH_EXEC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_exec = exec;
	return CUDA_SUCCESS;
}

/* Memory nodes belong to one executable at a time. */
static CUresult graph_exec_api_claim_memory(struct sim_graph *graph)
{
	for (struct sim_node *node = graph->nodes; node; node = node->next) {
		if (node->work.kind != WORK_ALLOC || graph_mem_claim(node))
			continue;
		for (struct sim_node *done = graph->nodes; done != node; done = done->next)
			if (done->work.kind == WORK_ALLOC)
				graph_mem_disclaim(done);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

static CUresult graph_exec_api_instantiate(CUgraphExec *ret, CUgraph handle,
					   unsigned long long flags)
{
	struct sim_graph_exec *exec;
	struct sim_graph *graph;
	CUresult error = graph_lookup(handle, &graph);

	if (error || !ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags & ~(unsigned long long)FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->graph = graph_copy(graph);
	if (!exec->graph)
		error = CUDA_ERROR_OUT_OF_MEMORY;
	else if (graph_sort(exec->graph, &exec->order))
		error = CUDA_ERROR_INVALID_VALUE;
	else
		error = graph_exec_api_claim_memory(exec->graph);
	if (error) {
		graph_free(exec->graph);
		free(exec->order);
		free(exec);
		return error;
	}
	exec->magic = GRAPH_EXEC_MAGIC;
	exec->flags = flags;
	pthread_mutex_init(&exec->lock, NULL);
	*ret = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					     unsigned long long flags)
{
	return graph_exec_api_instantiate(phGraphExec, hGraph, flags);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
				    CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize)
		*logBuffer = 0;
	return graph_exec_api_instantiate(phGraphExec, hGraph, 0);
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
				       CUgraphNode *phErrorNode, char *logBuffer,
				       size_t bufferSize)
{
	return cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

static CUresult graph_exec_api_instantiate_with(CUgraphExec *ret, CUgraph handle,
						CUDA_GRAPH_INSTANTIATE_PARAMS *params,
						bool per_thread)
{
	struct sim_stream *stream = NULL;
	CUresult error = CUDA_SUCCESS;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	if (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		error = stream_resolve(params->hUploadStream, per_thread, &stream);
	if (!error)
		error = graph_exec_api_instantiate(ret, handle, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = error ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	if (!error && stream) {
		error = graph_upload((struct sim_graph_exec *)*ret, stream);
		if (error)
			cuGraphExecDestroy(*ret);
	}
	return error;
}

ROWS(cuGraphInstantiateWithParams, _ptsz, graph_exec_api_instantiate_with,
     (CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
     phGraphExec, hGraph, instantiateParams)

/* Drops the references of the graph and its children when the last launch is done. */
static void graph_exec_api_let_go(struct sim_graph *graph, struct sim_mark *last)
{
	for (struct sim_node *node = graph->nodes; node; node = node->next)
		if (node->work.kind == WORK_GRAPH)
			graph_exec_api_let_go((struct sim_graph *)node->work.graph, last);
	user_object_refs_release(graph->objects, last);
	graph->objects = NULL;
}

/* A launch that was made goes on: its works are the stream's. */
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct sim_graph_exec *exec;
	CUresult error = graph_exec_lookup(hGraphExec, &exec);

	if (error)
		return error;
	for (struct sim_node *node = exec->graph->nodes; node; node = node->next)
		if (node->work.kind == WORK_ALLOC)
			graph_mem_disclaim(node);
	exec->magic = 0;
	graph_exec_api_let_go(exec->graph, exec->last);
	mark_unref(exec->last);
	graph_free(exec->graph);
	free(exec->order);
	pthread_mutex_destroy(&exec->lock);
	free(exec);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	struct sim_graph_exec *exec;

	if (graph_exec_lookup(hGraphExec, &exec) || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

static CUresult graph_exec_api_launch(CUgraphExec handle, CUstream stream_handle, bool per_thread)
{
	struct sim_graph_exec *exec;
	struct sim_stream *stream;
	CUresult error = graph_exec_lookup(handle, &exec);

	if (!error)
		error = stream_resolve(stream_handle, per_thread, &stream);
	if (!error)
		error = capture_forbids_legacy(stream);
	if (error)
		return error;
	if (stream_is_capturing(stream)) { /* a child of what is captured */
		struct sim_work work = {.kind = WORK_GRAPH};

		if (graph_has_memory(exec->graph))
			return CUDA_ERROR_NOT_SUPPORTED;
		work.graph = (CUgraph)graph_copy(exec->graph);
		if (!work.graph)
			return CUDA_ERROR_OUT_OF_MEMORY;
		((struct sim_graph *)work.graph)->child = true;
		error = capture_work(stream, &work);
		if (error)
			graph_free((struct sim_graph *)work.graph);
		return error;
	}
	return graph_launch(exec, stream);
}

ROWS(cuGraphLaunch, _ptsz, graph_exec_api_launch, (CUgraphExec hGraph, CUstream hStream), hGraph,
     hStream)

static CUresult graph_exec_api_upload(CUgraphExec handle, CUstream stream_handle, bool per_thread)
{
	struct sim_graph_exec *exec;
	struct sim_stream *stream;
	CUresult error = graph_exec_lookup(handle, &exec);

	if (!error)
		error = stream_resolve(stream_handle, per_thread, &stream);
	if (!error)
		error = capture_forbids_legacy(stream);
	if (!error && stream_is_capturing(stream))
		error = capture_forbids_sync(stream);
	return error ? error : graph_upload(exec, stream);
}

ROWS(cuGraphUpload, _ptsz, graph_exec_api_upload, (CUgraphExec hGraph, CUstream hStream), hGraph,
     hStream)

/* ---- Updates: the same shape with other parameters ---- */

static CUgraphExecUpdateResult graph_exec_api_compare(struct sim_graph *old, struct sim_graph *new,
						      struct sim_node **ret_at)
{
	struct sim_node *a = old->nodes, *b = new->nodes;

	*ret_at = NULL;
	if (old->n != new->n)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	graph_number(old);
	graph_number(new);
	for (; a; a = a->next, b = b->next) {
		*ret_at = b;
		if (a->work.kind != b->work.kind)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (a->n_deps != b->n_deps)
			return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		for (size_t i = 0; i < a->n_deps; i++)
			if (a->deps[i]->index != b->deps[i]->index)
				return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (a->mem && a->work.mem.ptr != b->work.mem.ptr)
			return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
		if (a->work.kind == WORK_GRAPH) {
			struct sim_node *inner;
			CUgraphExecUpdateResult result =
				graph_exec_api_compare((struct sim_graph *)a->work.graph,
						       (struct sim_graph *)b->work.graph, &inner);

			if (result)
				return result;
		}
	}
	*ret_at = NULL;
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/*
 * Both are known to have the same shape. Copies then stand for the new graph's nodes, and keep what
 * that keeps.
 */
static void graph_exec_api_adopt(struct sim_graph *old, struct sim_graph *new, struct sim_mark *last)
{
	struct user_object_ref *objects = NULL;
	struct sim_node *b = new->nodes;

	if (!user_object_refs_copy(&objects, new->objects)) {
		user_object_refs_release(old->objects, last);
		old->objects = objects;
	}
	for (struct sim_node *a = old->nodes; a; a = a->next, b = b->next) {
		if (a->work.kind == WORK_GRAPH)
			graph_exec_api_adopt((struct sim_graph *)a->work.graph,
					     (struct sim_graph *)b->work.graph, last);
		else
			node_set(a, &b->work);
		a->origin = b;
	}
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
				      CUgraphExecUpdateResultInfo *resultInfo)
{
	struct sim_graph_exec *exec;
	struct sim_graph *graph;
	struct sim_node *at;
	CUgraphExecUpdateResult result;

	if (resultInfo)
		*resultInfo = (CUgraphExecUpdateResultInfo){0};
	if (graph_exec_lookup(hGraphExec, &exec) || graph_lookup(hGraph, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	result = graph_exec_api_compare(exec->graph, graph, &at);
	if (!result)
		graph_exec_api_adopt(exec->graph, graph, exec->last);
	pthread_mutex_unlock(&exec->lock);
	if (resultInfo)
		*resultInfo = (CUgraphExecUpdateResultInfo){.result = result,
							    .errorNode = (CUgraphNode)at};
	return result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
				   CUgraphNode *hErrorNode_out,
				   CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info = {0};
	CUresult error = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	if (updateResult_out)
		*updateResult_out = info.result;
	return error;
}

/* Gives the executable's copy of a node another work. */
static CUresult graph_exec_api_set_copy(CUgraphExec exec_handle, CUgraphNode node_handle,
					const struct sim_work *work)
{
	struct sim_graph_exec *exec;
	struct sim_node *node;
	CUresult error;

	if (graph_exec_lookup(exec_handle, &exec))
		return CUDA_ERROR_INVALID_VALUE;
	node = graph_find_copy(exec->graph, (struct sim_node *)node_handle);
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	error = node_set(node, work);
	pthread_mutex_unlock(&exec->lock);
	return error;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
						   const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_kernel_work(nodeParams, &work);

	return error ? error : graph_exec_api_set_copy(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct sim_work work;
	CUresult error = graph_copy_work(copyParams, &work);

	/* The driver takes one row here, not a box. */
	if (!error && (copyParams->Height > 1 || copyParams->Depth > 1))
		error = CUDA_ERROR_INVALID_VALUE;
	return error ? error : graph_exec_api_set_copy(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						const CUDA_MEMSET_NODE_PARAMS *memsetParams,
						CUcontext ctx)
{
	struct sim_work work;
	CUresult error = graph_set_work(memsetParams, &work);

	return error ? error : graph_exec_api_set_copy(hGraphExec, hNode, &work);
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					      const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult error = graph_host_work(nodeParams, &work);

	return error ? error : graph_exec_api_set_copy(hGraphExec, hNode, &work);
}

static CUresult graph_exec_api_set_event(CUgraphExec exec, CUgraphNode node, enum work_kind kind,
					 CUevent event)
{
	struct sim_work work;
	CUresult error = graph_event_work(kind, event, &work);

	return error ? error : graph_exec_api_set_copy(exec, node, &work);
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
						    CUevent event)
{
	return graph_exec_api_set_event(hGraphExec, hNode, WORK_RECORD_EVENT, event);
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
						  CUevent event)
{
	return graph_exec_api_set_event(hGraphExec, hNode, WORK_WAIT_EVENT, event);
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
						    CUgraph childGraph)
{
	struct sim_graph_exec *exec;
	struct sim_graph *graph;
	struct sim_node *node, *at;
	CUresult error = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;

	if (graph_exec_lookup(hGraphExec, &exec) || graph_lookup(childGraph, &graph))
		return CUDA_ERROR_INVALID_VALUE;
	node = graph_find_copy(exec->graph, (struct sim_node *)hNode);
	if (!node || node->work.kind != WORK_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	if (!graph_exec_api_compare((struct sim_graph *)node->work.graph, graph, &at)) {
		graph_exec_api_adopt((struct sim_graph *)node->work.graph, graph, exec->last);
		error = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&exec->lock);
	return error;
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					  CUgraphNodeParams *nodeParams)
{
	struct sim_work work;
	CUresult error;

	if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode,
							  nodeParams->graph.graph);
	error = graph_params_work(nodeParams, &work);
	return error ? error : graph_exec_api_set_copy(hGraphExec, hNode, &work);
}

static CUresult graph_exec_api_copy_of(CUgraphExec exec_handle, CUgraphNode handle,
				       struct sim_node **ret_node)
{
	struct sim_graph_exec *exec;
	struct sim_node *node;

	if (graph_exec_lookup(exec_handle, &exec))
		return CUDA_ERROR_INVALID_VALUE;
	node = graph_find_copy(exec->graph, (struct sim_node *)handle);
	if (!node || node->work.kind > WORK_SET) /* kernels, copies and sets, says the driver */
		return CUDA_ERROR_INVALID_VALUE;
	*ret_node = node;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
				       unsigned int isEnabled)
{
	struct sim_node *node;
	CUresult error = graph_exec_api_copy_of(hGraphExec, hNode, &node);

	if (!error)
		node->disabled = !isEnabled;
	return error;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
				       unsigned int *isEnabled)
{
	struct sim_node *node;
	CUresult error = graph_exec_api_copy_of(hGraphExec, hNode, &node);

	if (!error && !isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	if (!error)
		*isEnabled = !node->disabled;
	return error;
}
