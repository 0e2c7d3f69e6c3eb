/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/room.h"

#include "guest/memory/charge.h"
#include "guest/memory/granule.h"
#include "guest/memory/holder.h"
#include "ledger/spare.h"

bool room_is_promised(const struct room *room, struct guest *guest, struct guest_device *device,
		      uint64_t bytes)
{
	uint64_t promised = room_promised(room, guest, device->uuid);
	size_t free_bytes, total;

	return promised && !DRIVER(cuMemGetInfo_v2, (&free_bytes, &total)) &&
	       free_bytes < bytes + promised;
}

bool room_wait(struct room *room, struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	if (guest->swappable && !room->asks) {
		room->asks = guest->claimed;
		spare_begin_ask(room->asks);
		holder_give_back(guest, device);
		charge_await_others(guest);
		return true;
	}
	return room_await(room, guest, device->ledger, round_up(bytes, GRANULE_BYTES));
}
