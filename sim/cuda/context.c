/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: explicit and primary, and each thread's stack of current ones. */
#include "sim/cuda/context.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stream.h"

#define STACK_DEPTH 64

static struct sim_context *all; /* every context ever made, newest first */
static atomic_ullong next_id = 1;

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

/* (Re)animate: a primary context keeps its handle through release and retain. */
static CUresult context_start(struct sim_context *ctx)
{
	CUresult r = sim_device_take(ctx->device, ctx->bytes);

	if (r)
		return r;
	ctx->exec = exec_create(ctx, (unsigned int)ctx->device->ordinal);
	ctx->id = next_id++;
	ctx->peers = 0;
	ctx->attached = 0;
	ctx->chunks = NULL;
	sim_context_limits_init(ctx);
	if (ctx->kind != SIM_CONTEXT_GREEN)
		sim.region->row[sim.row].use[ctx->device->index].contexts++;
	ctx->live = true;
	return CUDA_SUCCESS;
}

/*
 * Stale handles stay harmless, as no driver's do. With ALLOT_SIM_HANDLES=reuse a new context gets
 * the place of one that was destroyed, as allocators have it.
 */
static struct sim_context *context_take_place(void)
{
	const char *handles = getenv("ALLOT_SIM_HANDLES");
	struct sim_context **at = &all, *ctx = NULL;

	if (handles && !strcmp(handles, "reuse")) {
		sim_lock();
		while (*at && ((*at)->live || (*at)->kind != SIM_CONTEXT_EXPLICIT))
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

CUresult sim_context_make(struct sim_device *device, enum sim_context_kind kind, uint64_t bytes,
			  unsigned int flags, struct sim_context **ret_ctx)
{
	struct sim_context *ctx = context_take_place();
	CUresult r;

	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->device = device;
	ctx->kind = kind;
	ctx->bytes = bytes;
	ctx->flags = flags;
	ctx->api_version = 3020;
	r = context_start(ctx);
	if (r) {
		free(ctx);
		return r;
	}
	sim_lock();
	ctx->next = all;
	all = ctx;
	sim_unlock();
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

void sim_context_end(struct sim_context *ctx)
{
	exec_destroy(ctx->exec); /* waits for its work, so nothing below is in use any more */
	ctx->exec = NULL;
	sim_context_modules_gone(ctx);
	sim_context_arrays_gone(ctx);
	sim_context_memory_gone(ctx);
	sim_context_limits_done(ctx);
	sim_lock();
	ctx->live = false;
	sim_unlock();
	if (ctx->kind != SIM_CONTEXT_GREEN)
		sim.region->row[sim.row].use[ctx->device->index].contexts--;
	sim_device_give(ctx->device, ctx->bytes);
}

/* Primary contexts: one at a time may come or go, so that two threads make one. */

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult sim_primary_retain(struct sim_device *device, struct sim_context **ret_ctx)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&primary_lock);
	if (!device->primary)
		r = sim_context_make(device, SIM_CONTEXT_PRIMARY, device->row->context_bytes,
				     device->primary_flags, &device->primary);
	else if (!device->primary->live)
		r = context_start(device->primary);
	if (!r) {
		device->primary_refs++;
		*ret_ctx = device->primary;
	}
	pthread_mutex_unlock(&primary_lock);
	return r;
}

CUresult sim_primary_release(struct sim_device *device)
{
	CUresult r = CUDA_ERROR_INVALID_CONTEXT;

	pthread_mutex_lock(&primary_lock);
	if (device->primary_refs) {
		if (!--device->primary_refs)
			sim_context_end(device->primary);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&primary_lock);
	return r;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct sim_context *ctx;
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_primary_retain(device, &ctx);
	if (!r)
		*pctx = (CUcontext)ctx;
	return r;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	return r ? r : sim_primary_release(device);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

/*
 * Ends all that is in the context. Its handle stays usable for those who retained it: an empty
 * context.
 */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	pthread_mutex_lock(&primary_lock);
	if (device->primary && device->primary->live) {
		sim_context_end(device->primary);
		device->primary_refs = 0;
	}
	pthread_mutex_unlock(&primary_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	pthread_mutex_lock(&primary_lock);
	if (flags)
		*flags = device->primary_flags;
	if (active)
		*active = device->primary && device->primary->live;
	pthread_mutex_unlock(&primary_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

static CUresult context_push(struct sim_context *ctx)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

static CUresult context_create(CUcontext *pctx, unsigned int flags, CUdevice dev,
			       unsigned int api_version)
{
	struct sim_context *ctx;
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (!pctx || flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_context_make(device, SIM_CONTEXT_EXPLICIT, device->row->context_bytes, flags, &ctx);
	if (r)
		return r;
	ctx->api_version = api_version;
	r = context_push(ctx);
	if (r) {
		sim_context_end(ctx);
		return r;
	}
	*pctx = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return context_create(pctx, flags, dev, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return context_create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			unsigned int flags, CUdevice dev)
{
	if (numParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; /* as without MPS */
	return context_create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
			CUdevice dev)
{
	if (ctxCreateParams &&
	    (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return context_create(pctx, flags, dev, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = sim_context_lookup(handle, &ctx);

	if (r)
		return r;
	if (ctx->kind != SIM_CONTEXT_EXPLICIT)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_context_end(ctx);
	if (depth && stack[depth - 1] == ctx)
		depth--;
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return cuCtxDestroy_v2(ctx);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (!r && (flags || !pctx))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		ctx->attached++;
		*pctx = (CUcontext)ctx;
	}
	return r;
}

CUresult cuCtxDetach(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = sim_context_lookup(handle, &ctx);

	if (r)
		return r;
	if (!ctx->attached)
		return cuCtxDestroy_v2(handle);
	ctx->attached--;
	return CUDA_SUCCESS;
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
		return context_push(ctx);
	stack[depth - 1] = ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = sim_context_lookup(handle, &ctx);

	return r ? r : context_push(ctx);
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
