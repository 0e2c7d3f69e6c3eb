/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from core and amd into rooms that stand above them. Those two know the table alone;
 * guest/rooms.c, which knows every room, fills it.
 */
#ifndef ALLOT_GUEST_CORE_ROOMS_H
#define ALLOT_GUEST_CORE_ROOMS_H

struct guest;

struct guest_rooms {
	/* Sets guest->allocator and guest->holders by what the tenant is: once, before `slot`. */
	void (*choose_allocator)(struct guest *guest);
	/* Starts the swap thread of a swappable tenant, if no thread has. */
	void (*start_swap)(struct guest *guest);
};

extern const struct guest_rooms guest_rooms;

#endif
