/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of the driver that does nothing which must answer something: see stubs.c. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "bench/null/rows.h"

#define ENTRY	    __attribute__((visibility("default")))
#define OWN	    __attribute__((no_instrument_function)) /* no entry point: see counting/ */
#define TOTAL_BYTES ((size_t)96 << 30)
#define CONTEXT	    ((CUcontext)&the_context)
#define POOL	    ((CUmemoryPool)&the_pool)

static char the_context, the_pool;

/* Addresses that were never given out before, a granule apart, as an allocator's often are. */
OWN static CUdeviceptr driver_fresh(void)
{
	static CUdeviceptr next = (CUdeviceptr)1 << 40;

	return __atomic_fetch_add(&next, (CUdeviceptr)2 << 20, __ATOMIC_RELAXED);
}

/* What was launched is done at once: an event is done when it is recorded. */
static uint64_t recorded_ns[1024];

ENTRY CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	static uint32_t made;

	*phEvent = (CUevent)&recorded_ns[__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) % 1024];
	return CUDA_SUCCESS;
}

ENTRY CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	*(uint64_t *)hEvent = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	*pMilliseconds =
		(float)((double)(*(uint64_t *)hEnd - *(uint64_t *)hStart) / 1e6);
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

OWN static CUresult driver_uuid_of(CUuuid *uuid, CUdevice dev)
{
	memset(uuid, 0x5a, 16);
	return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return driver_uuid_of(uuid, dev);
}

ENTRY CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return driver_uuid_of(uuid, dev);
}

ENTRY CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	*bytes = TOTAL_BYTES;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	*pi = 1;
	return CUDA_SUCCESS;
}

/* NVML of a real driver, which is a stranger to this one, asks for a table of the driver's own. */
ENTRY CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	*ppExportTable = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

ENTRY CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*free_bytes = *total = TOTAL_BYTES;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	*pctx = CONTEXT;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = 0;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = CONTEXT;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuStreamGetCtx(CUstream stream, CUcontext *pctx)
{
	*pctx = CONTEXT;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	*dptr = driver_fresh();
	return CUDA_SUCCESS;
}

ENTRY CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream stream)
{
	*dptr = driver_fresh();
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	*pool = POOL;
	return CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	*pool = POOL;
	return CUDA_SUCCESS;
}

/* A pool that never grows: half of it in use, as in a program that is running. */
ENTRY CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	cuuint64_t bytes = (cuuint64_t)1 << 30;

	if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
		bytes /= 2;
	memcpy(value, &bytes, sizeof(bytes));
	return CUDA_SUCCESS;
}
