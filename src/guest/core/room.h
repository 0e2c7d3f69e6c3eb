/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a device that is full. In a tenant that overcommits, an allocation which its quota
 * allows does not fail for want of it: it is said what is waited for, and who decides about
 * residency (sched/residency.h) has others leave, or refuses it. A tenant that does not was
 * promised its quota: others leave for that as soon as it is there, and it waits until they have.
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
	uint64_t tries_bytes; /* account/room.h, room_wait_unknown: so much others leave for, */
	uint64_t less_bytes;  /* so much was too little, */
	uint64_t most_bytes;  /* and for so much there is no room; 0: not known */
	struct slot *asks; /* others for what they keep, see account/room.h; NULL: it has not */
	uint64_t began_ns; /* to wait for what was promised, or is not known, */
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
 * What of a device may be free and is promised to tenants that do not overcommit. Where there is
 * not so much beside what is asked for, who decides knows for certain: that is to be waited for
 * as where nothing is free.
 */
uint64_t room_promised(const struct room *room, struct guest *guest, const uint8_t uuid[16]);

#endif
