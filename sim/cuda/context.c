/* SPDX-License-Identifier: Apache-2.0 */
/* Which contexts there are, and each thread's stack of current ones. */
#include "sim/cuda/context.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stream.h"

#define STACK_DEPTH 64

static struct sim_context *all; /* every context ever made, newest first */

static _Thread_local struct sim_context *stack[STACK_DEPTH];
static _Thread_local int depth;

struct sim_context *sim_contexts(void)
{
	return all;
}

static struct sim_context *context_find(const void *handle)
{
	struct sim_context *ctx;

	sim_lock();
	for (ctx = all; ctx && ctx != handle; ctx = ctx->next)
		;
	sim_unlock();
	return ctx;
}

CUresult sim_context_lookup(CUcontext handle, struct sim_context **ret_ctx)
{
	struct sim_context *ctx;
	CUresult r = sim_ready();

	if (r)
		return r;
	ctx = context_find(handle);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx->live)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

CUresult sim_green_context_lookup(CUgreenCtx handle, struct sim_context **ret_ctx)
{
	CUresult r = sim_context_lookup((CUcontext)handle, ret_ctx);

	return !r && (*ret_ctx)->kind != SIM_CONTEXT_GREEN ? CUDA_ERROR_INVALID_HANDLE : r;
}

CUresult sim_context_current(struct sim_context **ret_ctx)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!depth || !stack[depth - 1])
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!stack[depth - 1]->live)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_ctx = stack[depth - 1];
	return CUDA_SUCCESS;
}

struct sim_exec *sim_context_exec(struct sim_context *ctx)
{
	return ctx->exec;
}

unsigned int sim_context_device(struct sim_context *ctx)
{
	return (unsigned int)ctx->device->ordinal;
}

struct sim_context *sim_context_take_place(void)
{
	const char *handles = getenv("ALLOT_SIM_HANDLES");
	struct sim_context **at = &all, *ctx = NULL;

	if (handles && !strcmp(handles, "reuse")) {
		sim_lock();
		while (*at && ((*at)->holds || (*at)->kind != SIM_CONTEXT_EXPLICIT))
			at = &(*at)->next;
		ctx = *at;
		if (ctx)
			*at = ctx->next;
		sim_unlock();
	}
	if (!ctx)
		return calloc(1, sizeof(*ctx));
	*ctx = (struct sim_context){0};
	return ctx;
}

void sim_context_add(struct sim_context *ctx)
{
	sim_lock();
	ctx->next = all;
	all = ctx;
	sim_unlock();
}

CUresult sim_context_push(struct sim_context *ctx)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

void sim_context_drop(const struct sim_context *ctx)
{
	if (depth && stack[depth - 1] == ctx)
		depth--;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = depth ? (CUcontext)stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!handle) {
		if (depth)
			depth--;
		return CUDA_SUCCESS;
	}
	ctx = context_find(handle);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!depth)
		return sim_context_push(ctx);
	stack[depth - 1] = ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = sim_context_lookup(handle, &ctx);

	return r ? r : sim_context_push(ctx);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (pctx)
		*pctx = (CUcontext)stack[depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
	return cuCtxPopCurrent_v2(pctx);
}
