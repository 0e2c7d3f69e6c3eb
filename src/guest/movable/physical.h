/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory of a piece, by the driver: made, mapped at the piece's address, taken away. No
 * lock is held.
 */
#ifndef ALLOT_GUEST_MOVABLE_PHYSICAL_H
#define ALLOT_GUEST_MOVABLE_PHYSICAL_H

#include "guest/core/guest.h"
#include "guest/movable/pieces.h"

/* What handles of the device can be exported by. */
CUmemAllocationHandleType physical_types(const struct guest_device *device);

/* Makes the physical memory of a piece, and maps it. */
CUresult physical_place(const struct guest_device *device, uint64_t peers, CUdeviceptr at,
			const struct piece *piece, CUmemGenericAllocationHandle *ret);

/* Maps it where work of these devices, a bit by ordinal, may reach it. */
CUresult physical_map(uint64_t peers, CUdeviceptr at, uint32_t pages,
		      CUmemGenericAllocationHandle handle);

/* From now on work of the ones may reach it, and of the others may not: no device is both. */
CUresult physical_reach(uint64_t may, uint64_t may_not, CUdeviceptr at, uint32_t pages);

/* 0, or the driver's error: then it is as it was. */
CUresult physical_displace(CUdeviceptr at, struct piece *piece);

#endif
