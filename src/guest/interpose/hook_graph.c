/* SPDX-License-Identifier: Apache-2.0 */
/* A graph's launch is work and may take memory, too. And what captures launches into a graph. */
#include "guest/core/hook.h"
#include "guest/launch/admission.h"
#include "guest/memory/graph.h"

#define LAUNCH(name, own)                                                              \
	CUresult hook_##name(CUgraphExec hGraphExec, CUstream hStream)                 \
	{                                                                              \
		GUEST_OR_PASS(name, (hGraphExec, hStream));                            \
		if (admission_is_open(guest))                                          \
			return graph_run(guest, hGraphExec, hStream, cuda_real.name);  \
		struct launch launch = {.stream = hStream, .per_thread = own,          \
					.kind = LAUNCH_GRAPH, .key = KEY(hGraphExec),  \
					.blocks = 1};                                  \
		CUresult e;                                                            \
                                                                                       \
		e = admission_enter(guest, &launch);                                   \
		if (e)                                                                 \
			return e;                                                      \
		e = graph_run(guest, hGraphExec, hStream, cuda_real.name);             \
		admission_leave(guest, &launch, e);                                    \
		return e;                                                              \
	}
LAUNCH(cuGraphLaunch, false)
LAUNCH(cuGraphLaunch_ptsz, true)

/*
 * From the first capture on, each launch asks whether its stream captures: the end of a capture is
 * not always seen.
 */
#define CAPTURE(name, params, args)                                                                \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		atomic_store(&guest->captures, true);                                              \
		return DRIVER(name, args);                                                         \
	}

#define TO_GRAPH(name)                                                                             \
	CAPTURE(name,                                                                              \
		(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,                \
		 const CUgraphEdgeData *dependencyData, size_t numDependencies,                    \
		 CUstreamCaptureMode mode),                                                        \
		(hStream, hGraph, dependencies, dependencyData, numDependencies, mode))

CAPTURE(cuStreamBeginCapture, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_ptsz, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
TO_GRAPH(cuStreamBeginCaptureToGraph)
TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)
