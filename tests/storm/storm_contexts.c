/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts beside the primary ones, and second references to those. */
#include "storm_work.h"

static uint64_t contexts_part(struct worker *w, const struct block *b)
{
	return 1 + (b->bytes >> pick(&w->seed, 4));
}

/* Takes memory in the current context, which ends with it. */
static void contexts_fill(struct worker *w, const struct block *b)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1024, .Height = 256, .Format = CU_AD_FORMAT_FLOAT,
				      .NumChannels = 1};
	CUdeviceptr ptr;
	CUarray array;

	for (unsigned int n = pick(&w->seed, 4); n; n--)
		REFUSED(w, cu.cuMemAlloc_v2(&ptr, contexts_part(w, b)));
	if (pick(&w->seed, 2))
		REFUSED(w, cu.cuArrayCreate_v2(&array, &desc));
	if (pick(&w->seed, 2))
		storm_set_limit(w, storm_pick_limit(w), b->bytes);
}

static bool contexts_take(struct worker *w, struct block *b)
{
	CUcontext context;

	if (REFUSED(w, cu.cuCtxCreate_v2(&context, 0, b->device)))
		return false;
	if (storm_draws(DRAW_FILLED))
		contexts_fill(w, b);
	OK(cu.cuCtxPopCurrent_v2(&context));
	b->object = context;
	return true;
}

static void contexts_give(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuCtxDestroy_v2(b->object));
}

/* A second reference to the primary context, which the process has for all of its life. */
static bool contexts_retain(struct worker *w, struct block *b)
{
	CUcontext context;

	OK(cu.cuDevicePrimaryCtxRetain(&context, b->device));
	GIVES(context == w->contexts[b->device], CUDA_ERROR_INVALID_CONTEXT);
	return true;
}

static void contexts_release(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuDevicePrimaryCtxRelease_v2(b->device));
}

const struct family storm_context = {"context", contexts_take, contexts_give, NULL, NULL};
const struct family storm_retain = {"retain", contexts_retain, contexts_release, NULL, NULL};
