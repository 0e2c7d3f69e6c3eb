/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_GUEST_MEMORY_IPC_H
#define ALLOT_GUEST_MEMORY_IPC_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

/*
 * Adds to the count of how often an address was opened: the driver answers the same one each time.
 * False: it is not open. *ret: the object with its new count; at 0 it is in the table no more.
 */
bool ipc_count(struct guest *guest, CUdeviceptr at, int add, struct object *ret);

#endif
