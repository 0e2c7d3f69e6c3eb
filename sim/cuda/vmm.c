/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/report.h"
#include "sim/cuda/vmm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"

static struct sim_physical *all;

/* Of either kind. */
static struct sim_physical *vmm_find(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *p;

	for (p = all; p; p = p->next)
		if ((CUmemGenericAllocationHandle)p == handle)
			return p->handles ? p : NULL;
	return NULL;
}

struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *p = vmm_find(handle);

	return p && p->block ? p : NULL;
}

struct sim_multicast *sim_multicast_find(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *p = vmm_find(handle);

	return p ? p->multicast : NULL;
}

static struct sim_physical *vmm_new_physical(struct sim_block *block,
					     const CUmemAllocationProp *prop)
{
	struct sim_physical *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->block = block;
	p->prop = *prop;
	p->handles = 1;
	p->next = all;
	all = p;
	return p;
}

static void vmm_settle(struct sim_physical *p)
{
	struct sim_physical **at = &all;

	if (p->handles || p->mappings)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->reported)
		sim_report_drop(SIM_REPORT_PHYSICAL, p->block->device->index, p->block->bytes);
	sim_block_unref_as(p->block, p->hidden);
	if (p->end)
		p->end(p->multicast);
	free(p);
}

bool sim_multicast_add(struct sim_multicast *multicast,
		       void (*end)(struct sim_multicast *multicast),
		       CUmemGenericAllocationHandle *ret_handle)
{
	struct sim_physical *p = vmm_new_physical(NULL, &(CUmemAllocationProp){0});

	if (!p)
		return false;
	p->multicast = multicast;
	p->end = end;
	*ret_handle = (CUmemGenericAllocationHandle)p;
	return true;
}

void sim_physical_map(struct sim_physical *physical)
{
	physical->mappings++;
}

void sim_physical_unmap(struct sim_physical *physical)
{
	physical->mappings--;
	vmm_settle(physical);
}

unsigned int sim_vmm_handle_types(const struct sim_range *range)
{
	const struct sim_physical *p = range->owner;

	return p->prop.requestedHandleTypes;
}

static bool vmm_prop_valid(const CUmemAllocationProp *prop, struct sim_device **ret_device)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       sim_location(&prop->location, ret_device);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	struct sim_device *device;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!granularity || !vmm_prop_valid(prop, &device))
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = SIM_GRANULE;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct sim_physical *p = NULL;
	struct sim_block *block;
	struct sim_device *device;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!handle || !size || size % SIM_GRANULE || flags || !vmm_prop_valid(prop, &device))
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_lock();
	r = sim_pools_block_create(device, size, prop->requestedHandleTypes, &block);
	if (!r) {
		p = vmm_new_physical(block, prop);
		if (!p) {
			sim_block_unref(block);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (!r && device) {
		p->reported = true;
		sim_report_hold(SIM_REPORT_PHYSICAL, device->index, size);
	}
	sim_unlock();
	if (!r)
		*handle = (CUmemGenericAllocationHandle)p;
	return r;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *p;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	p = vmm_find(handle);
	if (p) {
		p->handles--;
		vmm_settle(p);
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find((uint64_t)addr);
	if (range && range->kind == SIM_RANGE_VMM) {
		struct sim_physical *p = range->owner;

		p->handles++;
		*handle = (CUmemGenericAllocationHandle)p;
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	struct sim_physical *p;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	p = sim_physical_find(handle);
	if (prop && p)
		*prop = p->prop;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags)
{
	struct sim_physical *p;
	CUresult r = sim_ready();
	int fd;

	if (r)
		return r;
	sim_lock();
	p = sim_physical_find(handle);
	if (!shareableHandle || flags || !p ||
	    handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(p->prop.requestedHandleTypes & handleType))
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = sim_block_export(p->block, &fd);
	sim_unlock();
	if (!r)
		*(int *)shareableHandle = fd;
	return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					CUmemAllocationHandleType shHandleType)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	struct sim_physical *p;
	struct sim_block *block;
	uint64_t key[2];
	int fd = (int)(uintptr_t)osHandle;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	r = sim_block_fd_key(fd, key);
	if (r)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	r = sim_block_import(fd, key, true, &block);
	if (!r) {
		prop.location.id = block->device->ordinal;
		p = vmm_new_physical(block, &prop);
		if (p) {
			p->hidden = true;
			*handle = (CUmemGenericAllocationHandle)p;
		} else {
			sim_block_unref_hidden(block);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	sim_unlock();
	return r;
}
