/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/hooks.h"

void *const hook_cuda[CUDA_FN_N] = {
#define CUDA_HOOK(name, kind, params, args) [CUDA_FN_##name] = (void *)hook_##name,
#include "nvidia/cuda_api.def"
};

void *const hook_nvml[NVML_FN_N] = {
#define NVML_HOOK(name, kind, params, args) [NVML_FN_##name] = (void *)hook_##name,
#include "nvidia/nvml_api.def"
};
