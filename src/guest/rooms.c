/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/rooms.h"

#include "guest/movable/movable.h"
#include "guest/swap/swap.h"

const struct guest_rooms guest_rooms = {
	.choose_allocator = movable_choose_allocator,
	.start_swap = swap_start,
};
