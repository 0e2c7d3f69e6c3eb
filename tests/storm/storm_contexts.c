/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts beside the primary ones. */
#include "storm_work.h"

static bool contexts_take(struct worker *w, struct block *b)
{
	CUcontext context;

	if (REFUSED(w, cu.cuCtxCreate_v2(&context, 0, b->device)))
		return false;
	OK(cu.cuCtxPopCurrent_v2(&context));
	b->object = context;
	return true;
}

static void contexts_give(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuCtxDestroy_v2(b->object));
}

const struct family storm_context = {"context", contexts_take, contexts_give, NULL, NULL};
