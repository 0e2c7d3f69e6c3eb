/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of contexts, which take what was allocated in them along when they go. */
#include "families_steps.h"

/* Takes a bit of everything that lives in a context; the rest outlives it. */
static void some_of_all(void)
{
	CUDA_ARRAY_DESCRIPTOR d = {1024, 512, CU_AD_FORMAT_FLOAT, 4};
	CUDA_ARRAY_DESCRIPTOR small = {64, 64, CU_AD_FORMAT_FLOAT, 1};
	CUDA_ARRAY3D_DESCRIPTOR deep = {256, 256, 0, CU_AD_FORMAT_FLOAT, 4, 0};
	CUmipmappedArray mipmap;
	CUfunction function;
	CUdeviceptr p;
	CUmodule module;
	CUarray array;
	size_t pitch;

	alloc(10 * MIB);
	alloc(1000);
	OK(cu.cuMemAllocPitch_v2(&p, &pitch, 1000, 1000, 4));
	OK(cu.cuMemAllocManaged(&p, 6 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cu.cuArrayCreate_v2(&array, &d));
	OK(cu.cuArrayCreate_v2(&array, &small));
	OK(cu.cuMipmappedArrayCreate(&mipmap, &deep, 5));
	/* A heap is charged from when it is set; the launch has the driver take it. */
	OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
	OK(cu.cuModuleLoadData(&module, "allot-sim-module bytes=6000000 heap\n"));
	OK(cu.cuModuleGetFunction(&function, module, "any"));
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cu.cuCtxSynchronize());
	tell(NOTE_LEDGER, 0, 0, "some of all");
}

void destroyed_context(void)
{
	CUcontext ctx;

	guest_context(0);
	for (int i = 0; i < 3; i++) {
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		some_of_all();
		OK(cu.cuCtxDestroy_v2(ctx));
		tell(NOTE_FREED, 0, 0, "context destroyed");
	}
}

void reset_primary(void)
{
	CUcontext ctx;

	guest_context(0);
	some_of_all();
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	tell(NOTE_LEDGER, 0, 0, "reset");
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cu.cuCtxSetCurrent(ctx));
	tell(NOTE_FREED, 0, 0, "and retained");
	some_of_all();
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	tell(NOTE_LEDGER, 0, 0, "released");
	guest_context(0);
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	some_of_all();
	OK(cu.cuDevicePrimaryCtxRelease(0));
	tell(NOTE_LEDGER, 0, 0, "still retained");
	OK(cu.cuDevicePrimaryCtxReset(0));
	tell(NOTE_LEDGER, 0, 0, "reset again");
}

void attached_context(void)
{
	CUcontext ctx, same;

	guest_context(0);
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	tell(NOTE_LEDGER, 0, 0, "created");
	if (!cu.cuCtxAttach(&same, 0)) {
		OK(cu.cuCtxDetach(ctx));
		tell(NOTE_LEDGER, 0, 0, "detached once");
	}
	OK(cu.cuCtxDetach(ctx));
	tell(NOTE_FREED, 0, 0, "detached");
}
