/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A declaration for every hooked row of the lists. The ELF symbol is the ABI name, the C name is
 * hook_<name>: vendor headers make macros of some ABI names, and a hook that calls "cuMemAlloc_v2"
 * by mistake would come back to itself. A hook whose prototype is not the row's does not compile;
 * a row without a hook does not link (hooks.c takes the address of each).
 */
#ifndef ALLOT_GUEST_CORE_HOOKS_H
#define ALLOT_GUEST_CORE_HOOKS_H

#include "nvidia/cuda_api.h"
#include "nvidia/nvml_api.h"

#pragma GCC visibility push(default)
#define CUDA_HOOK(name, kind, params, args) CUresult CUDAAPI hook_##name params __asm__(#name);
#include "nvidia/cuda_api.def"
#define NVML_HOOK(name, kind, params, args) nvmlReturn_t hook_##name params __asm__(#name);
#include "nvidia/nvml_api.def"
#pragma GCC visibility pop

/* The hook of a row, or NULL for a row that is passed through. */
extern void *const hook_cuda[CUDA_FN_N];
extern void *const hook_nvml[NVML_FN_N];

#endif
