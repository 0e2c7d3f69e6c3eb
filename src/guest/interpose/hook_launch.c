/* SPDX-License-Identifier: Apache-2.0 */
/* Work on its way to the device passes the gate. Graph launches do so in hook_graph.c. */
#include "guest/core/hook.h"
#include "guest/launch/admission.h"

#define LAUNCH(name, params, args)                                                                 \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_ALONE(name, args);                                                           \
		if (admission_is_open(guest))                                                      \
			return DRIVER(name, args);                                                 \
		HOLD_MEMORY(name);                                                                 \
		struct launch launch = {UNIT_##name};                                              \
		CUresult e;                                                                        \
                                                                                                   \
		e = admission_enter(guest, &launch);                                               \
		if (e)                                                                             \
			return e;                                                                  \
		e = DRIVER(name, args);                                                            \
		admission_leave(guest, &launch, e);                                                \
		return e;                                                                          \
	}

/* The stream, the function and the number of blocks of each entry point. */
#define GRID ((uint64_t)gridDimX * gridDimY * gridDimZ)
#define UNIT_cuLaunchKernel .stream = hStream, .key = KEY(f), .blocks = GRID
#define UNIT_cuLaunchKernel_ptsz UNIT_cuLaunchKernel, .per_thread = true
#define UNIT_cuLaunchCooperativeKernel UNIT_cuLaunchKernel
#define UNIT_cuLaunchCooperativeKernel_ptsz UNIT_cuLaunchKernel_ptsz
#define UNIT_cuLaunchKernelEx                                                                  \
	.stream = config ? config->hStream : NULL, .key = KEY(f),                              \
	.blocks = config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 0
#define UNIT_cuLaunchKernelEx_ptsz UNIT_cuLaunchKernelEx, .per_thread = true
#define UNIT_cuLaunch .key = KEY(f), .blocks = 1
#define UNIT_cuLaunchGrid .key = KEY(f), .blocks = (uint64_t)grid_width * (uint64_t)grid_height
#define UNIT_cuLaunchGridAsync UNIT_cuLaunchGrid, .stream = hStream
/* One launch on several devices: metered on the current one, held for all. A list may be empty. */
#define FIRST(member) (launchParamsList && numDevices ? launchParamsList->member : NULL)
#define UNIT_cuLaunchCooperativeKernelMultiDevice                                                  \
	.stream = FIRST(hStream), .key = KEY(FIRST(function)), .blocks = numDevices

/* The list says which: each row of this kind is such a hook. */
#include "guest/interpose/no_rows.h"
#undef ROW_LAUNCH
#define ROW_LAUNCH(name, params, args) LAUNCH(name, params, args)
#include "nvidia/cuda_api.def"
