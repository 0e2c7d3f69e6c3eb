/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast objects: what memory is bound to them. An object takes nothing itself, and keeps the
 * memory that is bound until that is unbound or the object's last handle is released. It cannot be
 * mapped or exported here.
 */
#include <stdlib.h>

#include "sim/cuda/api.h"
#include "sim/cuda/vmm.h"

struct binding {
	struct binding *next;
	struct sim_device *device;
	uint64_t offset, bytes; /* in the object */
	struct sim_physical *memory;
};

struct sim_multicast {
	unsigned int team; /* devices that it is for */
	uint32_t devices;  /* bit per ordinal that was added */
	uint64_t bytes;
	struct binding *bindings;
};

static void multicast_unbind(struct binding **at)
{
	struct binding *b = *at;

	*at = b->next;
	sim_physical_unmap(b->memory);
	free(b);
}

/* The last handle was released. */
static void multicast_end(struct sim_multicast *multicast)
{
	while (multicast->bindings)
		multicast_unbind(&multicast->bindings);
	free(multicast);
}

static bool multicast_prop_valid(const CUmulticastObjectProp *prop)
{
	return prop && prop->numDevices && prop->numDevices <= (unsigned int)sim.ndevices &&
	       prop->size && !prop->flags;
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
				   CUmulticastGranularity_flags option)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!granularity || !multicast_prop_valid(prop) ||
	    option > CU_MULTICAST_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_GRANULE;
	return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
			   const CUmulticastObjectProp *prop)
{
	struct sim_multicast *multicast;
	CUresult r = sim_ready();
	bool added;

	if (r)
		return r;
	if (!mcHandle || !multicast_prop_valid(prop) || prop->size % SIM_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	multicast = malloc(sizeof(*multicast));
	if (!multicast)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*multicast = (struct sim_multicast){.team = prop->numDevices, .bytes = prop->size};
	sim_lock();
	added = sim_multicast_add(multicast, multicast_end, mcHandle);
	sim_unlock();
	if (added)
		return CUDA_SUCCESS;
	free(multicast);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	struct sim_multicast *multicast;
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	sim_lock();
	multicast = sim_multicast_find(mcHandle);
	if (!multicast || multicast->devices & 1u << dev ||
	    __builtin_popcount(multicast->devices) == (int)multicast->team)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		multicast->devices |= 1u << dev;
	sim_unlock();
	return r;
}

static bool multicast_overlaps(const struct binding *b, const struct sim_device *device,
			       uint64_t offset, uint64_t bytes)
{
	return b->device == device && b->offset < offset + bytes && offset < b->offset + b->bytes;
}

/* [offset, offset + bytes) of the object, from `from` on in the memory. Locked. */
static CUresult multicast_bind(struct sim_multicast *multicast, uint64_t offset,
			       struct sim_physical *memory, uint64_t from, uint64_t bytes)
{
	struct sim_device *device;
	struct binding *b;

	if (!multicast || !memory || !bytes || (offset | from | bytes) % SIM_GRANULE ||
	    bytes > multicast->bytes || offset > multicast->bytes - bytes ||
	    bytes > memory->block->bytes || from > memory->block->bytes - bytes)
		return CUDA_ERROR_INVALID_VALUE;
	device = memory->block->device;
	if (!device || !(multicast->devices & 1u << device->ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	/* The driver waits for the devices that are missing. */
	if (__builtin_popcount(multicast->devices) < (int)multicast->team)
		return CUDA_ERROR_SYSTEM_NOT_READY;
	for (b = multicast->bindings; b; b = b->next)
		if (multicast_overlaps(b, device, offset, bytes))
			return CUDA_ERROR_INVALID_VALUE;
	b = malloc(sizeof(*b));
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*b = (struct binding){multicast->bindings, device, offset, bytes, memory};
	multicast->bindings = b;
	sim_physical_map(memory);
	return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
			    CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
			    unsigned long long flags)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	r = multicast_bind(sim_multicast_find(mcHandle), mcOffset, sim_physical_find(memHandle),
			   memOffset, size);
	sim_unlock();
	return r;
}

/* Of memory that cuMemMap mapped. */
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
			     CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find(memptr);
	if (range && range->kind == SIM_RANGE_VMM && size <= range->base + range->bytes - memptr)
		r = multicast_bind(sim_multicast_find(mcHandle), mcOffset, range->owner,
				   range->map_offset + (memptr - range->base), size);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
			   size_t size)
{
	struct sim_multicast *multicast;
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	sim_lock();
	multicast = sim_multicast_find(mcHandle);
	if (!multicast || !size || size > multicast->bytes || mcOffset > multicast->bytes - size)
		r = CUDA_ERROR_INVALID_VALUE;
	/* Whole bindings only, all or nothing. */
	for (struct binding *b = r ? NULL : multicast->bindings; b; b = b->next)
		if (multicast_overlaps(b, device, mcOffset, size) &&
		    (b->offset < mcOffset || b->offset + b->bytes > mcOffset + size))
			r = CUDA_ERROR_INVALID_VALUE;
	for (struct binding **at = r ? NULL : &multicast->bindings; at && *at;)
		if (multicast_overlaps(*at, device, mcOffset, size))
			multicast_unbind(at);
		else
			at = &(*at)->next;
	sim_unlock();
	return r;
}
