/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a full device. In a tenant that overcommits, an allocation within its quota does not fail
 * for want of room: the process publishes a wish, and the role holder for residency
 * (sched/residency.h) evicts others, or refuses it. A tenant that does not overcommit was promised
 * its quota: others are evicted for it as soon as it exists, and it waits until they are.
 *
 *	do
 *		reserve, the driver's call
 *	while (the device is full && room_await(&room, ...));
 *	room_end(&room);
 */
#ifndef ALLOT_GUEST_CORE_ROOM_H
#define ALLOT_GUEST_CORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"

/* All zero in the beginning. */
struct room {
	struct guest *guest; /* NULL: it has not waited */
	struct swap_wish *wish; /* NULL: another thread's wish of this device goes first */
	bool granted, refused;
	/* see room_wait_unknown in account/room.h: others are evicted for this size, */
	uint64_t tries_bytes;
	uint64_t less_bytes;  /* this size was too little, */
	uint64_t most_bytes;  /* and for this size there is no room; 0: not known */
	uint64_t lacks_bytes; /* that the driver had less than was asked for; 0: it is not known */
	struct slot *asks; /* others for what they keep, see account/room.h; NULL: it has not */
	uint64_t began_ns; /* to wait for a size that is not known */
	uint64_t others_ns; /* somebody else has the memory, as it seems since then */
	uint64_t promise_ns; /* to wait for what was promised, */
	uint64_t rang_ns;  /* and rang for the last time */
	uint64_t free_ns;  /* nobody has the role since then, and its last holder has decided */
	uint32_t beats;	   /* of the role, when it began */
};

/*
 * Waits a moment, without the call's pass: the tenant itself may have to leave meanwhile. False:
 * there is none to be had, or nobody who would leave. `device`: of the ledger; `bytes`: whole
 * pages.
 */
bool room_await(struct room *room, struct guest *guest, int device, uint64_t bytes);
/* It waits for another size from here on. */
void room_again(struct room *room);
void room_end(struct room *room);

/*
 * Returns how much of a device may be free and is promised to tenants that do not overcommit. If
 * there is less than that beside the wanted size, the role holder knows for certain: wait for it as
 * if nothing were free.
 */
uint64_t room_promised(const struct room *room, struct guest *guest, const uint8_t uuid[16]);

#endif
