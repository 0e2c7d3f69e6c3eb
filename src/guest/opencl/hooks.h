/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of the list, by row. */
#ifndef ALLOT_GUEST_OPENCL_HOOKS_H
#define ALLOT_GUEST_OPENCL_HOOKS_H

#include "opencl/abi/opencl.h"

#define OPENCL_HOOK(index, version, result, name, params) result opencl_hook_##name params;
#include "opencl/opencl_api.def"

/* NULL: the function is called alone. */
extern void *const opencl_hooks[];

/*
 * NVIDIA's clCreateBufferNV (cl_nv_create_buffer) is in no table: programs ask for it by name. The hook
 * for the driver's `real`; NULL where another driver's is hooked.
 */
void *opencl_hook_buffer_nv(void *real);

#endif
