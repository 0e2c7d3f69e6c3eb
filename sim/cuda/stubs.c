/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weak definition for each row of the list, so that the library has all of them whatever is
 * implemented: a strong definition in another file takes its place.
 */
#include "sim/cuda/stubs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"

/* Calls of each row that nobody implements; a debugger or a test reads it by name. */
static _Atomic uint64_t sim_unsupported_calls[CUDA_FN_N];

#define STUB __attribute__((weak))
#define CUDA_HOOK(name, kind, params, args) STUB CUresult CUDAAPI name params;
#define CUDA_CALL(name, kind, params, args) STUB CUresult CUDAAPI name params;
#define CUDA_PASS(name, kind) __attribute__((visibility("default"))) CUresult CUDAAPI name(void);
#include "nvidia/cuda_api.def"

#define BODY(name) { return sim_unsupported(CUDA_FN_##name); }
#define CUDA_HOOK(name, kind, params, args) CUresult CUDAAPI name params BODY(name)
#define CUDA_CALL(name, kind, params, args) CUresult CUDAAPI name params BODY(name)
#define CUDA_PASS(name, kind) CUresult CUDAAPI name(void) BODY(name)
#include "nvidia/cuda_api.def"

CUresult sim_unsupported(enum cuda_fn fn)
{
	atomic_fetch_add_explicit(&sim_unsupported_calls[fn], 1, memory_order_relaxed);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static __attribute__((destructor)) void report(void)
{
	const char *trace = getenv("ALLOT_SIM_TRACE");

	if (!trace || strcmp(trace, "1"))
		return;
	for (int i = 0; i < CUDA_FN_N; i++) {
		uint64_t n = atomic_load_explicit(&sim_unsupported_calls[i], memory_order_relaxed);

		if (n)
			fprintf(stderr, "allot sim: not simulated: %s, %llu calls\n",
				cuda_rows[i].name, (unsigned long long)n);
	}
}
