/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that uses the GPU in its constructor, while whoever loads it holds the loader's lock,
 * and says how many bytes it got beside its context.
 */
#include "sim/cuda/api.h"
#include "tests/check.h"

__attribute__((constructor)) static void take(void)
{
	CUcontext context;
	CUdeviceptr block;
	size_t got = 0;

	CHECK_EQ(cuInit(0), CUDA_SUCCESS);
	CHECK_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
	while (!cuMemAlloc_v2(&block, 4 << 20))
		got += 4 << 20;
	printf("%zu\n", got);
	fflush(stdout);
}
