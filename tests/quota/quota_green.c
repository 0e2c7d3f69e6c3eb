/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts. They keep the primary context active, whoever retains that. What they took, and
 * what was allocated in them, stays until the primary context ends.
 */
#include "tests/quota/quota_guest.h"

static CUdevResourceDesc green_desc(void)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned int n = 1;

	MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	MUST(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 8));
	MUST(cuDevResourceGenerateDesc(&desc, &part, 1));
	return desc;
}

static CUresult green_create(CUgreenCtx *ret_green)
{
	return cuGreenCtxCreate(ret_green, green_desc(), 0, 1);
}

static CUgreenCtx green_make(void)
{
	CUgreenCtx green;

	MUST(green_create(&green));
	return green;
}

static void green_push(CUgreenCtx green)
{
	CUcontext context;

	MUST(cuCtxFromGreenCtx(&context, green));
	MUST(cuCtxPushCurrent_v2(context));
}

/* The green context makes the primary one. */
void green_fill(int step_mib)
{
	MUST(cuInit(0));
	green_push(green_make());
	guest_fill((unsigned int)step_mib, 2000);
	guest_quiet();
}

/* It makes the primary context, or is refused for want of memory for that. */
void green_first(int beside_full)
{
	CUcontext context;
	CUgreenCtx green;

	MUST(cuInit(0));
	if (beside_full) {
		MUST(cuCtxCreate_v2(&context, 0, 0));
		guest_fill(64, 1900);
		guest_say("green context: error %d", green_create(&green));
	} else {
		green_make();
	}
	guest_quiet();
}

/* Each takes 6 or 4 MiB. */
void green_near_limit(int free_mib)
{
	int fill_mib = guest_scenario->quota_mib - guest_scenario->context_mib - free_mib, n = 0;
	CUgreenCtx green;
	CUdeviceptr at;

	guest_begin();
	MUST(cuMemAlloc_v2(&at, (size_t)fill_mib * MIB));
	while (n < free_mib && !green_create(&green))
		n++;
	guest_say("%d green contexts", n);
	if (n < free_mib / 6)
		guest_complain("green context refused after %d, %d fit", n, free_mib / 6);
	guest_quiet();
}

/* The primary context is released first, and ends with the green one. */
void green_last(int again)
{
	CUgreenCtx green;
	CUdeviceptr at;

	guest_begin();
	green = green_make();
	MUST(cuMemAlloc_v2(&at, 300 * MIB));
	MUST(cuDevicePrimaryCtxRelease_v2(0));
	MUST(cuGreenCtxDestroy(green));
	guest_quiet();
	if (!again)
		return;
	guest_begin();
	guest_fill(16, 2000);
	guest_quiet();
}

/* The process keeps another context, so that all that was freed can be had again. */
void green_last_beside_context(int mib)
{
	CUcontext context;
	CUgreenCtx green;
	CUdeviceptr at;

	MUST(cuInit(0));
	MUST(cuCtxCreate_v2(&context, 0, 0));
	guest_begin();
	green = green_make();
	MUST(cuMemAlloc_v2(&at, (size_t)mib * MIB));
	MUST(cuDevicePrimaryCtxRelease_v2(0));
	MUST(cuGreenCtxDestroy(green));
	MUST(cuCtxSetCurrent(context));
	guest_fill(16, 2000);
	guest_quiet();
}

/* Memory of green contexts that have ended is the primary context's. */
void green_memory(int n)
{
	CUcontext context;
	CUdeviceptr at;

	guest_begin();
	for (int i = 0; i < n; i++) {
		CUgreenCtx green = green_make();

		green_push(green);
		MUST(cuMemAlloc_v2(&at, 200 * MIB));
		MUST(cuCtxPopCurrent_v2(&context));
		MUST(cuGreenCtxDestroy(green));
	}
	guest_quiet();
	guest_fill(16, 0);
	guest_quiet();
	MUST(cuDevicePrimaryCtxRelease_v2(0));
	guest_quiet();
}

static int green_thread(void *arg)
{
	for (int i = 0; i < 50; i++) {
		CUgreenCtx green;

		if (!green_create(&green))
			MUST(cuGreenCtxDestroy(green));
	}
	return 0;
}

/* Green contexts come and go in threads, and each leaves its bytes to the primary context. */
void green_threads(int threads)
{
	guest_begin();
	guest_fill(2, 2000);
	guest_threads(threads, green_thread, NULL);
	guest_quiet();
}
