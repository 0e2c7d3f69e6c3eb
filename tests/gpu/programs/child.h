/* SPDX-License-Identifier: Apache-2.0 */
/* What the test programs share that use CUDA. */
#ifndef ALLOT_TESTS_GPU_CHILD_H
#define ALLOT_TESTS_GPU_CHILD_H

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvidia/cuda_api.h"
#include "tests/gpu/programs/steered.h"

#define MIB (UINT64_C(1) << 20)
#define cu cuda_real

static inline const char *child_error(CUresult r)
{
	const char *name = NULL;

	return cu.cuGetErrorName(r, &name) || !name ? "unknown error" : name;
}

/* A failure that the test is not about: say so and end. */
static inline void child_must(CUresult r, const char *what)
{
	if (!r)
		return;
	printf("{\"stage\": \"error\", \"what\": \"%s\", \"code\": %d}\n", what, (int)r);
	exit(1);
}
#define MUST(call) child_must(call, #call)

/* The driver as its libraries' users find it; not yet initialised. */
static inline void child_begin(unsigned int watchdog_seconds)
{
	void *driver;

	child_watched(watchdog_seconds);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		printf("{\"stage\": \"error\", \"what\": \"no libcuda.so.1\", \"code\": -1}\n");
		exit(1);
	}
	cuda_driver_bind(driver, dlsym);
}

static inline CUcontext child_context(CUdevice device)
{
	CUcontext context;

	MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
	MUST(cu.cuCtxSetCurrent(context));
	return context;
}

#endif
