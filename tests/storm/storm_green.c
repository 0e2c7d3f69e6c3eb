/* SPDX-License-Identifier: Apache-2.0 */
/* Green contexts: parts of a device, which hold its primary context, too. */
#include "storm_work.h"

#define DEFAULT_STREAM 1 /* CU_GREEN_CTX_DEFAULT_STREAM, without which none is made */
#define FEW_SMS	       8

bool storm_create_green(struct worker *w, int device, CUgreenCtx *ret_green)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned int n = 1;
	CUresult e = cu.cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);

	if (e == CUDA_ERROR_NOT_SUPPORTED && !storm->options.simulated)
		return false; /* a driver before 550 */
	OK(e);
	OK(cu.cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, FEW_SMS));
	OK(cu.cuDevResourceGenerateDesc(&desc, &part, 1));
	return !REFUSED(w, cu.cuGreenCtxCreate(ret_green, desc, device, DEFAULT_STREAM));
}

static uint64_t green_buffer(CUdeviceptr ptr)
{
	uint64_t id = 0;

	return cu.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, ptr) ? 0 : id;
}

bool storm_fill_green(struct worker *w, struct block *b)
{
	CUcontext context, outer;

	OK(cu.cuCtxGetCurrent(&outer));
	OK(cu.cuCtxFromGreenCtx(&context, b->object));
	OK(cu.cuCtxSetCurrent(context));
	if (REFUSED(w, cu.cuMemAlloc_v2(&b->ptr, b->bytes)))
		b->ptr = 0;
	else
		b->id = green_buffer(b->ptr);
	if (outer)
		OK(cu.cuCtxSetCurrent(outer));
	return b->ptr;
}

static bool green_take(struct worker *w, struct block *b)
{
	CUgreenCtx green;

	if (!storm_create_green(w, b->device, &green))
		return false;
	b->object = green;
	if (pick(&w->seed, 4))
		storm_fill_green(w, b);
	return true;
}

/*
 * Memory that was allocated in it may end with it or with the primary context, as the driver has
 * it. The number of the allocation tells whether the address is still the block's.
 */
static void green_give(struct worker *w, struct block *b)
{
	if (b->ptr && (!storm_draws(DRAW_ORPHANS) || pick(&w->seed, 2))) {
		OK(cu.cuMemFree_v2(b->ptr));
		b->ptr = 0;
	}
	OK(cu.cuGreenCtxDestroy(b->object));
	if (b->ptr && b->id && green_buffer(b->ptr) == b->id)
		OK(cu.cuMemFree_v2(b->ptr));
}

const struct family storm_green = {"green", green_take, green_give, NULL, NULL};
