/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program asks of an address. Memory that we back is mapped physical memory to the driver,
 * and a whole granule where an allocation is a part of one; the program is told of its allocation,
 * as of one by cuMemAlloc. What can be done to mapped memory alone cannot be done to it.
 */
#include "guest/core/hook.h"
#include "guest/memory/allocator.h"
#include "guest/memory/vmm.h"

static bool pointer_is_ours(struct guest *guest, CUdeviceptr at)
{
	return guest->allocator->holds(guest, at);
}

/* Whether the address may be one that the program maps itself: the driver is to find it mapped. */
static bool pointer_may_be_away(struct guest *guest)
{
	return guest->swappable && object_count(guest->objects, OBJECT_MAPPING);
}

/* The same size for all of these; false: the driver knows. */
static bool pointer_answer(const struct object *object, CUpointer_attribute attribute, void *data)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		if (!object->context)
			return false; /* a pool's memory is of none */
		*(CUcontext *)data = (CUcontext)(uintptr_t)object->context;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(uint64_t *)data = object->linear.pool;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_t *)data = object->linear.id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(uint64_t *)data = object->key;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(uint64_t *)data = object->size;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(uint64_t *)data = CU_MEM_HANDLE_TYPE_NONE;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(bool *)data = object->kind == OBJECT_MEMORY;
		return true;
	default:
		return false;
	}
}

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	GUEST_ALONE(cuPointerGetAttribute, (data, attribute, ptr));
	struct object object;

	if (!data || !pointer_is_ours(guest, ptr)) {
		HOLD_MEMORY_IF(pointer_may_be_away(guest));
		return DRIVER(cuPointerGetAttribute, (data, attribute, ptr));
	}
	if (!guest->allocator->find(guest, ptr, &object))
		return CUDA_ERROR_INVALID_VALUE;
	if (pointer_answer(&object, attribute, data))
		return CUDA_SUCCESS;
	/* The driver has to find it mapped. */
	HOLD_MEMORY_IF(true);
	return DRIVER(cuPointerGetAttribute, (data, attribute, ptr));
}

CUresult hook_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				     void **data, CUdeviceptr ptr)
{
	GUEST_ALONE(cuPointerGetAttributes, (numAttributes, attributes, data, ptr));
	struct object object;
	CUresult e;

	HOLD_MEMORY_IF(pointer_is_ours(guest, ptr) || pointer_may_be_away(guest));
	if (!pointer_is_ours(guest, ptr))
		return DRIVER(cuPointerGetAttributes, (numAttributes, attributes, data, ptr));
	/* What is spare is mapped, and free to whoever asks. */
	if (!guest->allocator->find(guest, ptr, &object))
		guest->allocator->end_spare(guest, guest->allocator->holds(guest, ptr));
	e = DRIVER(cuPointerGetAttributes, (numAttributes, attributes, data, ptr));
	if (e || !guest->allocator->find(guest, ptr, &object))
		return e;
	for (unsigned int i = 0; i < numAttributes; i++)
		if (data[i])
			pointer_answer(&object, attributes[i], data[i]);
	return e;
}

CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				    CUdeviceptr ptr)
{
	GUEST_ALONE(cuPointerSetAttribute, (value, attribute, ptr));
	bool ours = pointer_is_ours(guest, ptr);

	HOLD_MEMORY_IF(ours || pointer_may_be_away(guest));
	if (ours)
		guest->allocator->mark(guest, ptr);
	return DRIVER(cuPointerSetAttribute, (value, attribute, ptr));
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	GUEST_ALONE(cuMemGetAddressRange_v2, (pbase, psize, dptr));
	struct object object;

	if (!pointer_is_ours(guest, dptr)) {
		HOLD_MEMORY_IF(pointer_may_be_away(guest));
		return DRIVER(cuMemGetAddressRange_v2, (pbase, psize, dptr));
	}
	if (!guest->allocator->find(guest, dptr, &object))
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = object.key;
	if (psize)
		*psize = object.size;
	return CUDA_SUCCESS;
}

/* A descriptor of it would hold the physical memory. */
CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
					    CUmemRangeHandleType handleType,
					    unsigned long long flags)
{
	GUEST_ALONE(cuMemGetHandleForAddressRange, (handle, dptr, size, handleType, flags));
	if (pointer_is_ours(guest, dptr))
		return CUDA_ERROR_NOT_SUPPORTED;
	HOLD_MEMORY_IF(pointer_may_be_away(guest));
	CUresult e = DRIVER(cuMemGetHandleForAddressRange,
			    (handle, dptr, size, handleType, flags));
	if (!e && pointer_may_be_away(guest))
		vmm_give(guest, dptr, size);
	return e;
}

/* Of cuMemAlloc's memory the driver knows the context; of mapped memory it has to be told. */
CUresult hook_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	GUEST_ALONE(cuGraphAddMemsetNode,
		    (phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx));
	CUdeviceptr at = memsetParams ? memsetParams->dst : 0;
	struct object object;

	HOLD_MEMORY_IF(pointer_is_ours(guest, at) || pointer_may_be_away(guest));
	if (!ctx && pointer_is_ours(guest, at) && guest->allocator->find(guest, at, &object))
		ctx = (CUcontext)(uintptr_t)object.context;
	return DRIVER(cuGraphAddMemsetNode,
		      (phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx));
}

#define MAPPED(name, params, args, at)                    \
	CUresult hook_##name params                       \
	{                                                 \
		GUEST_ALONE(name, args);                  \
		if (pointer_is_ours(guest, at))           \
			return CUDA_ERROR_INVALID_VALUE;  \
		HOLD_MEMORY_IF(pointer_may_be_away(guest)); \
		return DRIVER(name, args);                \
	}

MAPPED(cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size), ptr)
MAPPED(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr),
       (flags, location, ptr), ptr)
MAPPED(cuMemSetAccess,
       (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count),
       (ptr, size, desc, count), ptr)
