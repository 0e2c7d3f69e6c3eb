/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays. Their layout is a pitched one, rows a multiple of 64 bytes; an array takes whole granules
 * of its own. Sparse ones and those with deferred mapping take nothing until memory is mapped to
 * them; their content then lies in host memory, as tiles have no place of their own here.
 */
#include "sim/cuda/array.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/report.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/vmm.h"

#define ROW_ALIGN 64u
#define MAX_LEVELS 20

static struct sim_storage *all;

/* Bytes of one channel; block-compressed and planar formats count as one byte a texel. */
static unsigned int array_format_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
	case CU_AD_FORMAT_UNORM_INT16X1:
	case CU_AD_FORMAT_SNORM_INT16X1:
	case CU_AD_FORMAT_UNORM_INT8X2:
	case CU_AD_FORMAT_SNORM_INT8X2:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
	case CU_AD_FORMAT_UNORM_INT8X4:
	case CU_AD_FORMAT_SNORM_INT8X4:
	case CU_AD_FORMAT_UNORM_INT16X2:
	case CU_AD_FORMAT_SNORM_INT16X2:
	case CU_AD_FORMAT_UNORM_INT_101010_2:
		return 4;
	case CU_AD_FORMAT_UNORM_INT16X4:
	case CU_AD_FORMAT_SNORM_INT16X4:
		return 8;
	default:
		return 1;
	}
}

static bool array_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->Width && d->Width <= 1u << 20 && d->Height <= 1u << 20 && d->Depth <= 1u << 14 &&
	       d->Format && (d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4) &&
	       (d->Height || !d->Depth || d->Flags & CUDA_ARRAY3D_LAYERED);
}

size_t sim_array_element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return (size_t)array_format_bytes(d->Format) * d->NumChannels;
}

static size_t array_pitch_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return sim_round(d->Width * sim_array_element_bytes(d), ROW_ALIGN);
}

static uint64_t array_content_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return (uint64_t)array_pitch_of(d) * sim_at_least_1(d->Height) * sim_at_least_1(d->Depth);
}

static CUDA_ARRAY3D_DESCRIPTOR array_level_desc(const CUDA_ARRAY3D_DESCRIPTOR *d,
						unsigned int level)
{
	CUDA_ARRAY3D_DESCRIPTOR l = *d;

	l.Width = sim_at_least_1(d->Width >> level);
	l.Height = d->Height ? sim_at_least_1(d->Height >> level) : 0;
	if (!(d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		l.Depth = d->Depth ? sim_at_least_1(d->Depth >> level) : 0;
	return l;
}

static uint64_t array_total_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int nlevels)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < sim_at_least_1(nlevels); i++) {
		CUDA_ARRAY3D_DESCRIPTOR l = array_level_desc(d, i);

		bytes += array_content_bytes(&l);
	}
	return bytes;
}

static void array_unref(struct sim_block *block, bool imported)
{
	if (imported)
		sim_block_unref_hidden(block);
	else
		sim_block_unref(block);
}

/* Called with sim_lock held; a `block` is imported, and taken over, also on failure. */
static CUresult array_make(struct sim_context *ctx, const CUDA_ARRAY3D_DESCRIPTOR *desc,
			   unsigned int nlevels, struct sim_block *block, uint64_t offset,
			   struct sim_storage **ret_storage)
{
	struct sim_storage *s = calloc(1, sizeof(*s));
	bool imported = block;
	uint64_t at = 0;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (s)
		s->level = calloc(sim_at_least_1(nlevels), sizeof(*s->level));
	if (!s || !s->level)
		goto fail;
	s->ctx = ctx;
	s->desc = *desc;
	s->nlevels = nlevels;
	s->bytes = sim_round(array_total_bytes(desc, nlevels), SIM_GRANULE);
	s->address_bytes = s->bytes;
	if (block) {
		r = CUDA_ERROR_INVALID_VALUE;
		if (offset > block->bytes ||
		    array_total_bytes(desc, nlevels) > block->bytes - offset)
			goto fail;
		s->address_bytes = block->bytes;
		at = offset;
	} else if (!sim_array_loose(desc)) {
		r = sim_pools_block_create(ctx->device, s->bytes, false, &block);
		if (r)
			goto fail;
	}
	s->block = block;
	s->imported = imported;
	if (block) {
		r = sim_block_map(block, 0, s->address_bytes, NULL, SIM_GRANULE,
				  PROT_READ | PROT_WRITE, &s->address);
	} else {
		r = sim_address_reserve(s->address_bytes, 4096, NULL, &s->address);
		if (!r && mprotect(s->address, s->address_bytes, PROT_READ | PROT_WRITE)) {
			sim_address_unmap(s->address, s->address_bytes, false);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (r)
		goto fail;
	for (unsigned int i = 0; i < sim_at_least_1(nlevels); i++) {
		struct sim_array *a = &s->level[i];

		a->storage = s;
		a->desc = array_level_desc(desc, i);
		a->offset = at;
		a->part = nlevels;
		at += array_content_bytes(&a->desc);
	}
	s->next = all;
	all = s;
	if (!imported)
		sim_report_hold(SIM_REPORT_ARRAY, ctx->device->index, s->bytes);
	*ret_storage = s;
	return CUDA_SUCCESS;
fail:
	if (s)
		free(s->level);
	free(s);
	array_unref(block, imported);
	return r;
}

static void array_end_storage(struct sim_storage *s)
{
	struct sim_storage **at = &all;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	for (struct sim_binding *b; (b = s->bindings);) {
		s->bindings = b->next;
		sim_physical_unmap(b->physical);
		free(b);
	}
	if (!s->imported)
		sim_report_drop(SIM_REPORT_ARRAY, s->ctx->device->index, s->bytes);
	sim_address_unmap(s->address, s->address_bytes, false);
	array_unref(s->block, s->imported);
	free(s->level);
	free(s);
}

void sim_context_arrays_gone(struct sim_context *ctx)
{
	sim_lock();
	for (struct sim_storage *s = all, *next; s; s = next) {
		next = s->next;
		if (s->ctx == ctx)
			array_end_storage(s);
	}
	sim_unlock();
}

/* A CUarray that exists, or NULL. Locked. */
struct sim_array *sim_array_find(CUarray handle)
{
	const struct sim_array *a = (const struct sim_array *)handle;

	for (struct sim_storage *s = all; s; s = s->next)
		if (a >= s->level && a < s->level + sim_at_least_1(s->nlevels))
			return &s->level[a - s->level];
	return NULL;
}

struct sim_storage *sim_mipmap_find(CUmipmappedArray handle)
{
	struct sim_storage *s;

	for (s = all; s && s != (struct sim_storage *)handle; s = s->next)
		;
	return s && s->nlevels ? s : NULL;
}

CUresult sim_array_view(CUarray handle, struct sim_array_view *ret_view)
{
	struct sim_array *a;
	CUresult r = CUDA_SUCCESS;

	sim_lock();
	a = sim_array_find(handle);
	if (a)
		*ret_view = (struct sim_array_view){
			.base = (unsigned char *)a->storage->address + a->offset,
			.pitch = array_pitch_of(&a->desc),
			.slice_bytes = array_pitch_of(&a->desc) * sim_at_least_1(a->desc.Height),
			.width_bytes = a->desc.Width * sim_array_element_bytes(&a->desc),
			.height = sim_at_least_1(a->desc.Height),
			.depth = sim_at_least_1(a->desc.Depth),
			.element_bytes = sim_array_element_bytes(&a->desc),
		};
	else
		r = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return r;
}

static CUresult array_create(void **ret, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int nlevels)
{
	struct sim_context *ctx;
	struct sim_storage *s;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!ret || !desc || !array_is_valid(desc) || nlevels > MAX_LEVELS)
		return CUDA_ERROR_INVALID_VALUE;
	r = capture_forbids();
	if (r)
		return r;
	sim_lock();
	r = array_make(ctx, desc, nlevels, NULL, 0, &s);
	if (!r)
		*ret = nlevels ? (void *)s : (void *)s->level;
	sim_unlock();
	return r;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	return array_create((void **)pHandle, pAllocateArray, 0);
}

CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *v1)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;

	if (!v1)
		return CUDA_ERROR_INVALID_VALUE;
	desc = (CUDA_ARRAY3D_DESCRIPTOR){v1->Width,  v1->Height,      v1->Depth,
					 v1->Format, v1->NumChannels, v1->Flags};
	return cuArray3DCreate_v2(pHandle, &desc);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *flat)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;

	if (!flat)
		return CUDA_ERROR_INVALID_VALUE;
	desc = (CUDA_ARRAY3D_DESCRIPTOR){.Width = flat->Width, .Height = flat->Height,
					 .Format = flat->Format, .NumChannels = flat->NumChannels};
	return cuArray3DCreate_v2(pHandle, &desc);
}

CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *v1)
{
	CUDA_ARRAY_DESCRIPTOR flat;

	if (!v1)
		return CUDA_ERROR_INVALID_VALUE;
	flat = (CUDA_ARRAY_DESCRIPTOR){v1->Width, v1->Height, v1->Format, v1->NumChannels};
	return cuArrayCreate_v2(pHandle, &flat);
}

CUresult cuArrayDestroy(CUarray hArray)
{
	struct sim_array *a;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	a = sim_array_find(hArray);
	if (!a || a->part)
		r = CUDA_ERROR_INVALID_HANDLE;
	else
		array_end_storage(a->storage);
	sim_unlock();
	return r;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				unsigned int numMipmapLevels)
{
	unsigned int most = 1;
	size_t extent;

	if (!desc || !numMipmapLevels)
		return CUDA_ERROR_INVALID_VALUE;
	extent = desc->Width > desc->Height ? desc->Width : desc->Height;
	for (; extent > 1; extent /= 2)
		most++;
	return array_create((void **)pHandle, desc,
			    numMipmapLevels < most ? numMipmapLevels : most);
}

CUresult sim_mipmap_on_block(CUmipmappedArray *ret_mipmap, struct sim_context *ctx,
			     const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels,
			     struct sim_block *block, uint64_t offset)
{
	struct sim_storage *s;
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	sim_lock();
	if (array_is_valid(desc) && levels && levels <= MAX_LEVELS)
		r = array_make(ctx, desc, levels, block, offset, &s);
	else
		sim_block_unref(block);
	if (!r)
		*ret_mipmap = (CUmipmappedArray)s;
	sim_unlock();
	return r;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct sim_storage *s;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	s = sim_mipmap_find(hMipmappedArray);
	if (s)
		array_end_storage(s);
	else
		r = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return r;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray handle, unsigned int level)
{
	struct sim_storage *s;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	s = sim_mipmap_find(handle);
	if (!s)
		r = CUDA_ERROR_INVALID_HANDLE;
	else if (!pLevelArray || level >= s->nlevels)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*pLevelArray = (CUarray)&s->level[level];
	sim_unlock();
	return r;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct sim_array *a;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	a = sim_array_find(hArray);
	if (!a)
		r = CUDA_ERROR_INVALID_HANDLE;
	else if (!pArrayDescriptor)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*pArrayDescriptor = a->desc;
	sim_unlock();
	return r;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;
	CUresult r = cuArray3DGetDescriptor_v2(&desc, hArray);

	if (!r && !pArrayDescriptor)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){desc.Width, desc.Height, desc.Format,
							    desc.NumChannels};
	return r;
}

CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
}
