/* SPDX-License-Identifier: Apache-2.0 */
/* The prototypes of the list's rows. */
#ifndef ALLOT_BENCH_NULL_ROWS_H
#define ALLOT_BENCH_NULL_ROWS_H

#include "nvidia/abi/cuda.h"

#define CUDA_HOOK(name, kind, params, args) CUresult CUDAAPI name params;
#define CUDA_CALL(name, kind, params, args) CUresult CUDAAPI name params;
#define CUDA_PASS(name, kind) CUresult CUDAAPI name(void);
#include "nvidia/cuda_api.def"

#endif
