/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered allocation, and which pool a device uses. */
#include <stdlib.h>

#include "sim/cuda/api.h"
#include "sim/cuda/graph_mem.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/stream.h"

static CUresult pool_device_alloc_async(CUdeviceptr *ret_ptr, size_t bytes, bool own_pool,
					CUmemoryPool handle, CUstream stream_handle,
					bool per_thread)
{
	struct sim_stream *stream;
	struct sim_pool *pool;
	CUmemPoolProps props;
	CUresult r = stream_resolve(stream_handle, per_thread, &stream);

	if (r)
		return r;
	if (!ret_ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	pool = own_pool ? sim_pool_of_device(&sim.device[stream_device(stream)], true)
			: sim_pool_find(handle);
	if (!pool || sim_pool_imported(pool)) {
		*ret_ptr = 0;
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (stream_is_capturing(stream)) {
		props = *sim_pool_props(pool);
		sim_unlock();
		return capture_mem_alloc(stream, &props, bytes, ret_ptr);
	} else {
		r = sim_pool_alloc(pool, bytes, stream, ret_ptr);
	}
	sim_unlock();
	return r;
}

ROWS(cuMemAllocAsync, _ptsz, pool_device_alloc_async,
     (CUdeviceptr *dptr, size_t bytesize, CUstream hStream), dptr, bytesize, true, NULL, hStream)
ROWS(cuMemAllocFromPoolAsync, _ptsz, pool_device_alloc_async,
     (CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream), dptr, bytesize,
     false, pool, hStream)

/* Memory of cuMemAlloc or of an import that is freed in a stream's order, on the executor. */
struct late_free {
	uint64_t base, id;
};

static void pool_device_free_late(void *arg)
{
	struct late_free *late = arg;
	struct sim_range *range;

	sim_lock();
	range = sim_range_find(late->base);
	if (range && range->id == late->id)
		sim_memory_free(range);
	sim_unlock();
	free(late);
}

static CUresult pool_device_free_async(CUdeviceptr ptr, CUstream stream_handle, bool per_thread)
{
	struct sim_pool_ticket *ticket = NULL;
	struct late_free *late = NULL;
	struct sim_graph_mem *mem = NULL;
	struct sim_stream *stream;
	struct sim_range *range;
	CUresult r = stream_resolve(stream_handle, per_thread, &stream);

	if (r || !ptr)
		return r;
	if (stream_is_capturing(stream))
		return capture_mem_free(stream, ptr);
	sim_lock();
	range = sim_range_find(ptr);
	if (!range || range->base != ptr || range->freeing)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (range->kind == SIM_RANGE_POOL)
		r = sim_pool_free(range, stream, &ticket);
	else if (range->kind == SIM_RANGE_GRAPH)
		mem = range->owner;
	else if (range->kind == SIM_RANGE_DEVICE || range->kind == SIM_RANGE_SMALL ||
		 range->kind == SIM_RANGE_POOL_PTR) {
		late = malloc(sizeof(*late));
		if (late) {
			*late = (struct late_free){.base = ptr, .id = range->id};
			if (range->kind == SIM_RANGE_POOL_PTR)
				sim_pool_part_pointer(range);
			sim_range_part(range);
		} else {
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	if (r)
		return r;
	if (ticket)
		return stream_enqueue(stream, sim_pool_freed, ticket);
	if (late)
		return stream_enqueue(stream, pool_device_free_late, late);
	return stream_enqueue(stream, sim_graph_mem_freed, mem);
}

ROWS(cuMemFreeAsync, _ptsz, pool_device_free_async, (CUdeviceptr dptr, CUstream hStream), dptr,
     hStream)

static CUresult pool_device_get(CUmemoryPool *ret, struct sim_device *device, bool current)
{
	struct sim_pool *pool;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	pool = sim_pool_of_device(device, current);
	sim_unlock();
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	return r ? r : pool_device_get(pool_out, device, false);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	return r ? r : pool_device_get(pool, device, true);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
	struct sim_device *device;
	struct sim_pool *pool;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	sim_lock();
	pool = sim_pool_find(handle);
	if (pool)
		device->current_pool = pool;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

/* The same by location; of the host's pools there are none here. */
static CUresult pool_device_by_location(const CUmemLocation *location, CUmemAllocationType type,
					struct sim_device **ret_device)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!location || !sim_location(location, ret_device))
		return CUDA_ERROR_INVALID_VALUE;
	return *ret_device && type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS
								    : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
				CUmemAllocationType type)
{
	struct sim_device *device;
	CUresult r = pool_device_by_location(location, type, &device);

	return r ? r : pool_device_get(pool_out, device, false);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	struct sim_device *device;
	CUresult r = pool_device_by_location(location, type, &device);

	return r ? r : pool_device_get(pool, device, true);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	struct sim_device *device;
	CUresult r = pool_device_by_location(location, type, &device);

	return r ? r : cuDeviceSetMemPool(device->ordinal, pool);
}
