/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: addresses that device and host share. It takes nothing of any device. */
#include <sys/mman.h>

#include "sim/cuda/api.h"
#include "sim/cuda/block.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream.h"

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct sim_context *ctx;
	struct sim_range *range;
	uint64_t bytes = sim_round(bytesize, 4096);
	void *p;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!pp || !bytesize || Flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (!bytes || p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	range = sim_range_add((uint64_t)p, bytesize, SIM_RANGE_HOST, ctx->device, ctx);
	if (range) {
		range->map_base = (uint64_t)p;
		range->map_bytes = bytes;
		range->flags = Flags | 2; /* all is mapped under unified addressing */
		*pp = p;
	} else {
		munmap(p, bytes);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock();
	return r;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

/* The range that begins at p, if it is of this kind. */
static struct sim_range *host_find(const void *p, enum sim_range_kind kind)
{
	struct sim_range *range = sim_range_find((uint64_t)p);

	return range && range->base == (uint64_t)p && range->kind == kind ? range : NULL;
}

CUresult cuMemFreeHost(void *p)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r || !p)
		return r;
	sim_memory_drain((uint64_t)p);
	sim_lock();
	range = host_find(p, SIM_RANGE_HOST);
	if (range)
		sim_range_end(range);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct sim_context *ctx;
	struct sim_range *range;
	CUresult r = sim_context_current(&ctx);

	if (!r)
		r = capture_forbids();
	if (r)
		return r;
	if (!p || !bytesize || (uint64_t)p + bytesize < (uint64_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_add((uint64_t)p, bytesize, SIM_RANGE_REGISTERED, ctx->device, ctx);
	if (range)
		range->flags = Flags;
	else
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	sim_unlock();
	return r;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (!r)
		r = capture_forbids();
	if (r)
		return r;
	sim_lock();
	range = host_find(p, SIM_RANGE_REGISTERED);
	if (range)
		sim_range_end(range);
	else
		r = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	sim_unlock();
	return r;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!pdptr || Flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find((uint64_t)p);
	if (range && sim_range_on_host(range))
		*pdptr = (CUdeviceptr)p;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	range = sim_range_find((uint64_t)p);
	if (pFlags && range && range->kind == SIM_RANGE_HOST)
		*pFlags = range->flags;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}
