/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays: flat, deep and mipmapped ones, and sparse ones, which take nothing but what is mapped to
 * them.
 */
#include "storm_work.h"

static bool arrays_take(struct worker *w, struct block *b)
{
	CUDA_ARRAY_DESCRIPTOR desc = {.Width = 1024, .Height = 1 + b->bytes / 4096,
				      .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray array;

	if (desc.Height > 16384)
		desc.Height = 16384;
	if (REFUSED(w, cu.cuArrayCreate_v2(&array, &desc)))
		return false;
	b->object = array;
	return true;
}

static void arrays_give(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuArrayDestroy(b->object));
}

static bool arrays_take_deep(struct worker *w, struct block *b)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 64, .Height = 64, .Depth = 1 + b->bytes / 65536,
					.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	CUarray array;

	if (desc.Depth > 2048)
		desc.Depth = 2048;
	if (REFUSED(w, cu.cuArray3DCreate_v2(&array, &desc)))
		return false;
	b->object = array;
	return true;
}

static bool arrays_take_mipmap(struct worker *w, struct block *b)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 256, .Height = 1 + b->bytes / 4096,
					.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
	CUmipmappedArray mipmap;

	if (desc.Height > 16384)
		desc.Height = 16384;
	if (REFUSED(w, cu.cuMipmappedArrayCreate(&mipmap, &desc, 1 + pick(&w->seed, 6))))
		return false;
	b->object = mipmap;
	return true;
}

static void arrays_give_mipmap(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuMipmappedArrayDestroy(b->object));
}

/* A row of tiles is 512 KiB, so four of them are a granule. */
#define TILE_POOL 1 /* CU_MEM_CREATE_USAGE_TILE_POOL */
#define TILE   128
#define WIDTH  1024
#define ROWS   4
#define HEIGHT (ROWS * TILE)

/* Maps the handle's memory to granule `at` of the array; no handle: unmaps what is there. */
static void arrays_map_part(struct worker *w, const struct block *b, unsigned int at,
			    CUmemGenericAllocationHandle handle)
{
	CUarrayMapInfo info = {
		.resourceType = CU_RESOURCE_TYPE_ARRAY,
		.resource = {.array = b->object},
		.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
		.subresource = {.sparseLevel = {.offsetY = at * HEIGHT, .extentWidth = WIDTH,
						.extentHeight = HEIGHT, .extentDepth = 1}},
		.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP
					   : CU_MEM_OPERATION_TYPE_UNMAP,
		.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
		.memHandle = {.memHandle = handle},
		.offset = handle ? at * 2 * MIB : 0,
		.deviceBitMask = 1u << b->device};

	OK(cu.cuMemMapArrayAsync(&info, 1, w->stream[b->device]));
}

static bool arrays_create_sparse(struct worker *w, struct block *b)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = WIDTH, .Height = b->parts * HEIGHT,
					.Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
					.Flags = CUDA_ARRAY3D_SPARSE};
	CUarray array;

	if (REFUSED(w, cu.cuArray3DCreate_v2(&array, &desc)))
		return false;
	b->object = array;
	return true;
}

static bool arrays_take_sparse(struct worker *w, struct block *b)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = storm_location(b->device),
				    .allocFlags = {.usage = TILE_POOL}};

	b->parts = 1 + pick(&w->seed, 4);
	if (!arrays_create_sparse(w, b))
		return false;
	if (REFUSED(w, cu.cuMemCreate(&b->handle, b->parts * 2 * MIB, &prop, 0))) {
		OK(cu.cuArrayDestroy(b->object));
		return false;
	}
	for (unsigned int i = 0; i < b->parts; i++)
		arrays_map_part(w, b, i, b->handle);
	if (pick(&w->seed, 2)) {
		OK(cu.cuMemRelease(b->handle)); /* what is mapped keeps it */
		b->handle = 0;
	}
	return true;
}

/* A part is mapped again, or unmapped. */
static void arrays_use_sparse(struct worker *w, struct block *b)
{
	arrays_map_part(w, b, pick(&w->seed, b->parts), pick(&w->seed, 2) ? b->handle : 0);
}

static void arrays_give_sparse(struct worker *w, struct block *b)
{
	bool unmap = pick(&w->seed, 2), release_first = pick(&w->seed, 2);

	for (unsigned int i = 0; unmap && i < b->parts; i++)
		arrays_map_part(w, b, i, 0);
	OK(cu.cuStreamSynchronize(w->stream[b->device]));
	if (b->handle && release_first)
		OK(cu.cuMemRelease(b->handle));
	OK(cu.cuArrayDestroy(b->object));
	if (b->handle && !release_first)
		OK(cu.cuMemRelease(b->handle));
}

const struct family storm_array_deep = {"array-deep", arrays_take_deep, arrays_give, NULL, NULL};
const struct family storm_mipmap = {"mipmap", arrays_take_mipmap, arrays_give_mipmap, NULL, NULL};
const struct family storm_sparse = {"sparse", arrays_take_sparse, arrays_give_sparse,
				    arrays_use_sparse, NULL};
const struct family storm_array = {"array", arrays_take, arrays_give, NULL, NULL};
