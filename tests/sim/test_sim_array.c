/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of all kinds: what they take, and when. */
#include "tests/sim/sim_test.h"

static void test_plain(void)
{
	uint64_t before = used(0);
	CUDA_ARRAY_DESCRIPTOR flat = {1000, 1000, CU_AD_FORMAT_FLOAT, 1}, got;
	CUDA_ARRAY3D_DESCRIPTOR cube = {256, 256, 64, CU_AD_FORMAT_FLOAT, 4, 0}, got3;
	CUarray a, b;

	OK(cuArrayCreate_v2(&a, &flat));
	CHECK_EQ(used(0) - before, 4 * MIB); /* rows of 4032 bytes */
	OK(cuArrayGetDescriptor_v2(&got, a));
	CHECK_EQ(got.Width, 1000);
	OK(cuArray3DCreate_v2(&b, &cube));
	CHECK_EQ(used(0) - before, 68 * MIB);
	OK(cuArray3DGetDescriptor_v2(&got3, b));
	CHECK_EQ(got3.Depth, 64);
	OK(cuArrayDestroy(a));
	OK(cuArrayDestroy(b));
	GIVES(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(b));
	CHECK_EQ(used(0), before);
	cube.Width = 16384;
	cube.Height = 16384;
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuArray3DCreate_v2(&b, &cube));
	cube.NumChannels = 3;
	GIVES(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&b, &cube));
	CHECK_EQ(used(0), before);
}

static void test_mipmap(void)
{
	uint64_t before = used(0);
	CUDA_ARRAY3D_DESCRIPTOR desc = {1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUmipmappedArray m;
	CUarray level;
	CUDA_ARRAY_DESCRIPTOR got;

	OK(cuMipmappedArrayCreate(&m, &desc, 11));
	CHECK_EQ(used(0) - before, 6 * MIB); /* 4 + 1 + 1/4 + ... */
	OK(cuMipmappedArrayGetLevel(&level, m, 3));
	OK(cuArrayGetDescriptor_v2(&got, level));
	CHECK_EQ(got.Width, 128);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, m, 11));
	GIVES(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
	OK(cuMipmappedArrayDestroy(m));
	CHECK_EQ(used(0), before);
}

/* Takes nothing; says what it needs; what is mapped to it lives as long as that. */
static void test_later(unsigned int flags)
{
	uint64_t before = used(0);
	CUDA_ARRAY3D_DESCRIPTOR desc = {1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, flags};
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUDA_ARRAY_MEMORY_REQUIREMENTS need;
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUmemGenericAllocationHandle h;
	CUarrayMapInfo info = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			       .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			       .deviceBitMask = 1};
	CUarray a;

	OK(cuArray3DCreate_v2(&a, &desc));
	CHECK_EQ(used(0), before);
	OK(cuArrayGetMemoryRequirements(&need, a, 0));
	CHECK_EQ(need.size, 4 * MIB);
	GIVES(flags & CUDA_ARRAY3D_SPARSE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
	      cuArrayGetSparseProperties(&sparse, a));
	if (flags & CUDA_ARRAY3D_SPARSE)
		CHECK_EQ(sparse.tileExtent.width * sparse.tileExtent.height * 4, 65536);
	OK(cuMemCreate(&h, need.size, &prop, 0));
	info.resource.array = a;
	info.memHandle.memHandle = h;
	info.subresource.sparseLevel.extentWidth = 1024;
	info.subresource.sparseLevel.extentHeight = 1024;
	info.subresource.sparseLevel.extentDepth = 1;
	OK(cuMemMapArrayAsync(&info, 1, NULL));
	OK(cuMemRelease(h));
	CHECK_EQ(used(0) - before, 4 * MIB);
	info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	info.memHandle.memHandle = 0;
	OK(cuMemMapArrayAsync(&info, 1, NULL));
	OK(cuCtxSynchronize());
	CHECK_EQ(used(0), before);

	/* and with the array, when it goes first */
	OK(cuMemCreate(&h, need.size, &prop, 0));
	info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	info.memHandle.memHandle = h;
	OK(cuMemMapArrayAsync(&info, 1, NULL));
	OK(cuMemRelease(h));
	OK(cuArrayDestroy(a));
	CHECK_EQ(used(0), before);
}

int main(void)
{
	sim_begin("1", "512MiB");
	sim_context(0);
	test_plain();
	test_mipmap();
	test_later(CUDA_ARRAY3D_SPARSE);
	test_later(CUDA_ARRAY3D_DEFERRED_MAPPING);
	CHECK_EQ(used(0), 64 * MIB);
	return 0;
}
