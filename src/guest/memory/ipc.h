/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_GUEST_MEMORY_IPC_H
#define ALLOT_GUEST_MEMORY_IPC_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

/*
 * The driver counts how often a handle was opened, and answers the same address: adds to that count.
 * False: the address is not open. *ret: the object as it is then, which is gone with the last.
 */
bool ipc_count(struct guest *guest, CUdeviceptr at, int add, struct object *ret);

#endif
