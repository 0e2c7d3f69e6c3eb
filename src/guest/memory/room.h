/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a device that is full (core/room.h), for calls of CUDA's:
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

#include "guest/core/room.h"

/* As room_await. */
bool room_wait(struct room *room, struct guest *guest, struct guest_device *device, uint64_t bytes);

/* In a context of the device: whether what is free there may be what others were promised. */
bool room_is_promised(const struct room *room, struct guest *guest, struct guest_device *device,
		      uint64_t bytes);

#endif
