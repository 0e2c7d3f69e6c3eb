/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a device's SMs, and green contexts over them, which share the primary one's memory. */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/context.h"
#include "sim/cuda/stream.h"

#define SM_STEP 8u

struct desc {
	struct desc *next;
	CUdevResource sm;
};

static struct desc *descs; /* the interface has no call that ends one */

static CUdevResource green_sm_resource(unsigned int count)
{
	CUdevResource res;

	memset(&res, 0, sizeof(res));
	res.type = CU_DEV_RESOURCE_TYPE_SM;
	res.sm = (CUdevSmResource){.smCount = count, .minSmPartitionSize = SM_STEP,
				   .smCoscheduledAlignment = SM_STEP};
	return res;
}

CUresult cuDeviceGetDevResource(CUdevice dev, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (!r && (!resource || type != CU_DEV_RESOURCE_TYPE_SM))
		r = resource ? CUDA_ERROR_INVALID_RESOURCE_TYPE : CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*resource = green_sm_resource(device->row->sm_count);
	return r;
}

static CUresult green_of_context(const struct sim_context *ctx, CUdevResource *resource,
				 CUdevResourceType type)
{
	if (!resource)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	*resource = ctx->kind == SIM_CONTEXT_GREEN ? ctx->sm
						   : green_sm_resource(ctx->device->row->sm_count);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_context *ctx;
	CUresult r = sim_context_lookup(hCtx, &ctx);

	return r ? r : green_of_context(ctx, resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
	struct sim_context *ctx;
	CUresult r = sim_green_context_lookup(hCtx, &ctx);

	return r ? r : green_of_context(ctx, resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
				     const CUdevResource *input, CUdevResource *remaining,
				     unsigned int useFlags, unsigned int minCount)
{
	unsigned int each, most, n;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!nbGroups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	each = (minCount + SM_STEP - 1) / SM_STEP * SM_STEP;
	if (!each)
		each = SM_STEP;
	most = input->sm.smCount / each;
	if (!most)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	n = result && *nbGroups < most ? *nbGroups : most;
	for (unsigned int i = 0; result && i < n; i++)
		result[i] = green_sm_resource(each);
	if (remaining)
		*remaining = green_sm_resource(input->sm.smCount - n * each);
	*nbGroups = n;
	return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
				   unsigned int nbResources)
{
	struct desc *d;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!phDesc || !resources || !nbResources)
		return CUDA_ERROR_INVALID_VALUE;
	d = malloc(sizeof(*d));
	if (!d)
		return CUDA_ERROR_OUT_OF_MEMORY;
	d->sm = green_sm_resource(0);
	for (unsigned int i = 0; i < nbResources; i++)
		if (resources[i].type == CU_DEV_RESOURCE_TYPE_SM)
			d->sm.sm.smCount += resources[i].sm.smCount;
	sim_lock();
	d->next = descs;
	descs = d;
	sim_unlock();
	*phDesc = (CUdevResourceDesc)d;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
			  unsigned int flags)
{
	const struct desc *d = (const struct desc *)desc;
	struct sim_context *ctx;
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	if (!phCtx || flags != 1) /* CU_GREEN_CTX_DEFAULT_STREAM is not optional */
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_green_make(device, &ctx);
	if (r)
		return r;
	/* Without a description it has all multiprocessors of the device. */
	ctx->sm = d ? d->sm : green_sm_resource(device->row->sm_count);
	*phCtx = (CUgreenCtx)ctx;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
	struct sim_context *ctx;
	CUresult r = sim_green_context_lookup(hCtx, &ctx);

	if (!r)
		sim_green_end(ctx);
	return r;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
	struct sim_context *ctx;
	CUresult r = sim_green_context_lookup(hCtx, &ctx);

	if (!r && !pContext)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*pContext = (CUcontext)ctx;
	return r;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
	struct sim_context *ctx;
	CUresult r = sim_green_context_lookup(greenCtx, &ctx);

	if (!r && !greenCtxId)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*greenCtxId = ctx->id;
	return r;
}
