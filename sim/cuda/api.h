/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's entry points, from the list: a definition here that disagrees with it
 * does not compile. Rows without a prototype (CUDA_PASS) are declared by who implements them, with
 * SIM_EXPORT.
 */
#ifndef ALLOT_SIM_CUDA_API_H
#define ALLOT_SIM_CUDA_API_H

#include "nvidia/abi/cuda.h"

#define SIM_EXPORT __attribute__((visibility("default")))

#define CUDA_HOOK(name, kind, params, args) SIM_EXPORT CUresult CUDAAPI name params;
#define CUDA_CALL(name, kind, params, args) SIM_EXPORT CUresult CUDAAPI name params;
#include "nvidia/cuda_api.def"

#endif
