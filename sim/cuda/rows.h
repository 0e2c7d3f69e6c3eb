/* SPDX-License-Identifier: Apache-2.0 */
/* Two exported rows of one body: the plain name, and the one that means the thread's own stream. */
#ifndef ALLOT_SIM_ROWS_H
#define ALLOT_SIM_ROWS_H

#include "sim/cuda/api.h"

/* impl(arguments ..., per_thread) is what both call. */
#define ROWS(name, suffix, impl, params, ...)       \
	CUresult CUDAAPI name params                \
	{                                           \
		return impl(__VA_ARGS__, false);    \
	}                                           \
	CUresult CUDAAPI name##suffix params        \
	{                                           \
		return impl(__VA_ARGS__, true);     \
	}

#endif
