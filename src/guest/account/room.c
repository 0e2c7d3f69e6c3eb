/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/room.h"

#include "base/cancel.h"
#include "base/now.h"
#include "base/number.h"
#include "guest/account/granule.h"
#include "guest/account/holder.h"
#include "ledger/spare.h"
#include "sched/tuning.h"

/* Most code takes less than that, and a context as much or some dozens of times more. */
#define STEP_BYTES (UINT64_C(8) << 20)

bool room_is_promised(const struct room *room, struct guest *guest, struct guest_device *device,
		      uint64_t bytes)
{
	uint64_t promised = room_promised(room, guest, device->uuid);
	size_t free_bytes, total;

	return promised && !DRIVER(cuMemGetInfo_v2, (&free_bytes, &total)) &&
	       free_bytes < bytes + promised;
}

/* The driver tells of the current context's device alone. */
static void room_note_lack(struct room *room, struct guest *guest, const struct guest_device *device,
			   uint64_t bytes)
{
	size_t free_bytes, total;

	room->lacks_bytes = 0;
	if (guest_current_device(guest) == device && !DRIVER(cuMemGetInfo_v2, (&free_bytes, &total)))
		room->lacks_bytes = sat_sub_u64(bytes, free_bytes);
}

/* A thread that is cancelled here would keep the call's pass and its charge. */
static void room_ask_others(struct room *room, struct guest *guest, struct guest_device *device)
{
	int cancel = cancel_hold();

	room->asks = guest->claimed;
	spare_begin_ask(room->asks);
	holder_give_back(guest, device);
	charge_await_others(guest);
	cancel_release(cancel);
}

bool room_wait(struct room *room, struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	if (guest->swappable && !room->asks) {
		room_ask_others(room, guest, device);
		return true;
	}
	if (!guest->use && !room->promise_ns)
		room_note_lack(room, guest, device, bytes);
	return room_await(room, guest, device->ledger, round_up(bytes, GRANULE_BYTES));
}

/* The next size to try; false: there is none between what was too little and what is too much. */
static bool room_try_next(struct room *room, uint64_t most)
{
	uint64_t less = room->less_bytes, more = max_u64(2 * less, STEP_BYTES);

	if (room->most_bytes) {
		if (room->most_bytes - less <= STEP_BYTES)
			return false;
		more = min_u64(more, less + (room->most_bytes - less) / 2);
	}
	if (less >= most)
		return false;
	room_again(room);
	room->tries_bytes = min_u64(more, most);
	return true;
}

/*
 * Others made room, and the device has none: a program of no tenant may have it, and is waited for as the
 * role holder does where it knows the size.
 */
static bool room_try_again(struct room *room, uint64_t most)
{
	if (!room->less_bytes || now_monotonic_ns() > room->began_ns + TUNING_RESIDENCY_REFUSE_NS)
		return false;
	room->less_bytes = room->most_bytes = 0;
	return room_try_next(room, most);
}

bool room_wait_unknown(struct room *room, struct guest *guest, struct guest_device *device,
		       uint64_t most)
{
	room->began_ns = room->began_ns ? room->began_ns : now_monotonic_ns();
	if (room->granted)
		room->less_bytes = room->tries_bytes;
	if ((!room->tries_bytes || room->granted) && !room_try_next(room, most))
		return room_try_again(room, most);
	if (room_wait(room, guest, device, room->tries_bytes))
		return true;
	if (!room->refused)
		return false;
	room->most_bytes = room->tries_bytes;
	return room_try_next(room, most) || room_try_again(room, most);
}
