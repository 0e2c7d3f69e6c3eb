/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/room.h"

#include <limits.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "base/now.h"
#include "base/word.h"
#include "guest/core/pass.h"
#include "guest/core/trace.h"
#include "ledger/role/residency_file.h"
#include "ledger/spare.h"
#include "ledger/swap.h"
#include "ledger/tenant.h"
#include "sched/tuning.h"

/* While a process has the role. More often than TUNING_RESIDENCY_SILENT_NS, so that those who look go on with that. */
#define RING_NS NS_PER_S
#define OTHERS_NS (50 * NS_PER_MS)
_Static_assert(RING_NS < TUNING_RESIDENCY_SILENT_NS, "patience");

static void room_wish(struct room *room, struct guest *guest, int device, uint64_t bytes)
{
	struct swap_wish *wish =
		swap_wish_of(guest->ledger, slot_index(guest->claimed), device);

	if (!wish || !word_swap_if(&wish->more_bytes, 0, bytes))
		return;
	word_write(&wish->answer, 0);
	room->wish = wish;
	trace_follow(guest);
	trace(guest, TRACE_ROOM_ASKED, device, bytes, 0, 0);
	FAULT_POINT(GUEST_ROOM_WISHED);
}

/* Tells the role holder that the granted room was tried, and the driver refused. */
static void room_tell(struct room *room, uint64_t bytes)
{
	if (room->granted)
		word_swap_if(&room->wish->answer, bytes | SWAP_WISH_GRANTED,
			     bytes | SWAP_WISH_FAILED);
	room->granted = false;
}

uint64_t room_promised(const struct room *room, struct guest *guest, const uint8_t uuid[16])
{
	struct residency_file *file = atomic_load(&guest->residency);

	return file && !room->granted ? residency_file_promised(file, uuid) : 0;
}

static void room_ring(struct room *room, const char *runtime, uint64_t now, uint64_t every_ns)
{
	if (room->rang_ns && now < room->rang_ns + every_ns)
		return;
	residency_file_tell(runtime);
	room->rang_ns = now;
}

/*
 * True if the role holder has looked at all tenants twice since it was rung for, evicts none, and
 * gave the role up. A holder that ended before that, or in the middle of a move, is followed by
 * another one.
 */
static bool room_is_decided(struct room *room, const struct residency_look *look, uint64_t now)
{
	if (look->taken || look->moves || look->beats - room->beats < 2) {
		room->free_ns = 0;
		return false;
	}
	room->free_ns = room->free_ns ? room->free_ns : now;
	return now > room->free_ns + 2 * TUNING_RESIDENCY_ELECT_NS;
}

/*
 * True if all that can leave on the device is less than what the driver lacks, and nothing is on its way:
 * somebody else has the device's memory. It takes a while until that is certain: what left a moment ago is
 * free behind the question alone, and memory of a killed process is for some time nobody's.
 */
static bool room_is_others(const struct room *room, struct guest *guest, int device, const char *runtime)
{
	uint64_t least = room->lacks_bytes ? room->lacks_bytes : 1;
	struct ledger_device_info info;
	struct residency_look look;

	return !ledger_device_info(guest->ledger, device, &info) &&
	       residency_file_ask_there(runtime, info.uuid) < least &&
	       !residency_file_look(runtime, &look) && !look.moves;
}

/* True once that has held for OTHERS_NS; until then *ret_asks: the driver is to be asked again. */
static bool room_stays_others(struct room *room, struct guest *guest, int device, const char *runtime,
			      uint64_t now, bool *ret_asks)
{
	*ret_asks = room_is_others(room, guest, device, runtime);
	if (!*ret_asks)
		return false;
	room->others_ns = room->others_ns ? room->others_ns : now;
	return now > room->others_ns + OTHERS_NS;
}

/* The role holder is woken, and has others leave for what they were promised not to have. */
static bool room_await_promise(struct room *room, struct guest *guest, int device)
{
	uint64_t now = now_monotonic_ns();
	struct residency_look look;
	char runtime[PATH_MAX];
	bool asks = false;

	if (tenant_runtime_of(guest->dir, runtime, sizeof(runtime)) ||
	    !residency_file_is_used(runtime) || residency_file_look(runtime, &look))
		return false;
	if (!room->promise_ns && room_stays_others(room, guest, device, runtime, now, &asks))
		return false;
	if (asks) {
		nap_ns(TUNING_RESIDENCY_TRY_NS);
		return true;
	}
	if (!room->promise_ns) {
		room->promise_ns = now;
		room->beats = look.beats;
	}
	if (now > room->promise_ns + TUNING_RESIDENCY_DRAIN_NS || room_is_decided(room, &look, now))
		return false;
	/* Repeated: the role holder may be stopped, and other processes check for that after a ring. */
	if (!room->free_ns)
		room_ring(room, runtime, now, look.taken ? RING_NS : TUNING_RESIDENCY_ELECT_NS);
	nap_ns(TUNING_RESIDENCY_TRY_NS);
	return true;
}

static bool room_await_turn(struct room *room, struct guest *guest, int device, uint64_t bytes)
{
	uint64_t answer = 0;

	if (!bytes || !atomic_load(&guest->residency) || !pass_lend(guest))
		return false;
	room_tell(room, bytes);
	if (!room->wish)
		room_wish(room, guest, device, bytes);
	if (!room->guest) {
		room->guest = guest;
		pass_want(guest);
	}
	nap_ns(TUNING_RESIDENCY_TRY_NS);
	if (room->wish)
		answer = word_acquire(&room->wish->answer);
	room->granted = answer == (bytes | SWAP_WISH_GRANTED);
	room->refused = answer == (bytes | SWAP_WISH_REFUSED);
	pass_wait(guest);
	if (room->granted || room->refused)
		trace(guest, TRACE_ROOM_ANSWERED, device, bytes, room->granted, 0);
	return !room->refused;
}

bool room_await(struct room *room, struct guest *guest, int device, uint64_t bytes)
{
	int cancel = cancel_hold(); /* files are opened, and the call's charge is pending */
	bool again = guest->use ? room_await_turn(room, guest, device, bytes)
				: room_await_promise(room, guest, device);

	cancel_release(cancel);
	return again;
}

void room_again(struct room *room)
{
	if (room->wish)
		word_release(&room->wish->more_bytes, 0);
	room->wish = NULL;
	room->granted = false;
}

void room_end(struct room *room)
{
	room_again(room);
	if (room->guest)
		pass_want_no_more(room->guest);
	if (room->asks)
		spare_end_ask(room->asks);
}
