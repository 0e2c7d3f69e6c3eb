/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that take their memory later: what they need, their tiles, what is mapped to them. */
#include "sim/cuda/array.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stream.h"

#define TILE_BYTES 65536u

/* Only arrays that take their memory later have requirements to state. */
static CUresult array_map_get_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret,
					   const struct sim_storage *s)
{
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret || !sim_array_loose(&s->desc))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = s->bytes, .alignment = SIM_GRANULE};
	return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
				      CUarray handle, CUdevice dev)
{
	struct sim_device *device;
	struct sim_array *a;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	sim_lock();
	a = sim_array_find(handle);
	r = array_map_get_requirements(memoryRequirements, a ? a->storage : NULL);
	sim_unlock();
	return r;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
					       CUmipmappedArray handle, CUdevice dev)
{
	struct sim_device *device;
	CUresult r = sim_device_get(dev, &device);

	if (r)
		return r;
	sim_lock();
	r = array_map_get_requirements(memoryRequirements, sim_mipmap_find(handle));
	sim_unlock();
	return r;
}

/* A tile is 64 KiB, square in elements; every level can be bound by tiles: none is a tail. */
static CUresult array_map_get_sparse(CUDA_ARRAY_SPARSE_PROPERTIES *ret, const struct sim_storage *s)
{
	unsigned int elements;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret || !(s->desc.Flags & CUDA_ARRAY3D_SPARSE))
		return CUDA_ERROR_INVALID_VALUE;
	memset(ret, 0, sizeof(*ret));
	elements = TILE_BYTES / (unsigned int)sim_array_element_bytes(&s->desc);
	ret->tileExtent.width = ret->tileExtent.height = 1;
	ret->tileExtent.depth = 1;
	while (ret->tileExtent.width * ret->tileExtent.height < elements) {
		if (ret->tileExtent.width <= ret->tileExtent.height)
			ret->tileExtent.width *= 2;
		else
			ret->tileExtent.height *= 2;
	}
	ret->miptailFirstLevel = (unsigned int)sim_at_least_1(s->nlevels);
	return CUDA_SUCCESS;
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray handle)
{
	struct sim_array *a;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	a = sim_array_find(handle);
	r = array_map_get_sparse(sparseProperties, a ? a->storage : NULL);
	sim_unlock();
	return r;
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
					     CUmipmappedArray handle)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	r = array_map_get_sparse(sparseProperties, sim_mipmap_find(handle));
	sim_unlock();
	return r;
}

/* cuMemMapArrayAsync waits for the stream and binds at the call. */

static struct sim_storage *array_map_storage_of(const CUarrayMapInfo *info)
{
	struct sim_array *a;

	if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		return sim_mipmap_find(info->resource.mipmap);
	if (info->resourceType != CU_RESOURCE_TYPE_ARRAY)
		return NULL;
	a = sim_array_find(info->resource.array);
	return a ? a->storage : NULL;
}

static bool array_map_same_place(const CUarrayMapInfo *a, const CUarrayMapInfo *b)
{
	if (a->subresourceType != b->subresourceType)
		return false;
	if (a->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		return a->subresource.miptail.layer == b->subresource.miptail.layer &&
		       a->subresource.miptail.offset == b->subresource.miptail.offset;
	/* Eight words without padding. */
	return !memcmp(&a->subresource.sparseLevel, &b->subresource.sparseLevel,
		       sizeof(a->subresource.sparseLevel));
}

static void array_map_unbind(struct sim_storage *s, const CUarrayMapInfo *info)
{
	for (struct sim_binding **at = &s->bindings, *b; (b = *at);) {
		if (!array_map_same_place(&b->where, info)) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		sim_physical_unmap(b->physical);
		free(b);
	}
}

static CUresult array_map_bind(const CUarrayMapInfo *info)
{
	struct sim_storage *s = array_map_storage_of(info);
	struct sim_physical *p;
	struct sim_binding *b;

	if (!s || !sim_array_loose(&s->desc))
		return CUDA_ERROR_INVALID_VALUE;
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) {
		array_map_unbind(s, info);
		return CUDA_SUCCESS;
	}
	p = sim_physical_find(info->memHandle.memHandle);
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP || !p ||
	    info->offset >= p->block->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	b = malloc(sizeof(*b));
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_physical_map(p); /* before what was there goes: it may be the same memory */
	array_map_unbind(s, info);
	*b = (struct sim_binding){.next = s->bindings, .where = *info, .physical = p};
	s->bindings = b;
	return CUDA_SUCCESS;
}

static CUresult array_map_enqueue(CUarrayMapInfo *list, unsigned int count, CUstream handle,
				  bool per_thread)
{
	struct sim_stream *stream;
	CUresult r = stream_resolve(handle, per_thread, &stream);

	if (r)
		return r;
	if (!list || !count)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream_is_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	r = stream_synchronize(stream);
	sim_lock();
	for (unsigned int i = 0; i < count && !r; i++)
		r = array_map_bind(&list[i]);
	sim_unlock();
	return r;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	return array_map_enqueue(mapInfoList, count, hStream, false);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	return array_map_enqueue(mapInfoList, count, hStream, true);
}
