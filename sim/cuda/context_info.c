/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may ask of a context, its limits, and peer access. */
#include <stdlib.h>

#include "sim/cuda/api.h"
#include "sim/cuda/block.h"
#include "sim/cuda/stream.h"

static CUresult context_info_or_current(CUcontext handle, struct sim_context **ret_ctx)
{
	return handle ? sim_context_lookup(handle, ret_ctx) : sim_context_current(ret_ctx);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
	struct sim_context *ctx;
	CUresult r = context_info_or_current(handle, &ctx);

	if (!r && !device)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*device = ctx->device->ordinal;
	return r;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (!r && !flags)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*flags = ctx->flags;
	return r;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (!r && flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		ctx->flags = flags;
	return r;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *ctxId)
{
	struct sim_context *ctx;
	CUresult r = context_info_or_current(handle, &ctx);

	if (!r && !ctxId)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*ctxId = ctx->id;
	return r;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct sim_context *ctx;
	CUresult r = context_info_or_current(handle, &ctx);

	if (!r && !version)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*version = ctx->api_version;
	return r;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (!r && !pconfig)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*pconfig = CU_FUNC_CACHE_PREFER_NONE;
	return r;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct sim_context *ctx;

	return sim_context_current(&ctx);
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = -5;
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
	struct sim_context *ctx;
	struct sim_exec *exec;
	CUresult r = context_info_or_current(handle, &ctx);

	if (r)
		return r;
	exec = exec_hold(ctx);
	if (exec)
		r = capture_forbids_context_sync(exec);
	if (!r)
		r = exec_synchronize(exec);
	exec_release(exec);
	return r;
}

CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

/*
 * Limits. The stack beyond its default takes memory when it is set. The heap of malloc takes it at
 * the first launch of code that uses it, the FIFO of printf when code that prints is loaded
 * (module.c); their limits cannot be set from the first such launch on. What a change of the FIFO's
 * limit takes between the two was not measured: nothing here.
 */

#define DEFAULT_STACK 1024
#define DEFAULT_HEAP (8ull << 20)
#define THREADS_PER_SM 2048

void sim_context_limits_init(struct sim_context *ctx)
{
	ctx->limit[CU_LIMIT_STACK_SIZE] = DEFAULT_STACK;
	ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = SIM_FIFO_DEFAULT;
	ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = DEFAULT_HEAP;
	ctx->limit[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
	ctx->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	ctx->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	ctx->limit[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
	ctx->stack_bytes = 0;
	ctx->heap = ctx->fifo = NULL;
	ctx->fifo_backed = ctx->fifo_used = false;
}

void sim_context_limits_done(struct sim_context *ctx)
{
	sim_lock();
	sim_block_unref(ctx->heap);
	sim_block_unref(ctx->fifo);
	ctx->heap = ctx->fifo = NULL;
	sim_unlock();
	sim_device_give(ctx->device, ctx->stack_bytes);
	ctx->stack_bytes = 0;
}

static uint64_t context_info_stack_bytes(const struct sim_context *ctx, uint64_t value)
{
	uint64_t threads = (uint64_t)THREADS_PER_SM * ctx->device->row->sm_count;

	if (value <= DEFAULT_STACK)
		return 0;
	if (value - DEFAULT_STACK > (UINT64_MAX >> 8) / threads)
		return UINT64_MAX >> 8;
	return sim_round((value - DEFAULT_STACK) * threads, SIM_GRANULE);
}

static CUresult context_info_set_stack(struct sim_context *ctx, uint64_t value)
{
	uint64_t bytes = context_info_stack_bytes(ctx, value), had = ctx->stack_bytes;
	CUresult r = CUDA_SUCCESS;

	if (bytes > had)
		r = sim_device_take(ctx->device, bytes - had);
	else
		sim_device_give(ctx->device, had - bytes);
	if (!r)
		ctx->stack_bytes = bytes;
	return r;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (limit >= CU_LIMIT_SHMEM_SIZE)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_lock();
	if ((limit == CU_LIMIT_MALLOC_HEAP_SIZE && ctx->heap) ||
	    (limit == CU_LIMIT_PRINTF_FIFO_SIZE && ctx->fifo_used))
		r = CUDA_ERROR_INVALID_VALUE;
	else if (limit == CU_LIMIT_STACK_SIZE)
		r = context_info_set_stack(ctx, value);
	if (!r)
		ctx->limit[limit] = value;
	sim_unlock();
	return r;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit >= CU_LIMIT_SHMEM_SIZE)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = ctx->limit[limit];
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct sim_context *ctx, *peer;
	CUresult r = sim_context_current(&ctx);

	if (!r)
		r = sim_context_lookup(peerContext, &peer);
	if (r)
		return r;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (peer->device == ctx->device)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (ctx->peers & 1u << peer->device->ordinal)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	ctx->peers |= 1u << peer->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct sim_context *ctx, *peer;
	CUresult r = sim_context_current(&ctx);

	if (!r)
		r = sim_context_lookup(peerContext, &peer);
	if (r)
		return r;
	if (!(ctx->peers & 1u << peer->device->ordinal))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	ctx->peers &= ~(1u << peer->device->ordinal);
	return CUDA_SUCCESS;
}
