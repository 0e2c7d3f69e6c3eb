/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools between processes. A pool travels as a descriptor that only says what it is; memory of it
 * travels pointer by pointer, and the importer keeps the segment that a pointer lies in: until it
 * destroys the imported pool, as on an H200, and in no process's figure once the exporter has let
 * go of the segment.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"

#define POOL_MAGIC 0x314c4f4f504d4953ull
#define PTR_MAGIC 0x3152545050414d53ull

struct exported_pool {
	uint64_t magic;
	uint64_t device; /* in the region */
	CUmemPoolProps props;
};

struct exported_ptr {
	uint64_t magic;
	uint64_t key[2];
	uint64_t offset, bytes;
	int32_t pid, fd;
};

_Static_assert(sizeof(struct exported_ptr) <= sizeof(CUmemPoolPtrExportData),
	       "must fit what the program passes on");

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool handle,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	struct exported_pool data = {.magic = POOL_MAGIC};
	struct sim_pool *pool;
	CUresult r = sim_ready();
	int fd;

	if (r)
		return r;
	if (!handle_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	pool = sim_pool_find(handle);
	if (pool) {
		data.props = *sim_pool_props(pool);
		data.device = (uint64_t)sim.device[data.props.location.id].index;
	}
	sim_unlock();
	if (!pool || !(data.props.handleTypes & handleType) ||
	    data.props.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("allot-sim-pool", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (write(fd, &data, sizeof(data)) != sizeof(data)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	sim_lock();
	pool = sim_pool_find(handle);
	if (pool)
		sim_pool_set_exported(pool);
	sim_unlock();
	*(int *)handle_out = fd;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handleType,
					    unsigned long long flags)
{
	struct sim_device *device = NULL;
	struct exported_pool data;
	struct sim_pool *pool;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    pread((int)(uintptr_t)handle, &data, sizeof(data), 0) != sizeof(data) ||
	    data.magic != POOL_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim.ndevices; i++)
		if (sim.device[i].index == (int)data.device)
			device = &sim.device[i];
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	data.props.location.id = device->ordinal;
	sim_lock();
	pool = sim_pool_new(&data.props, device, true);
	sim_unlock();
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool_out = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	struct exported_ptr data = {.magic = PTR_MAGIC, .pid = getpid()};
	struct sim_block *block;
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!shareData_out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find(ptr);
	if (!range || range->kind != SIM_RANGE_POOL || !sim_pool_exported(range)) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		block = sim_pool_block(range, &data.offset);
		r = sim_block_share(block);
		memcpy(data.key, block->key, sizeof(data.key));
		data.fd = block->fd;
		data.bytes = range->bytes;
	}
	sim_unlock();
	if (r)
		return r;
	memset(shareData_out, 0, sizeof(*shareData_out));
	memcpy(shareData_out, &data, sizeof(data));
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool handle,
				CUmemPoolPtrExportData *shareData)
{
	struct exported_ptr data;
	struct sim_pool *pool;
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!ptr_out || !shareData)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&data, shareData, sizeof(data));
	if (data.magic != PTR_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	pool = sim_pool_find(handle);
	if (!pool || !sim_pool_imported(pool))
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = sim_range_import(data.pid, data.fd, data.key, data.offset, data.bytes,
				     SIM_RANGE_POOL_PTR, NULL, &range);
	if (!r && !sim_pool_adopt(pool, range)) {
		sim_range_end(range);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r)
		*ptr_out = range->base;
	sim_unlock();
	return r;
}
