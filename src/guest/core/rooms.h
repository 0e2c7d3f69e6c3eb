/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls from core, interpose and amd into rooms that stand above them. Those know the table alone;
 * guest/rooms.c, which knows every room, fills it.
 */
#ifndef ALLOT_GUEST_CORE_ROOMS_H
#define ALLOT_GUEST_CORE_ROOMS_H

#include <stddef.h>

struct guest;

struct guest_rooms {
	/* All structures that rooms keep of a process; hang puts zeroed ones on a new guest. */
	size_t bytes;
	void (*hang)(struct guest *guest, void *at);
	/* Sets guest->allocator and guest->holders by what the tenant is: once, before `slot`. */
	void (*choose_allocator)(struct guest *guest);
	/* Starts the swap thread of a swappable tenant, if no thread has. */
	void (*start_swap)(struct guest *guest);
	/* The answer of dlsym for a name by which loaders enter drivers: vulkan/door.h, opencl/door.h. */
	void *(*door)(const char *name, void *real);
};

extern const struct guest_rooms guest_rooms;

#endif
