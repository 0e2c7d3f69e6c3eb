/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of capture. */
#include "sim/cuda/capture.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/stream.h"

static CUresult capture_api_begin(CUstream handle, CUstreamCaptureMode mode, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	return capture_begin(stream, NULL, NULL, 0, mode);
}

ROWS(cuStreamBeginCapture, _ptsz, capture_api_begin, (CUstream hStream), hStream,
     CU_STREAM_CAPTURE_MODE_GLOBAL)
ROWS(cuStreamBeginCapture_v2, _ptsz, capture_api_begin,
     (CUstream hStream, CUstreamCaptureMode mode), hStream, mode)

static CUresult capture_api_begin_to(CUstream handle, CUgraph graph_handle, const CUgraphNode *deps,
				     size_t n_deps, CUstreamCaptureMode mode, bool per_thread)
{
	struct sim_stream *stream;
	struct sim_graph *graph;
	struct sim_node *node;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED ||
	    graph_lookup(graph_handle, &graph) || (n_deps && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n_deps; i++)
		if (node_lookup(deps[i], &node) || node->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	return capture_begin(stream, graph, deps, n_deps, mode);
}

ROWS(cuStreamBeginCaptureToGraph, _ptsz, capture_api_begin_to,
     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
      const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
     hStream, hGraph, dependencies, numDependencies, mode)

static CUresult capture_api_end(CUstream handle, CUgraph *ret, bool per_thread)
{
	struct sim_graph *graph = NULL;
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	error = capture_finish(stream, &graph);
	if (ret)
		*ret = (CUgraph)graph;
	return error; /* without `ret` nobody has the graph, and it stays */
}

ROWS(cuStreamEndCapture, _ptsz, capture_api_end, (CUstream hStream, CUgraph *phGraph), hStream,
     phGraph)

static CUresult capture_api_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
				 CUgraph *graph, const CUgraphNode **deps,
				 const CUgraphEdgeData **edges, size_t *n_deps, bool per_thread)
{
	struct sim_stream *stream;
	struct capture_info is;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	error = capture_describe(stream, &is);
	if (error)
		return error;
	*status = is.status;
	if (is.status == CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_SUCCESS;
	if (id)
		*id = is.id;
	if (graph)
		*graph = is.graph;
	if (deps)
		*deps = is.deps;
	if (edges)
		*edges = NULL; /* none but plain ones are simulated */
	if (n_deps)
		*n_deps = is.n_deps;
	return CUDA_SUCCESS;
}

ROWS(cuStreamIsCapturing, _ptsz, capture_api_info,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus), hStream, captureStatus, NULL, NULL,
     NULL, NULL, NULL)
ROWS(cuStreamGetCaptureInfo, _ptsz, capture_api_info,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out), hStream,
     captureStatus_out, id_out, NULL, NULL, NULL, NULL)
ROWS(cuStreamGetCaptureInfo_v2, _ptsz, capture_api_info,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
     hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL, numDependencies_out)
ROWS(cuStreamGetCaptureInfo_v3, _ptsz, capture_api_info,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out,
      const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
     numDependencies_out)

static CUresult capture_api_update(CUstream handle, const CUgraphNode *deps, size_t n_deps,
				   unsigned int flags, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (flags > 1 || (n_deps && !deps)) /* 1: CU_STREAM_SET_CAPTURE_DEPENDENCIES */
		return CUDA_ERROR_INVALID_VALUE;
	return capture_update(stream, deps, n_deps, flags);
}

ROWS(cuStreamUpdateCaptureDependencies, _ptsz, capture_api_update,
     (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags),
     hStream, dependencies, numDependencies, flags)
ROWS(cuStreamUpdateCaptureDependencies_v2, _ptsz, capture_api_update,
     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
      size_t numDependencies, unsigned int flags),
     hStream, dependencies, numDependencies, flags)

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = capture_mode_exchange(*mode);
	return CUDA_SUCCESS;
}
