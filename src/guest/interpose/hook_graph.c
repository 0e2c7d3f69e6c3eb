/* SPDX-License-Identifier: Apache-2.0 */
/* A graph's launch is work and may take memory, too. And what captures launches into a graph. */
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/launch/admission.h"
#include "guest/memory/graph.h"

#define LAUNCH(name, own)                                                              \
	CUresult hook_##name(CUgraphExec hGraphExec, CUstream hStream)                 \
	{                                                                              \
		GUEST_ALONE(name, (hGraphExec, hStream));                              \
		if (admission_is_open(guest))                                          \
			return graph_run(guest, hGraphExec, hStream, cuda_real.name);  \
		HOLD_MEMORY(name);                                                     \
		struct launch launch = {.stream = hStream, .per_thread = own,          \
					.kind = LAUNCH_GRAPH, .key = KEY(hGraphExec),  \
					.blocks = 1,                                   \
					.waits = graph_waits(guest, hGraphExec)};      \
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
#define CAPTURE(name, own, params, args)                                                           \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_OR_PASS(name, args);                                                         \
		CUresult e;                                                                        \
                                                                                                   \
		atomic_store(&guest->captures, true);                                              \
		e = DRIVER(name, args);                                                            \
		if (!e)                                                                            \
			capturing_begin(guest, launch_stream(hStream, own));                       \
		return e;                                                                          \
	}

#define TO_GRAPH(name, own)                                                                        \
	CAPTURE(name, own,                                                                              \
		(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,                \
		 const CUgraphEdgeData *dependencyData, size_t numDependencies,                    \
		 CUstreamCaptureMode mode),                                                        \
		(hStream, hGraph, dependencies, dependencyData, numDependencies, mode))

CAPTURE(cuStreamBeginCapture, false, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_ptsz, true, (CUstream hStream), (hStream))
CAPTURE(cuStreamBeginCapture_v2, false, (CUstream hStream, CUstreamCaptureMode mode),
	(hStream, mode))
CAPTURE(cuStreamBeginCapture_v2_ptsz, true, (CUstream hStream, CUstreamCaptureMode mode),
	(hStream, mode))
TO_GRAPH(cuStreamBeginCaptureToGraph, false)
TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz, true)

#define END(name, own)                                                       \
	CUresult hook_##name(CUstream hStream, CUgraph *phGraph)             \
	{                                                                    \
		GUEST_OR_PASS(name, (hStream, phGraph));                     \
		CUresult e = DRIVER(name, (hStream, phGraph));               \
                                                                             \
		capturing_end(guest, launch_stream(hStream, own));           \
		return e;                                                    \
	}
END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)
