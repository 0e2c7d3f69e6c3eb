/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver that returns at once: a weak entry point for each row of the list that answers success
 * and does nothing. What a hook costs against it is the hook's own cost. driver.c has the few that
 * must answer something.
 */
#include "bench/null/rows.h"

#define WEAK __attribute__((weak, visibility("default")))
#define CUDA_HOOK(name, kind, params, args)                                                  \
	WEAK CUresult CUDAAPI name params { return CUDA_SUCCESS; }
#define CUDA_CALL(name, kind, params, args) CUDA_HOOK(name, kind, params, args)
#define CUDA_PASS(name, kind) WEAK CUresult CUDAAPI name(void) { return CUDA_SUCCESS; }
#include "nvidia/cuda_api.def"
