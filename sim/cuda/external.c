/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External memory: what cuMemExportToShareableHandle made, taken over by its descriptor. Of other
 * drivers' memory there is none here. A buffer or an array that was mapped of it keeps the memory
 * after cuDestroyExternalMemory, when the process's figure has it no more: as on an H200.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/cuda/array.h"
#include "sim/cuda/block.h"
#include "sim/cuda/stream.h"

struct external {
	struct external *next;
	struct sim_block *block;
	struct sim_context *ctx;
};

static struct external *all;

static struct external *external_find(CUexternalMemory handle)
{
	struct external *e;

	for (e = all; e && e != (struct external *)handle; e = e->next)
		;
	return e;
}

/* The driver's answer to a handle that is none. */
static CUresult external_unknown(CUexternalMemory handle)
{
	return handle ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct sim_context *ctx;
	struct external *e;
	uint64_t key[2];
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!extMem_out || !desc || !desc->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = sim_block_fd_key(desc->handle.fd, key);
	if (r)
		return r;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	r = sim_block_import(desc->handle.fd, key, false, &e->block);
	if (!r && desc->size > e->block->bytes) {
		sim_block_unref(e->block);
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (!r) {
		e->ctx = ctx;
		e->next = all;
		all = e;
	}
	sim_unlock();
	if (r) {
		free(e);
		return r;
	}
	close(desc->handle.fd); /* the descriptor is the driver's from now on */
	*extMem_out = (CUexternalMemory)e;
	return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct external *e;
	struct sim_range *range;
	void *address;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!devPtr || !desc || !desc->size || desc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	e = external_find(extMem);
	if (!e)
		r = external_unknown(extMem);
	else if (desc->size > e->block->bytes || desc->offset > e->block->bytes - desc->size)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = sim_block_map(e->block, 0, e->block->bytes, NULL, SIM_GRANULE,
				  PROT_READ | PROT_WRITE, &address);
	if (!r) {
		range = sim_range_add_block(e->block, address, desc->offset, desc->size,
					    SIM_RANGE_EXTERNAL, e->ctx);
		if (range) {
			sim_block_ref_hidden(e->block);
			range->hidden = true;
			*devPtr = range->base;
		} else {
			sim_address_unmap(address, e->block->bytes, false);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	sim_unlock();
	return r;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(
	CUmipmappedArray *mipmap, CUexternalMemory extMem,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	struct sim_block *block = NULL;
	struct sim_context *ctx = NULL;
	struct external *e;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!mipmap || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	e = external_find(extMem);
	if (e) {
		block = sim_block_ref_hidden(e->block);
		ctx = e->ctx;
	}
	sim_unlock();
	if (!e)
		return external_unknown(extMem);
	return sim_mipmap_on_block(mipmap, ctx, &desc->arrayDesc, desc->numLevels, block,
				   desc->offset);
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
	struct external **at, *e;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	for (at = &all; *at && *at != (struct external *)extMem; at = &(*at)->next)
		;
	e = *at;
	if (e) {
		*at = e->next;
		sim_block_unref(e->block);
	} else {
		r = external_unknown(extMem);
	}
	sim_unlock();
	free(e);
	return r;
}
