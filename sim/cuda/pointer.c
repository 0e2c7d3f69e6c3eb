/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may ask of an address; advice and placement of managed memory. */
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/block.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stubs.h"
#include "sim/cuda/vmm.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!pbase && !psize)
		return CUDA_SUCCESS; /* nothing is asked, whatever the address */
	sim_lock();
	range = sim_range_find(dptr);
	if (!range)
		r = CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = range ? range->base : 0;
	if (psize)
		*psize = range ? range->bytes : 0;
	sim_unlock();
	return r;
}

static bool pointer_is_managed(const struct sim_range *range)
{
	return range->kind == SIM_RANGE_MANAGED ||
	       (range->kind == SIM_RANGE_POOL && sim_pool_managed(range->owner));
}

/* Sizes of the answers, as programs lay them out. */
static size_t pointer_answer_bytes(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return sizeof(int);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return sizeof(bool);
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	default:
		return 0;
	}
}

static uint64_t pointer_handle_types(const struct sim_range *range)
{
	if (range->kind == SIM_RANGE_VMM)
		return sim_vmm_handle_types(range);
	if (range->kind == SIM_RANGE_POOL)
		return sim_pool_handle_types(range);
	return 0;
}

/* False: the range has no such attribute. */
static bool pointer_get_attribute(const struct sim_range *range, CUpointer_attribute attribute,
				  CUdeviceptr ptr, uint64_t *ret)
{
	bool host = sim_range_on_host(range) || !range->device;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*ret = (uint64_t)range->ctx;
		return range->ctx;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret = ptr;
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*ret = ptr;
		return host || pointer_is_managed(range);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*ret = range->sync_memops;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*ret = range->id;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*ret = pointer_is_managed(range);
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*ret = (uint32_t)(range->device ? range->device->ordinal : CU_DEVICE_INVALID);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*ret = range->kind == SIM_RANGE_DEVICE || range->kind == SIM_RANGE_SMALL;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*ret = range->base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*ret = range->bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret = 1;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*ret = pointer_handle_types(range);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*ret = 0;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*ret = range->writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		       : range->readable ? CU_MEM_ACCESS_FLAGS_PROT_READ
					  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*ret = range->kind == SIM_RANGE_POOL ? (uint64_t)range->owner : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*ret = range->block ? (uint64_t)range->block : range->id;
		return true;
	default:
		return false;
	}
}

static void pointer_put_answer(void *data, CUpointer_attribute attribute, uint64_t value)
{
	memcpy(data, &value,
	       pointer_answer_bytes(attribute)); /* little endian, as all CUDA hosts are */
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_range *range;
	uint64_t value = 0;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!data || !pointer_answer_bytes(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find(ptr);
	if (!range || !pointer_get_attribute(range, attribute, ptr, &value))
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	if (!r)
		pointer_put_answer(data, attribute, value);
	return r;
}

/*
 * The plural asks of any address: what does not apply is zero, and that is no error. The size of
 * what is not there is not written at all.
 */
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numAttributes; i++)
		if (!data[i] || !pointer_answer_bytes(attributes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (unsigned int i = 0; i < numAttributes; i++) {
		struct sim_range *range = sim_range_find(ptr);
		uint64_t value = 0;

		if (!range && attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
			continue;
		if (!range && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			value = (uint32_t)CU_DEVICE_INVALID;
		else if (range && !pointer_get_attribute(range, attributes[i], ptr, &value))
			value = 0;
		pointer_put_answer(data[i], attributes[i], value);
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	range = sim_range_find(ptr);
	if (!range)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (range->kind == SIM_RANGE_VMM)
		r = CUDA_ERROR_NOT_SUPPORTED;
	else
		range->sync_memops = *(const int *)value;
	sim_unlock();
	return r;
}

/* No dma-bufs are simulated. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
				       CUmemRangeHandleType handleType, unsigned long long flags)
{
	CUresult r = sim_ready();

	if (!r && (!handle || !dptr || !size))
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? r : sim_unsupported(CUDA_FN_cuMemGetHandleForAddressRange);
}

/* Advice and placement change nothing here: the memory is where it is. */

static CUresult pointer_check_managed(CUdeviceptr ptr, size_t count)
{
	struct sim_range *range;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	range = sim_range_find(ptr);
	if (!count || !range || !pointer_is_managed(range) ||
	    count > range->base + range->bytes - ptr)
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return pointer_check_managed(devPtr, count);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			CUmemLocation location)
{
	return pointer_check_managed(devPtr, count);
}

static void pointer_do_nothing(void *arg)
{
}

static CUresult pointer_prefetch(CUdeviceptr ptr, size_t count, CUstream handle, bool per_thread)
{
	struct sim_stream *stream;
	CUresult r = pointer_check_managed(ptr, count);

	if (!r)
		r = stream_resolve(handle, per_thread, &stream);
	return r ? r : stream_enqueue(stream, pointer_do_nothing, NULL);
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	return pointer_prefetch(devPtr, count, hStream, false);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
				 CUstream hStream)
{
	return pointer_prefetch(devPtr, count, hStream, true);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
			       unsigned int flags, CUstream hStream)
{
	return pointer_prefetch(devPtr, count, hStream, false);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
				    unsigned int flags, CUstream hStream)
{
	return pointer_prefetch(devPtr, count, hStream, true);
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
				CUdeviceptr devPtr, size_t count)
{
	CUresult r = pointer_check_managed(devPtr, count);
	int none = CU_DEVICE_INVALID;

	if (r)
		return r;
	if (!data || dataSize < sizeof(int))
		return CUDA_ERROR_INVALID_VALUE;
	memset(data, 0, dataSize);
	if (attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
	    attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
		memcpy(data, &none, sizeof(none));
	return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
				 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CUresult r = numAttributes && data && dataSizes && attributes ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_VALUE;

	for (size_t i = 0; i < numAttributes && !r; i++)
		r = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
	return r;
}
