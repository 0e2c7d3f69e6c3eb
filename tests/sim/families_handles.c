/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of physical memory by handle: mapped, shared among ranges, behind sparse arrays. */
#include "families_steps.h"

static CUdeviceptr reserve(uint64_t bytes)
{
	CUdeviceptr p;

	OK(cu.cuMemAddressReserve(&p, bytes, 0, 0, 0));
	return p;
}

void handle_orders(void)
{
	CUmemGenericAllocationHandle h, again, other;
	CUdeviceptr p;

	guest_context(0);
	p = reserve(64 * MIB);
	tell(NOTE_USED, 0, 0, "addresses take nothing");

	h = create(10 * MIB);
	OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	OK(cu.cuMemRelease(h));
	tell(NOTE_USED, 0, 10 * MIB, "mapped keeps it");
	OK(cu.cuMemRetainAllocationHandle(&again, (void *)p));
	OK(cu.cuMemUnmap(p, 10 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "retained keeps it");
	OK(cu.cuMemRelease(again));
	tell(NOTE_FREED, 0, 0, "map, release, retain, unmap, release");

	h = create(10 * MIB);
	OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	OK(cu.cuMemUnmap(p, 10 * MIB));
	OK(cu.cuMemMap(p + 20 * MIB, 10 * MIB, 0, h, 0));
	OK(cu.cuMemUnmap(p + 20 * MIB, 10 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "unmapped stays");
	OK(cu.cuMemRelease(h));
	tell(NOTE_FREED, 0, 0, "map, unmap, release");

	/* Several mappings of one handle, at once. */
	h = create(10 * MIB);
	OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	OK(cu.cuMemMap(p + 10 * MIB, 10 * MIB, 0, h, 0));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemUnmap(p, 10 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "one of two");
	OK(cu.cuMemUnmap(p + 10 * MIB, 10 * MIB));
	tell(NOTE_FREED, 0, 0, "two mappings");

	/* Parts of a handle, if the driver maps them; two handles in one range. */
	h = create(10 * MIB);
	other = create(4 * MIB);
	if (!cu.cuMemMap(p, 4 * MIB, 6 * MIB, h, 0)) {
		OK(cu.cuMemMap(p + 4 * MIB, 6 * MIB, 0, h, 0));
	} else {
		OK(cu.cuMemMap(p, 10 * MIB, 0, h, 0));
	}
	OK(cu.cuMemMap(p + 10 * MIB, 4 * MIB, 0, other, 0));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMemRelease(other));
	tell(NOTE_USED, 0, 14 * MIB, "three mappings");
	CHECK(cu.cuMemUnmap(p + GRANULE, GRANULE));
	tell(NOTE_USED, 0, 14 * MIB, "no part of one");
	OK(cu.cuMemUnmap(p, 14 * MIB));
	tell(NOTE_FREED, 0, 0, "one range of three mappings");

	CHECK(cu.cuMemRelease(h));
	CHECK(cu.cuMemUnmap(p, 14 * MIB));
	CHECK(cu.cuMemMap(p, 4 * MIB, 0, h, 0));
	tell(NOTE_FREED, 0, 0, "errors change nothing");

	/* It outlives contexts. */
	h = create(10 * MIB);
	OK(cu.cuDevicePrimaryCtxReset_v2(0));
	guest_context(0);
	OK(cu.cuMemRelease(h));
	tell(NOTE_LEDGER, 0, 0, "after a reset");
}

void sparse_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1024, 512, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SPARSE};
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			      .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			      .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC, .deviceBitMask = 1};
	CUmemGenericAllocationHandle h, other;
	CUarray array;

	guest_context(0);
	OK(cu.cuArray3DCreate_v2(&array, &d));
	tell(NOTE_USED, 0, 0, "sparse takes nothing");
	h = create(8 * MIB);
	other = create(8 * MIB);
	map.resource.array = array;
	map.subresource.sparseLevel.extentWidth = 1024;
	map.subresource.sparseLevel.extentHeight = 512;
	map.subresource.sparseLevel.extentDepth = 1;
	map.memHandle.memHandle = h;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuMemRelease(h));
	tell(NOTE_USED, 0, 16 * MIB, "mapped");
	map.memHandle.memHandle = other;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_USED, 0, 8 * MIB, "mapped over");
	map.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	map.memHandle.memHandle = 0;
	OK(cu.cuMemMapArrayAsync(&map, 1, NULL));
	OK(cu.cuStreamSynchronize(NULL));
	tell(NOTE_USED, 0, 8 * MIB, "unmapped");
	map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	map.memHandle.memHandle = other;
	OK(cu.cuMemMapArrayAsync_ptsz(&map, 1, NULL));
	OK(cu.cuMemRelease(other));
	OK(cu.cuStreamSynchronize_ptsz(NULL));
	tell(NOTE_USED, 0, 8 * MIB, "mapped and released");
	OK(cu.cuArrayDestroy(array));
	tell(NOTE_FREED, 0, 0, "destroyed");
}

/* Memory bound to a multicast object is held until it is unbound, or the object ends. */
void multicast(void)
{
	CUmulticastObjectProp prop = {.numDevices = 1, .size = 32 * MIB};
	CUmemGenericAllocationHandle all, h;
	CUdeviceptr p;

	guest_context(0);
	OK(cu.cuMulticastCreate(&all, &prop));
	OK(cu.cuMulticastAddDevice(all, 0));
	h = create(10 * MIB);
	OK(cu.cuMulticastBindMem(all, 0, h, 0, 8 * MIB, 0));
	OK(cu.cuMemRelease(h));
	tell(NOTE_USED, 0, 10 * MIB, "bound keeps it");
	CHECK(cu.cuMulticastUnbind(all, 0, 0, 2 * MIB));
	tell(NOTE_USED, 0, 10 * MIB, "no part of it");
	OK(cu.cuMulticastUnbind(all, 0, 0, 8 * MIB));
	tell(NOTE_FREED, 0, 0, "unbound");

	/* By address, and by two objects. */
	p = reserve(64 * MIB);
	h = create(6 * MIB);
	OK(cu.cuMemMap(p, 6 * MIB, 0, h, 0));
	OK(cu.cuMemRelease(h));
	OK(cu.cuMulticastBindAddr(all, 8 * MIB, p, 6 * MIB, 0));
	CHECK(cu.cuMulticastBindAddr(all, 8 * MIB, p, 6 * MIB, 0));
	OK(cu.cuMemUnmap(p, 6 * MIB));
	tell(NOTE_USED, 0, 6 * MIB, "bound by address");
	h = create(4 * MIB);
	OK(cu.cuMulticastBindMem(all, 0, h, 0, 4 * MIB, 0));
	tell(NOTE_USED, 0, 10 * MIB, "beside it");
	OK(cu.cuMemRelease(all));
	tell(NOTE_USED, 0, 4 * MIB, "the object ended");
	OK(cu.cuMemRelease(h));
	tell(NOTE_FREED, 0, 0, "its memory");
	CHECK(cu.cuMulticastBindMem(all, 0, h, 0, 4 * MIB, 0));
	tell(NOTE_FREED, 0, 0, "errors change nothing");
}
