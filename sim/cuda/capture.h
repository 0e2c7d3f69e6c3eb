/* SPDX-License-Identifier: Apache-2.0 */
/* Capture, for its own rows; what other calls need of it is in stream.h, exec.h and event.h. */
#ifndef ALLOT_SIM_CAPTURE_H
#define ALLOT_SIM_CAPTURE_H

#include "sim/cuda/graph.h"

/* Into a new graph, or into the program's, where the first nodes depend on `deps`. */
CUresult capture_begin(struct sim_stream *stream, struct sim_graph *graph, const CUgraphNode *deps,
		       size_t n_deps, CUstreamCaptureMode mode);
CUresult capture_finish(struct sim_stream *stream, struct sim_graph **ret_graph);

struct capture_info {
	CUstreamCaptureStatus status;
	cuuint64_t id; /* this and the rest only while the stream captures */
	CUgraph graph;
	const CUgraphNode *deps; /* until the stream's next call */
	size_t n_deps;
};

/* STREAM_CAPTURE_IMPLICIT for the legacy stream beside a blocking one that captures. */
CUresult capture_describe(struct sim_stream *stream, struct capture_info *ret_info);
/* Sets the nodes that the stream's next node depends on: `deps` alone, or also those of before. */
CUresult capture_update(struct sim_stream *stream, const CUgraphNode *deps, size_t n_deps,
			bool replace);
/* The calling thread's mode; the one before comes back. */
CUstreamCaptureMode capture_mode_exchange(CUstreamCaptureMode mode);

#endif
