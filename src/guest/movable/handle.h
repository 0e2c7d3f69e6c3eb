/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of a swappable tenant's program (backing.h): allocator.h has what each of these does. */
#ifndef ALLOT_GUEST_MOVABLE_HANDLE_H
#define ALLOT_GUEST_MOVABLE_HANDLE_H

#include "guest/memory/allocator.h"

CUresult handle_adopt(struct guest *guest, struct guest_device *device,
		      const CUmemAllocationProp *prop, struct object *handle);
void handle_abandon(struct guest *guest, uint64_t name, const struct object *handle);
uint64_t handle_mapped(struct guest *guest, CUdeviceptr at);
CUresult handle_export(struct guest *guest, CUmemGenericAllocationHandle handle, int *ret_fd);
bool handle_import(struct guest *guest, int fd, CUmemGenericAllocationHandle *ret, CUresult *ret_e);
CUresult handle_map_tiles(struct guest *guest, CUarrayMapInfo *list, unsigned int count,
			  CUstream stream, map_array_fn *real);

#endif
