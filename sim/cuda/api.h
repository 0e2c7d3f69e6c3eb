/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's entry points, from the list: a definition here that disagrees with it
 * does not compile. Within the library a row's definition has the symbol sim_<name>, and entries.c
 * has the exported one, in front of it.
 */
#ifndef ALLOT_SIM_CUDA_API_H
#define ALLOT_SIM_CUDA_API_H

#include "nvidia/abi/cuda.h"

#ifdef SIM_CUDA_LIBRARY
#define SIM_ROW(name) __asm__("sim_" #name) __attribute__((visibility("hidden")))
#else
#define SIM_ROW(name)
#endif

#define CUDA_HOOK(name, kind, params, args) CUresult CUDAAPI name params SIM_ROW(name);
#define CUDA_CALL(name, kind, params, args) CUresult CUDAAPI name params SIM_ROW(name);
#include "nvidia/cuda_api.def"

#endif
