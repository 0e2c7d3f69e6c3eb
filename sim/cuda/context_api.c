/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of contexts: explicit, primary and green ones. */
#include "sim/cuda/context.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stream.h"

/* In turn, from the first one of a primary context on: as on an H200. */
static const uint64_t green_bytes[2] = {6ull << 20, 4ull << 20};

static atomic_ullong next_id = 1;

/* (Re)animate: a primary context keeps its handle through release and retain. */
static CUresult context_api_start(struct sim_context *ctx)
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
	ctx->holds = true;
	ctx->live = true;
	return CUDA_SUCCESS;
}

/*
 * Nothing more begins in the context. Waits for its work and ends its streams. False: it had stopped.
 */
static bool context_api_stop(struct sim_context *ctx)
{
	struct sim_exec *exec;

	sim_lock();
	exec = ctx->exec;
	ctx->exec = NULL;
	ctx->live = false;
	sim_unlock();
	if (exec)
		exec_destroy(exec);
	return exec;
}

/* Gives back what a stopped context took, and all that is in it. */
static void context_api_give(struct sim_context *ctx)
{
	sim_context_libraries_gone(ctx);
	sim_context_modules_gone(ctx);
	sim_context_arrays_gone(ctx);
	sim_context_memory_gone(ctx);
	sim_context_limits_done(ctx);
	sim_lock();
	ctx->holds = false;
	sim_unlock();
	sim_device_give(ctx->device, ctx->bytes);
}

static struct sim_context *context_api_green_of(const struct sim_device *device)
{
	struct sim_context *ctx;

	sim_lock();
	for (ctx = sim_contexts(); ctx; ctx = ctx->next)
		if (ctx->kind == SIM_CONTEXT_GREEN && ctx->device == device && ctx->holds)
			break;
	sim_unlock();
	return ctx;
}

/* The end of an explicit or a primary context; of a primary one, with all its green ones. */
static void context_api_end(struct sim_context *ctx)
{
	struct sim_device *device = ctx->device;
	struct sim_context *green;

	context_api_stop(ctx);
	while (ctx->kind == SIM_CONTEXT_PRIMARY && (green = context_api_green_of(device))) {
		context_api_stop(green);
		context_api_give(green);
	}
	context_api_give(ctx);
	sim.region->row[sim.row].use[device->index].contexts--;
}

/* A context that has begun takes the code that it has from the beginning on, or ends. */
static CUresult context_api_load(struct sim_context *ctx)
{
	CUresult r = ctx->kind == SIM_CONTEXT_GREEN ? CUDA_SUCCESS
						    : sim_context_libraries_load(ctx);

	if (r)
		context_api_end(ctx);
	return r;
}

static CUresult context_api_make(struct sim_device *device, enum sim_context_kind kind,
				 uint64_t bytes, unsigned int flags, struct sim_context **ret_ctx)
{
	struct sim_context *ctx = sim_context_take_place();
	CUresult r;

	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->device = device;
	ctx->kind = kind;
	ctx->bytes = bytes;
	ctx->flags = flags;
	ctx->api_version = 3020;
	r = context_api_start(ctx);
	if (r) {
		free(ctx);
		return r;
	}
	sim_context_add(ctx);
	r = context_api_load(ctx);
	if (!r)
		*ret_ctx = ctx;
	return r;
}

/* Primary contexts: one at a time may begin or end, so that two threads make one. */

static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

/* These two with primary_lock held. */

static CUresult context_api_primary_start(struct sim_device *device)
{
	CUresult r;

	if (!device->primary)
		return context_api_make(device, SIM_CONTEXT_PRIMARY, device->row->context_bytes,
					device->primary_flags, &device->primary);
	if (device->primary->live)
		return CUDA_SUCCESS;
	r = context_api_start(device->primary);
	return r ? r : context_api_load(device->primary);
}

static void context_api_primary_settle(struct sim_device *device)
{
	if (device->primary_refs || device->greens)
		return;
	context_api_end(device->primary);
	device->greens_made = 0;
}

CUresult sim_green_make(struct sim_device *device, struct sim_context **ret_ctx)
{
	CUresult r;

	pthread_mutex_lock(&primary_lock);
	r = context_api_primary_start(device);
	if (!r) {
		r = context_api_make(device, SIM_CONTEXT_GREEN,
				     green_bytes[device->greens_made % 2], 0, ret_ctx);
		if (!r) {
			device->greens++;
			device->greens_made++;
		}
		context_api_primary_settle(device);
	}
	pthread_mutex_unlock(&primary_lock);
	return r;
}

void sim_green_end(struct sim_context *ctx)
{
	bool stopped = context_api_stop(ctx);

	pthread_mutex_lock(&primary_lock);
	/* Where the primary context ended meanwhile, it ended all green ones. */
	if (stopped && ctx->holds) {
		ctx->device->greens--;
		context_api_primary_settle(ctx->device);
	}
	pthread_mutex_unlock(&primary_lock);
}

static CUresult context_api_primary_retain(struct sim_device *device, struct sim_context **ret_ctx)
{
	CUresult r;

	pthread_mutex_lock(&primary_lock);
	r = context_api_primary_start(device);
	if (!r) {
		device->primary_refs++;
		*ret_ctx = device->primary;
	}
	pthread_mutex_unlock(&primary_lock);
	return r;
}

static CUresult context_api_primary_release(struct sim_device *device)
{
	CUresult r = CUDA_ERROR_INVALID_CONTEXT;

	pthread_mutex_lock(&primary_lock);
	if (device->primary_refs) {
		device->primary_refs--;
		context_api_primary_settle(device);
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
	r = context_api_primary_retain(device, &ctx);
	if (!r)
		*pctx = (CUcontext)ctx;
	return r;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	return r ? r : context_api_primary_release(device);
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
		device->primary_refs = device->greens = 0;
		context_api_primary_settle(device);
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

static CUresult context_api_create(CUcontext *pctx, unsigned int flags, CUdevice dev,
				   unsigned int api_version)
{
	struct sim_context *ctx;
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (!pctx || flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	r = context_api_make(device, SIM_CONTEXT_EXPLICIT, device->row->context_bytes, flags, &ctx);
	if (r)
		return r;
	ctx->api_version = api_version;
	r = sim_context_push(ctx);
	if (r) {
		context_api_end(ctx);
		return r;
	}
	*pctx = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return context_api_create(pctx, flags, dev, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return context_api_create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			unsigned int flags, CUdevice dev)
{
	if (numParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; /* as without MPS */
	return context_api_create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
			CUdevice dev)
{
	if (ctxCreateParams &&
	    (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return context_api_create(pctx, flags, dev, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = sim_ready();

	if (!r && !handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = sim_context_lookup(handle, &ctx);
	if (r)
		return r;
	if (ctx->kind != SIM_CONTEXT_EXPLICIT)
		return CUDA_ERROR_INVALID_CONTEXT;
	context_api_end(ctx);
	sim_context_drop(ctx);
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
	struct sim_context *ctx, *current;
	CUresult r = sim_context_lookup(handle, &ctx);

	if (!r)
		r = sim_context_current(&current);
	if (r)
		return r;
	if (ctx != current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx->attached)
		return cuCtxDestroy_v2(handle);
	ctx->attached--;
	return CUDA_SUCCESS;
}
