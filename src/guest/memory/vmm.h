/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_GUEST_MEMORY_VMM_H
#define ALLOT_GUEST_MEMORY_VMM_H

#include "guest/memory/allocator.h"

/*
 * Around the end of a sparse array, by which handles that back its parts are mapped there no more.
 * Before it, as the driver may give out the array's handle again at once; behind it, with what the
 * first one answered, and whether the array has ended.
 */
uint64_t vmm_forget_array_begin(struct guest *guest, uint64_t array);
void vmm_forget_array_end(struct guest *guest, uint64_t call, bool done);

/* A reference of the program's more. False: there is no such handle. */
bool vmm_retain(struct guest *guest, uint64_t handle);

/* The handle that the program has mapped at an address; 0: none. */
uint64_t vmm_handle_at(struct guest *guest, uint64_t at);

/* cuMemMapArrayAsync of a part of the program's list; `as_driver`: the same by the driver's handles. */
CUresult vmm_map_tiles(struct guest *guest, const CUarrayMapInfo *list, CUarrayMapInfo *as_driver,
		       unsigned int count, CUstream stream, map_array_fn *real);

/* Somebody else has what the program maps there, by a dma-buf: it stays on the device. */
void vmm_give(struct guest *guest, CUdeviceptr at, uint64_t size);

#endif
