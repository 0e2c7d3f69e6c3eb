/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weak entry point for each row of the list, so that the library exports all of them whatever is
 * simulated: a strong definition in another file takes its place. Calls that nobody answers are
 * counted.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nvml/entry.h"

/* Calls of each row that is not simulated; a debugger reads it by name. */
static _Atomic uint64_t sim_nvml_unsupported_calls[NVML_FN_N];

static nvmlReturn_t stubs_unsupported(enum nvml_fn fn)
{
	atomic_fetch_add_explicit(&sim_nvml_unsupported_calls[fn], 1, memory_order_relaxed);
	return NVML_ERROR_NOT_SUPPORTED;
}

#define STUB ENTRY __attribute__((weak))
#define NVML_HOOK(name, kind, params, args) STUB nvmlReturn_t name params;
#define NVML_CALL(name, kind, params, args) STUB nvmlReturn_t name params;
#define NVML_PASS(name, kind) STUB nvmlReturn_t name(void);
#include "nvidia/nvml_api.def"

#define BODY(name)                                                                                 \
	{                                                                                          \
		return stubs_unsupported(NVML_FN_##name);                                          \
	}
#define NVML_HOOK(name, kind, params, args) nvmlReturn_t name params BODY(name)
#define NVML_CALL(name, kind, params, args) nvmlReturn_t name params BODY(name)
#define NVML_PASS(name, kind) nvmlReturn_t name(void) BODY(name)
#include "nvidia/nvml_api.def"

static __attribute__((destructor)) void report(void)
{
	const char *trace = getenv("ALLOT_SIM_TRACE");

	if (!trace || strcmp(trace, "1"))
		return;
	for (int i = 0; i < NVML_FN_N; i++) {
		uint64_t n = atomic_load_explicit(&sim_nvml_unsupported_calls[i],
						  memory_order_relaxed);

		if (n)
			fprintf(stderr, "allot sim: not simulated: %s, %llu calls\n",
				nvml_rows[i].name, (unsigned long long)n);
	}
}
