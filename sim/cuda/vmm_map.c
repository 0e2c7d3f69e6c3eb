/* SPDX-License-Identifier: Apache-2.0 */
/* Address reservations, what is mapped in them, and who may touch it. */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/vmm.h"

struct reservation {
	struct reservation *next;
	uint64_t base, bytes;
};

static struct reservation *reservations;

/* The reservation that holds all of [base, base + bytes). */
static struct reservation *vmm_map_find_range(uint64_t base, uint64_t bytes)
{
	struct reservation *v;

	for (v = reservations; v; v = v->next)
		if (base >= v->base && bytes <= v->bytes && base - v->base <= v->bytes - bytes)
			return v;
	return NULL;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags)
{
	struct reservation *v;
	void *address;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!ptr || !size || size % SIM_GRANULE || flags || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < SIM_GRANULE)
		alignment = SIM_GRANULE;
	v = malloc(sizeof(*v));
	if (!v)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	r = sim_address_reserve(size, alignment, (void *)addr, &address);
	if (!r) {
		*v = (struct reservation){.next = reservations, .base = (uint64_t)address,
					  .bytes = size};
		reservations = v;
		*ptr = v->base;
	}
	sim_unlock();
	if (r)
		free(v);
	return r;
}

static bool vmm_map_within(struct sim_range *range, void *arg)
{
	const struct reservation *v = arg;

	return range->base < v->base + v->bytes && range->base + range->bytes > v->base;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct reservation **at, *v;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	for (at = &reservations; *at && (*at)->base != ptr; at = &(*at)->next)
		;
	v = *at;
	if (!v || v->bytes != size || sim_range_each(vmm_map_within, v)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		*at = v->next;
		sim_address_unmap((void *)v->base, v->bytes, false);
		free(v);
	}
	sim_unlock();
	return r;
}

static CUresult vmm_map_block(uint64_t ptr, uint64_t size, uint64_t offset, struct sim_physical *p)
{
	struct reservation piece = {.base = ptr, .bytes = size};
	struct sim_range *range;
	CUresult r;

	if (!p || !vmm_map_find_range(ptr, size) || offset > p->block->bytes ||
	    size > p->block->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_range_each(vmm_map_within, &piece))
		return CUDA_ERROR_INVALID_VALUE;
	/* Nobody may touch it until cuMemSetAccess says who. */
	r = sim_block_map(p->block, offset, size, (void *)ptr, 0, PROT_NONE, NULL);
	if (r)
		return r;
	range = sim_range_add(ptr, size, SIM_RANGE_VMM, p->block->device, NULL);
	if (!range) {
		sim_address_unmap((void *)ptr, size, true);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->readable = range->writable = false;
	range->block = p->block; /* the mapping is counted in p, which owns the reference */
	range->map_base = ptr;
	range->map_bytes = size;
	range->map_offset = offset;
	range->owner = p;
	sim_physical_map(p);
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!size || (ptr | size | offset) % SIM_GRANULE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	r = vmm_map_block(ptr, size, offset, sim_physical_find(handle));
	sim_unlock();
	return r;
}

/* Whole mappings only, any number of them, all or nothing. */
static bool vmm_map_covered(uint64_t ptr, uint64_t size)
{
	uint64_t at = ptr;

	while (at < ptr + size) {
		const struct sim_range *range = sim_range_find(at);

		if (!range || range->kind != SIM_RANGE_VMM || range->base != at)
			return false;
		at += range->bytes;
	}
	return at == ptr + size;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	if (!size || !vmm_map_covered(ptr, size))
		r = CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = ptr; !r && at < ptr + size;) {
		struct sim_range *range = sim_range_find(at);
		struct sim_physical *p = range->owner;

		at += range->bytes;
		sim_address_unmap((void *)range->base, range->bytes, true);
		sim_range_remove(range);
		sim_physical_unmap(p);
	}
	sim_unlock();
	return r;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult r = sim_ready();
	CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	struct sim_device *device;

	if (r)
		return r;
	if (!desc || !count || !size)
		return CUDA_ERROR_INVALID_VALUE;
	/* There is one set of page tables here: an access that any device has, all have. */
	for (size_t i = 0; i < count; i++) {
		if (!sim_location(&desc[i].location, &device))
			return CUDA_ERROR_INVALID_VALUE;
		flags |= desc[i].flags;
	}
	if (flags & ~(unsigned int)CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (!vmm_map_covered(ptr, size))
		r = CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = ptr; !r && at < ptr + size;) {
		struct sim_range *range = sim_range_find(at);

		range->readable = flags & CU_MEM_ACCESS_FLAGS_PROT_READ;
		range->writable = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		at += range->bytes;
		if (mprotect((void *)range->base, range->bytes,
			     (range->readable ? PROT_READ : 0) |
				     (range->writable ? PROT_WRITE : 0)))
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock();
	return r;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct sim_range *range;
	struct sim_device *device;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!flags || !location || !sim_location(location, &device))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find(ptr);
	if (range && range->kind == SIM_RANGE_VMM)
		*flags = range->writable   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			 : range->readable ? CU_MEM_ACCESS_FLAGS_PROT_READ
					   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}
