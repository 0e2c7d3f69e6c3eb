/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of a swappable tenant as a program asks about them, and by legacy IPC handles:
 * allocator.h has what each of these does.
 */
#ifndef ALLOT_GUEST_MOVABLE_SHOWN_H
#define ALLOT_GUEST_MOVABLE_SHOWN_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

bool shown_find(struct guest *guest, CUdeviceptr at, struct object *ret);
CUresult shown_name(struct guest *guest, CUdeviceptr at, CUipcMemHandle *ret);
bool shown_open(struct guest *guest, const CUipcMemHandle *handle, CUdeviceptr *ret,
		CUresult *ret_e);
CUresult shown_close(struct guest *guest, CUdeviceptr at);

#endif
