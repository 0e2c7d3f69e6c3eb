/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library exports: for each row a function that notes a call in progress (call.h), and
 * calls the row's definition. Rows without a prototype are what stubs.c answers.
 */
#include "sim/cuda/api.h"
#include "sim/cuda/call.h"
#include "sim/cuda/report.h"
#include "sim/cuda/stubs.h"

/* These are about no memory and no work, or about another process as a whole. */
static inline bool entries_is_free(enum cuda_kind kind)
{
	return kind == CUDA_KIND_LOOKUP || kind == CUDA_KIND_INIT || kind == CUDA_KIND_DRIVER ||
	       kind == CUDA_KIND_CHECKPOINT;
}

#define ENTRY(name, kind, params, args)                                             \
	__attribute__((visibility("default"))) CUresult CUDAAPI entry_##name params \
		__asm__(#name);                                                     \
	CUresult CUDAAPI entry_##name params                                        \
	{                                                                           \
		bool noted = false;                                                 \
		CUresult r = CUDA_SUCCESS;                                          \
                                                                                    \
		if (!entries_is_free(CUDA_KIND_##kind))                             \
			r = sim_call_begin(&noted);                                 \
		if (!r)                                                             \
			r = name args;                                              \
		if (noted)                                                          \
			sim_call_end();                                             \
		if (r)                                                              \
			sim_report_result(CUDA_FN_##name, CUDA_KIND_##kind, r);     \
		return r;                                                           \
	}
#define CUDA_HOOK ENTRY
#define CUDA_CALL ENTRY
#define CUDA_PASS(name, kind) \
	__attribute__((visibility("default"))) CUresult CUDAAPI name(void);
#include "nvidia/cuda_api.def"

static void *const entries[CUDA_FN_N] = {
#define CUDA_HOOK(name, kind, params, args) (void *)entry_##name,
#define CUDA_CALL(name, kind, params, args) (void *)entry_##name,
#define CUDA_PASS(name, kind) (void *)name,
#include "nvidia/cuda_api.def"
};

void *sim_entry(enum cuda_fn fn)
{
	return entries[fn];
}
