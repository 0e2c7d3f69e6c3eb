/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/physical.h"

CUmemAllocationHandleType physical_types(const struct guest_device *device)
{
	int can = 0;

	DRIVER(cuDeviceGetAttribute,
	       (&can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		device->ordinal));
	return can ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
}

/* What all of these devices may do from now on. */
static CUresult physical_access(uint64_t devices, CUmemAccess_flags flags, CUdeviceptr at,
				uint32_t pages)
{
	CUmemAccessDesc desc[GUEST_DEVICES];
	size_t n = 0;

	for (int i = 0; i < GUEST_DEVICES; i++)
		if (devices >> i & 1)
			desc[n++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
				.flags = flags,
			};
	return n ? DRIVER(cuMemSetAccess, (at, pages * GRANULE_BYTES, desc, n)) : CUDA_SUCCESS;
}

static CUresult physical_create(const struct guest_device *device, const struct piece *piece,
				CUmemGenericAllocationHandle *ret)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = piece->types,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
		.allocFlags = {.compressionType = piece->compression,
			       .gpuDirectRDMACapable = piece->rdma},
	};

	return DRIVER(cuMemCreate, (ret, piece->pages * GRANULE_BYTES, &prop, 0));
}

CUresult physical_reach(uint64_t may, uint64_t may_not, CUdeviceptr at, uint32_t pages)
{
	CUresult e = physical_access(may, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, at, pages);

	return e ? e : physical_access(may_not, CU_MEM_ACCESS_FLAGS_PROT_NONE, at, pages);
}

CUresult physical_map(uint64_t peers, CUdeviceptr at, uint32_t pages,
		      CUmemGenericAllocationHandle handle)
{
	CUresult e = DRIVER(cuMemMap, (at, pages * GRANULE_BYTES, 0, handle, 0));

	if (e)
		return e;
	e = physical_reach(peers, 0, at, pages);
	if (e)
		DRIVER(cuMemUnmap, (at, pages * GRANULE_BYTES));
	return e;
}

CUresult physical_place(const struct guest_device *device, uint64_t peers, CUdeviceptr at,
			const struct piece *piece, CUmemGenericAllocationHandle *ret)
{
	CUmemGenericAllocationHandle handle;
	CUresult e = physical_create(device, piece, &handle);

	if (e)
		return e;
	e = physical_map(peers, at, piece->pages, handle);
	if (e)
		DRIVER(cuMemRelease, (handle));
	else
		*ret = handle;
	return e;
}

CUresult physical_displace(CUdeviceptr at, struct piece *piece)
{
	CUresult e = CUDA_SUCCESS;

	if (piece->mapped)
		e = DRIVER(cuMemUnmap, (at, piece->pages * GRANULE_BYTES));
	if (e)
		return e;
	piece->mapped = false;
	DRIVER(cuMemRelease, (piece->handle));
	return CUDA_SUCCESS;
}
