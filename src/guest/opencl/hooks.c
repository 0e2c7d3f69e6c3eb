/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/opencl/hooks.h"

#include <stddef.h>

void *const opencl_hooks[] = {
#define OPENCL_HOOK(index, version, result, name, params) (void *)opencl_hook_##name,
#define OPENCL_CALL(index, version, result, name, params) NULL,
#include "opencl/opencl_api.def"
};
