/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a device that is full. In a tenant that overcommits, an allocation which its quota allows
 * does not fail for want of it: it is said what is waited for, and who decides about residency
 * (sched/residency.h) has others leave, or refuses it. A tenant that does not was promised its quota:
 * others leave for that as soon as it is there, and it waits until they have.
 *
 *	do
 *		e = the driver's call
 *	while (e == CUDA_ERROR_OUT_OF_MEMORY && room_wait(&room, ...));
 *	room_end(&room);
 *
 * In a swappable tenant the process's own pools give back first what they do not use, as the driver's do
 * by themselves.
 */
#ifndef ALLOT_GUEST_MEMORY_ROOM_H
#define ALLOT_GUEST_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"

/* All zero in the beginning. */
struct room {
	struct guest *guest; /* NULL: it has not waited */
	struct swap_wish *wish; /* NULL: another thread's wish of this device goes first */
	bool granted;
	bool gave_back;
	uint64_t began_ns; /* to wait for what was promised, */
	uint64_t rang_ns;  /* and so for the last time */
};

/*
 * Waits a moment, without the call's pass: the tenant itself may have to leave meanwhile. False:
 * there is none to be had, or nobody who would leave.
 */
bool room_wait(struct room *room, struct guest *guest, struct guest_device *device, uint64_t bytes);
void room_end(struct room *room);

/*
 * In a context of the device: whether what is free there may be what tenants are promised that do not
 * overcommit. Who decides knows for certain; so that is to be waited for as where nothing is free.
 */
bool room_is_promised(const struct room *room, struct guest *guest, struct guest_device *device,
		      uint64_t bytes);

#endif
