/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may ask of a function or a kernel, and occupancy: one plain answer for all. */
#include "sim/cuda/api.h"
#include "sim/cuda/module.h"
#include "sim/cuda/stream.h"

#define THREADS_PER_SM 2048
#define BLOCKS_PER_SM 32
#define SHARED_PER_SM 233472
#define MAX_SHARED_PER_BLOCK 232448

static CUresult function_get_attribute(int *pi, CUfunction_attribute attrib,
				       const struct sim_function *f)
{
	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*pi = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*pi = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*pi = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*pi = f->max_dynamic_shared;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*pi = -1;
		break;
	default:
		if (attrib >= CU_FUNC_ATTRIBUTE_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		*pi = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult function_set_attribute(struct sim_function *f, CUfunction_attribute attrib,
				       int value)
{
	if (attrib < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
	    attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (value < 0 || value > MAX_SHARED_PER_BLOCK)
			return CUDA_ERROR_INVALID_VALUE;
		f->max_dynamic_shared = value;
	}
	return CUDA_SUCCESS;
}

static struct sim_function *function_kernel_of(CUkernel kernel)
{
	struct sim_function *k = (struct sim_function *)kernel;

	return k && (k->magic == SIM_KERNEL_MAGIC || k->magic == SIM_FUNCTION_MAGIC) ? k : NULL;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	struct sim_function *f;
	CUresult r = sim_function_find(hfunc, &f);

	return r ? r : function_get_attribute(pi, attrib, f);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct sim_function *f;
	CUresult r = sim_function_find(hfunc, &f);

	return r ? r : function_set_attribute(f, attrib, value);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (!r && !function_kernel_of(kernel))
		r = CUDA_ERROR_INVALID_HANDLE;
	return r ? r : function_get_attribute(pi, attrib, function_kernel_of(kernel));
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (!r && !function_kernel_of(kernel))
		r = CUDA_ERROR_INVALID_HANDLE;
	return r ? r : function_set_attribute(function_kernel_of(kernel), attrib, val);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	struct sim_function *f;

	return sim_function_find(hfunc, &f);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	return !r && !function_kernel_of(kernel) ? CUDA_ERROR_INVALID_HANDLE : r;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct sim_function *f;
	CUresult r = sim_function_find(hfunc, &f);

	if (!r && !hmod)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*hmod = (CUmodule)f->module;
	return r;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
	struct sim_function *f;
	CUresult r = sim_function_find(hfunc, &f);

	if (!r && !name)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*name = f->name;
	return r;
}

/* Parameters are not known: the query ends at the first, as for a function without any. */
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
			    size_t *paramSize)
{
	struct sim_function *f;
	CUresult r = sim_function_find(func, &f);

	return r ? r : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
			      size_t *paramSize)
{
	CUresult r = sim_ready();

	return r			    ? r
	       : function_kernel_of(kernel) ? CUDA_ERROR_INVALID_VALUE
					    : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct sim_function *f;
	CUresult r = sim_function_find(function, &f);

	if (!r && !state)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*state = f->module->loaded ? CU_FUNCTION_LOADING_STATE_LOADED
					   : CU_FUNCTION_LOADING_STATE_UNLOADED;
	return r;
}

CUresult cuFuncLoad(CUfunction function)
{
	const char *name;

	return sim_function_use(function, &name);
}

static int function_active_blocks(int block_size, size_t shared)
{
	int blocks = THREADS_PER_SM / ((block_size + 31) / 32 * 32);

	if (blocks > BLOCKS_PER_SM)
		blocks = BLOCKS_PER_SM;
	if (shared && SHARED_PER_SM / shared < (size_t)blocks)
		blocks = (int)(SHARED_PER_SM / shared);
	return blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
						     size_t dynamicSMemSize)
{
	struct sim_function *f;
	CUresult r = sim_function_find(func, &f);

	if (!r && (!numBlocks || blockSize <= 0))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*numBlocks =
			blockSize > 1024 ? 0 : function_active_blocks(blockSize, dynamicSMemSize);
	return r;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
							      int blockSize, size_t dynamicSMemSize,
							      unsigned int flags)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize,
							   dynamicSMemSize);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
						   CUfunction func, CUoccupancyB2DSize toShared,
						   size_t dynamicSMemSize, int blockSizeLimit,
						   unsigned int flags)
{
	struct sim_context *ctx;
	struct sim_function *f;
	CUresult r = sim_function_find(func, &f);
	int size;

	if (!r)
		r = sim_context_current(&ctx);
	if (!r && (!minGridSize || !blockSize))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	size = blockSizeLimit > 0 && blockSizeLimit < 1024 ? blockSizeLimit : 1024;
	*blockSize = size;
	*minGridSize = (int)ctx->device->row->sm_count *
		       function_active_blocks(size, toShared ? toShared(size) : dynamicSMemSize);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					  CUoccupancyB2DSize toShared, size_t dynamicSMemSize,
					  int blockSizeLimit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, toShared,
							 dynamicSMemSize, blockSizeLimit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
						 int numBlocks, int blockSize)
{
	struct sim_function *f;
	CUresult r = sim_function_find(func, &f);

	if (!r && (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		*dynamicSmemSize = SHARED_PER_SM / (size_t)numBlocks;
		if (*dynamicSmemSize > MAX_SHARED_PER_BLOCK)
			*dynamicSmemSize = MAX_SHARED_PER_BLOCK;
	}
	return r;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
					    const CUlaunchConfig *config)
{
	struct sim_function *f;
	CUresult r = sim_function_find(func, &f);

	if (!r && !clusterSize)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*clusterSize = 8;
	return r;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
				      const CUlaunchConfig *config)
{
	struct sim_function *f;
	CUresult r = sim_function_find(func, &f);

	if (!r && !numClusters)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*numClusters = 16;
	return r;
}
