/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/room.h"

#include <time.h>

#include "base/fault.h"
#include "base/word.h"
#include "guest/core/pass.h"
#include "ledger/swap.h"
#include "sched/tuning.h"

static void room_wish(struct room *room, struct guest *guest, struct guest_device *device,
		      uint64_t bytes)
{
	struct swap_wish *wish = swap_wish_of(guest->ledger, slot_index(atomic_load(&guest->slot)),
					      device->ledger);

	if (!wish || !word_swap_if(&wish->more_bytes, 0, bytes))
		return;
	word_write(&wish->refused_bytes, 0);
	room->wish = wish;
	FAULT_POINT(GUEST_ROOM_WISHED);
}

bool room_wait(struct room *room, struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	bool refused;

	if (!guest->use || !bytes || !atomic_load(&guest->residency_bell) || !pass_lend(guest))
		return false;
	if (!room->wish)
		room_wish(room, guest, device, bytes);
	if (!room->guest) {
		room->guest = guest;
		pass_want(guest);
	}
	nanosleep(&(struct timespec){.tv_nsec = TUNING_RESIDENCY_TRY_NS}, NULL);
	refused = room->wish && word_acquire(&room->wish->refused_bytes) == bytes;
	pass_wait(guest);
	return !refused;
}

void room_end(struct room *room)
{
	if (room->wish)
		word_release(&room->wish->more_bytes, 0);
	if (room->guest)
		pass_want_no_more(room->guest);
}
