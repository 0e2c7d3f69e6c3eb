/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations from pools of a swappable tenant (own_pool.h), and frees in the order of streams. */
#ifndef ALLOT_GUEST_MOVABLE_OWN_ALLOC_H
#define ALLOT_GUEST_MOVABLE_OWN_ALLOC_H

#include "guest/core/guest.h"

/*
 * As cuMemAllocAsync in a stream that does not capture; `handle` NULL: from the pool that is
 * current on the stream's device. False: it is the driver's to answer.
 */
bool own_alloc(struct guest *guest, CUmemoryPool handle, uint64_t bytes, CUstream stream,
	       CUdeviceptr *ret, CUresult *ret_e);

/* The same of cuMemFreeAsync and of cuMemFree: false where it is no memory of these pools. */
bool own_free_async(struct guest *guest, CUdeviceptr at, CUstream stream, CUresult *ret_e);
bool own_free(struct guest *guest, CUdeviceptr at, CUresult *ret_e);

#endif
