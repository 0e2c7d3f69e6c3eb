/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations from pools of a swappable tenant (own_pool.h), and frees in the order of streams. */
#ifndef ALLOT_GUEST_MOVABLE_OWN_ALLOC_H
#define ALLOT_GUEST_MOVABLE_OWN_ALLOC_H

#include "guest/memory/pool.h"

/* As allocator.h has it. */
CUresult own_alloc(struct guest *guest, struct pool_request *request);

/* As cuMemFreeAsync and cuMemFree. False where it is no memory of these pools. */
bool own_free_async(struct guest *guest, CUdeviceptr at, CUstream stream, CUresult *ret_e);
bool own_free(struct guest *guest, CUdeviceptr at, CUresult *ret_e);

#endif
