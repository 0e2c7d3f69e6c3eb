/* SPDX-License-Identifier: Apache-2.0 */
/* Room on a GPU that is full, beside core/room.h. */
#ifndef ALLOT_GUEST_AMD_MEMORY_ROOM_H
#define ALLOT_GUEST_AMD_MEMORY_ROOM_H

#include "guest/amd/call.h"
#include "guest/core/room.h"

/* True if the memory that is free there may be promised to others; asks the call's file. */
bool amd_room_is_promised(const struct room *room, const struct amd_call *call,
			  const struct amd_device *device, uint64_t bytes);

#endif
