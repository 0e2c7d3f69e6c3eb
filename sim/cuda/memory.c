/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAlloc and its kin. Above 1 MiB an allocation has granules of its own; smaller ones share
 * chunks of one granule, cut at 512 bytes, and a chunk goes back when its last one goes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/cuda/api.h"
#include "sim/cuda/block.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"

#define SMALL_MAX (1ull << 20)
#define UNIT 512u
#define UNITS (SIM_GRANULE / UNIT)
#define PITCH 512u

struct sim_chunk {
	struct sim_chunk *next;
	struct sim_block *block;
	uint64_t base;
	unsigned int used; /* units */
	uint64_t map[UNITS / 64];
};

static bool memory_unit_taken(const struct sim_chunk *chunk, unsigned int i)
{
	return chunk->map[i / 64] >> i % 64 & 1;
}

static void memory_mark_units(struct sim_chunk *chunk, unsigned int first, unsigned int n,
			      bool taken)
{
	for (unsigned int i = first; i < first + n; i++) {
		if (taken)
			chunk->map[i / 64] |= 1ull << i % 64;
		else
			chunk->map[i / 64] &= ~(1ull << i % 64);
	}
	chunk->used += taken ? n : -n;
}

/* First fit. The number of units, or UNITS when there is no room. */
static unsigned int memory_find_room(const struct sim_chunk *chunk, unsigned int n)
{
	unsigned int run = 0;

	if (UNITS - chunk->used < n)
		return UNITS;
	for (unsigned int i = 0; i < UNITS; i++) {
		run = memory_unit_taken(chunk, i) ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return UNITS;
}

static CUresult memory_new_chunk(struct sim_context *ctx, struct sim_chunk **ret_chunk)
{
	struct sim_chunk *chunk = calloc(1, sizeof(*chunk));
	void *address;
	CUresult r;

	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_pools_block_create(ctx->device, SIM_GRANULE, false, &chunk->block);
	if (!r) {
		r = sim_block_map(chunk->block, 0, SIM_GRANULE, NULL, SIM_GRANULE,
				  PROT_READ | PROT_WRITE, &address);
		if (r)
			sim_block_unref(chunk->block);
	}
	if (r) {
		free(chunk);
		return r;
	}
	chunk->base = (uint64_t)address;
	chunk->next = ctx->chunks;
	ctx->chunks = chunk;
	*ret_chunk = chunk;
	return CUDA_SUCCESS;
}

static void memory_free_chunk(struct sim_context *ctx, struct sim_chunk *chunk)
{
	struct sim_chunk **at = &ctx->chunks;

	while (*at != chunk)
		at = &(*at)->next;
	*at = chunk->next;
	sim_address_unmap((void *)chunk->base, SIM_GRANULE, false);
	sim_block_unref(chunk->block);
	free(chunk);
}

static CUresult memory_alloc_small(struct sim_context *ctx, uint64_t bytes,
				   struct sim_range **ret_range)
{
	unsigned int n = (unsigned int)((bytes + UNIT - 1) / UNIT), first = UNITS;
	struct sim_chunk *chunk;
	struct sim_range *range;
	CUresult r;

	for (chunk = ctx->chunks; chunk; chunk = chunk->next) {
		first = memory_find_room(chunk, n);
		if (first < UNITS)
			break;
	}
	if (!chunk) {
		r = memory_new_chunk(ctx, &chunk);
		if (r)
			return r;
		first = 0;
	}
	range = sim_range_add(chunk->base + (uint64_t)first * UNIT, bytes, SIM_RANGE_SMALL,
			      ctx->device, ctx);
	if (!range) {
		if (!chunk->used)
			memory_free_chunk(ctx, chunk);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memory_mark_units(chunk, first, n, true);
	range->owner = chunk;
	range->block = chunk->block;
	range->map_base = chunk->base;
	range->map_bytes = SIM_GRANULE;
	*ret_range = range;
	return CUDA_SUCCESS;
}

static CUresult memory_alloc_large(struct sim_context *ctx, uint64_t bytes,
				   enum sim_range_kind kind, struct sim_range **ret_range)
{
	struct sim_block *block;
	struct sim_range *range;
	void *address;
	CUresult r;

	r = sim_pools_block_create(ctx->device, bytes, false, &block);
	if (r)
		return r;
	r = sim_block_map(block, 0, block->bytes, NULL, SIM_GRANULE, PROT_READ | PROT_WRITE,
			  &address);
	if (r) {
		sim_block_unref(block);
		return r;
	}
	range = sim_range_add_block(block, address, 0, bytes, kind, ctx);
	if (!range) {
		sim_address_unmap(address, block->bytes, false);
		sim_block_unref(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_range = range;
	return CUDA_SUCCESS;
}

/* The driver's figure of a process has no managed memory in it, wherever that is. */
static _Atomic uint64_t *memory_alloc_managed(const struct sim_range *range)
{
	return &sim.region->row[sim.row].use[range->device->index].managed_bytes;
}

CUresult sim_memory_alloc(struct sim_context *ctx, uint64_t bytes, enum sim_range_kind kind,
			  CUdeviceptr *ret_ptr)
{
	struct sim_range *range;
	CUresult r;

	if (!ctx->live) /* since the caller asked */
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (kind == SIM_RANGE_DEVICE && bytes <= SMALL_MAX)
		r = memory_alloc_small(ctx, bytes, &range);
	else
		r = memory_alloc_large(ctx, bytes, kind, &range);
	if (r)
		return r;
	if (kind == SIM_RANGE_MANAGED)
		*memory_alloc_managed(range) += range->block->bytes;
	*ret_ptr = range->base;
	return CUDA_SUCCESS;
}

void sim_memory_free(struct sim_range *range)
{
	if (range->kind == SIM_RANGE_SMALL) {
		struct sim_chunk *chunk = range->owner;
		struct sim_context *ctx = range->ctx;
		unsigned int n = (unsigned int)((range->bytes + UNIT - 1) / UNIT);

		memory_mark_units(chunk, (unsigned int)((range->base - chunk->base) / UNIT), n,
				  false);
		sim_range_remove(range);
		if (!chunk->used)
			memory_free_chunk(ctx, chunk);
		return;
	}
	if (range->kind == SIM_RANGE_POOL_PTR) {
		sim_pool_end_pointer(range);
		return;
	}
	if (range->kind == SIM_RANGE_MANAGED)
		*memory_alloc_managed(range) -= range->block->bytes;
	sim_range_end(range);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!dptr || !bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	r = capture_forbids();
	if (r)
		return r;
	sim_lock();
	r = sim_memory_alloc(ctx, bytesize, SIM_RANGE_DEVICE, dptr);
	sim_unlock();
	return r;
}

/*
 * The 32-bit interface of CUDA 3.1 and before: its results cannot hold this process's addresses,
 * so it answers as a driver does that has no memory where such a program could see it.
 */
CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	return dptr && bytesize ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

void sim_memory_drain(uint64_t address)
{
	struct sim_context *ctx = NULL;
	struct sim_exec *exec = NULL;
	struct sim_range *range;

	sim_lock();
	range = sim_range_find(address);
	if (range)
		ctx = range->ctx;
	sim_unlock();
	if (ctx)
		exec = exec_hold(ctx);
	if (exec)
		exec_drain(exec);
	exec_release(exec);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct sim_range *range;
	struct sim_graph_mem *mem = NULL;
	CUresult r = sim_ready();

	if (r || !dptr)
		return r;
	r = capture_forbids();
	if (r)
		return r;
	sim_memory_drain(dptr);
	sim_lock();
	range = sim_range_find(dptr);
	if (!range || range->base != dptr || range->freeing) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	switch (range->kind) {
	case SIM_RANGE_DEVICE:
	case SIM_RANGE_SMALL:
	case SIM_RANGE_MANAGED:
	case SIM_RANGE_EXTERNAL:
	case SIM_RANGE_POOL_PTR:
		sim_memory_free(range);
		break;
	case SIM_RANGE_POOL:
		r = sim_pool_free(range, NULL, NULL);
		break;
	case SIM_RANGE_GRAPH:
		mem = range->owner;
		break;
	default:
		r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	if (mem)
		sim_graph_mem_free(mem);
	return r;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
	return cuMemFree_v2(dptr);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);
	uint64_t used;

	if (r)
		return r;
	sim_region_lock(sim.region);
	sim_region_reap(sim.region);
	used = sim_region_used(sim.region, ctx->device->index);
	sim_region_unlock(sim.region);
	if (total)
		*total = ctx->device->row->total_bytes;
	if (free)
		*free = ctx->device->row->total_bytes - used;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t f, t;
	CUresult r = cuMemGetInfo_v2(&f, &t);

	if (r)
		return r;
	if (free)
		*free = f > 0xffffffffu ? 0xffffffffu : (unsigned int)f;
	if (total)
		*total = t > 0xffffffffu ? 0xffffffffu : (unsigned int)t;
	return CUDA_SUCCESS;
}

static bool memory_is_of_context(struct sim_range *range, void *arg)
{
	return range->ctx == arg;
}

void sim_context_memory_gone(struct sim_context *ctx)
{
	struct sim_range *range;

	sim_lock();
	while ((range = sim_range_each(memory_is_of_context, ctx)))
		sim_memory_free(range);
	sim_unlock();
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
			    unsigned int ElementSizeBytes)
{
	size_t pitch = sim_round(WidthInBytes, PITCH), bytes;
	CUresult r;

	if (dptr && !pPitch)
		*dptr = 0;
	if (pPitch && !dptr)
		*pPitch = 0;
	if (!dptr || !pPitch || !WidthInBytes || !Height ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
	if (!pitch || __builtin_mul_overflow(pitch, Height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = cuMemAlloc_v2(dptr, bytes);
	if (!r)
		*pPitch = pitch;
	return r;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
			 unsigned int Height, unsigned int ElementSizeBytes)
{
	return pPitch && Height ? cuMemAlloc(dptr, WidthInBytes) : CUDA_ERROR_INVALID_VALUE;
}

/*
 * Managed memory takes its device's memory at once and keeps it: as if every page had been touched
 * there, which is the most that a real device can lose to it.
 */
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	r = capture_forbids();
	if (r)
		return r;
	sim_lock();
	r = sim_memory_alloc(ctx, bytesize, SIM_RANGE_MANAGED, dptr);
	sim_unlock();
	return r;
}
