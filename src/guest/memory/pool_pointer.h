/* SPDX-License-Identifier: Apache-2.0 */
/* Single allocations of a pool that this process exported, by their address. */
#ifndef ALLOT_GUEST_MEMORY_POOL_POINTER_H
#define ALLOT_GUEST_MEMORY_POOL_POINTER_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

/*
 * Before the driver frees an address that cuMemAlloc did not give out: takes out the record that it
 * was exported; false: there is none. After the driver's call pool_pointer_done puts it back where
 * the address was not freed. What others have of the pool is not changed by it.
 */
bool pool_pointer_take(struct guest *guest, CUdeviceptr address, struct object *ret);
void pool_pointer_done(struct guest *guest, const struct object *pointer, bool freed);

#endif
