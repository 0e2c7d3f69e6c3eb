/* SPDX-License-Identifier: Apache-2.0 */
/* Single allocations of a pool that one process exports and another imports, by their address. */
#ifndef ALLOT_GUEST_MEMORY_POOL_POINTER_H
#define ALLOT_GUEST_MEMORY_POOL_POINTER_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

/*
 * Before the driver frees an address that cuMemAlloc did not give out: takes out the record of its
 * sharing; false: there is none. After the driver's call pool_pointer_done drops the record, or
 * puts it back where the address was not freed.
 */
bool pool_pointer_take(struct guest *guest, CUdeviceptr address, struct object *ret);
void pool_pointer_done(struct guest *guest, const struct object *pointer, bool freed);

#endif
