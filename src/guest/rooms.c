/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/rooms.h"

#include "guest/account/state.h"
#include "guest/lend/state.h"
#include "guest/memory/state.h"
#include "guest/movable/movable.h"
#include "guest/movable/state.h"
#include "guest/opencl/door.h"
#include "guest/opencl/state.h"
#include "guest/swap/swap.h"
#include "guest/vulkan/door.h"

struct rooms {
	struct account_state account;
	struct lend_state lend;
	struct memory_state memory;
	struct movable_state movable;
	struct opencl_state opencl;
};

static void rooms_hang(struct guest *guest, void *at)
{
	struct rooms *rooms = at;

	guest->account = &rooms->account;
	guest->lend = &rooms->lend;
	guest->memory = &rooms->memory;
	guest->movable = &rooms->movable;
	guest->opencl = &rooms->opencl;
	for (int i = 0; i < GUEST_DEVICES; i++) {
		guest->device[i].account = &rooms->account.device[i];
		guest->device[i].memory = &rooms->memory.device[i];
	}
}

static void *rooms_door(const char *name, void *real)
{
	return name[0] == 'v' ? vulkan_door(name, real) : opencl_door(name, real);
}

const struct guest_rooms guest_rooms = {
	.bytes = sizeof(struct rooms),
	.hang = rooms_hang,
	.choose_allocator = movable_choose_allocator,
	.start_swap = swap_start,
	.door = rooms_door,
};
