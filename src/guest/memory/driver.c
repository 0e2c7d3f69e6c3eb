/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a tenant whose memory is the driver's, and stays. */
#include "guest/memory/alloc.h"
#include "guest/memory/pool.h"
#include "guest/memory/vmm.h"

static CUresult driver_pool_made(struct guest *guest, CUmemoryPool handle,
				 const CUmemPoolProps *props)
{
	return CUDA_SUCCESS;
}

static void driver_pool_ends(struct guest *guest, CUmemoryPool handle)
{
}

static void driver_pool_trim(struct guest *guest, CUmemoryPool handle, uint64_t keep)
{
}

static void driver_pool_set(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
			    const void *value)
{
}

static void driver_pool_figure(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
			       void *value)
{
}

static void driver_pool_set_access(struct guest *guest, CUmemoryPool handle,
				   const CUmemAccessDesc *desc, size_t count)
{
}

static struct guest_device *driver_holds(struct guest *guest, CUdeviceptr at)
{
	return NULL;
}

static CUresult driver_adopt(struct guest *guest, struct guest_device *device,
			     const CUmemAllocationProp *prop, struct object *handle)
{
	return CUDA_SUCCESS;
}

static CUmemGenericAllocationHandle driver_real_handle(struct guest *guest,
						       CUmemGenericAllocationHandle handle)
{
	return handle;
}

static uint64_t driver_mapped_handle(struct guest *guest, CUdeviceptr at)
{
	return 0;
}

static bool driver_import_handle(struct guest *guest, int fd, CUmemGenericAllocationHandle *ret,
				 CUresult *ret_e)
{
	return false;
}

static CUresult driver_map_tiles(struct guest *guest, CUarrayMapInfo *list, unsigned int count,
				 CUstream stream, map_array_fn *real)
{
	return vmm_map_tiles(guest, list, list, count, stream, real);
}

static void driver_end_spare(struct guest *guest, struct guest_device *device)
{
}

const struct allocator allocator_driver = {
	.alloc = alloc_linear,
	.alloc_pitched = alloc_pitched,
	.free = alloc_free,
	.free_in_stream = alloc_free_in_stream,
	.alloc_from_pool = pool_alloc,
	.pool_made = driver_pool_made,
	.pool_ends = driver_pool_ends,
	.pool_trim = driver_pool_trim,
	.pool_set = driver_pool_set,
	.pool_figure = driver_pool_figure,
	.pool_set_access = driver_pool_set_access,
	.holds = driver_holds,
	.adopt = driver_adopt,
	.real_handle = driver_real_handle,
	.mapped_handle = driver_mapped_handle,
	.import_handle = driver_import_handle,
	.map_tiles = driver_map_tiles,
	.end_spare = driver_end_spare,
};
