/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in which the driver only looks at addresses of memory, which may be evicted. */
#include "guest/core/hook.h"

#include "guest/interpose/no_rows.h"
#undef ROW_NAMES
#define ROW_NAMES(name, params, args)            \
	CUresult hook_##name params              \
	{                                        \
		GUEST_OR_PASS(name, args);       \
		return DRIVER(name, args);       \
	}
#include "nvidia/cuda_api.def"
