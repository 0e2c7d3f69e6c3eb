/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of drivers' functions that have no argument which tells one driver from another. Each slot has a
 * function of ours in front of it, and holds the address that this one calls.
 */
#ifndef ALLOT_GUEST_CORE_DOOR_SLOT_H
#define ALLOT_GUEST_CORE_DOOR_SLOT_H

#include <stdatomic.h>

/*
 * The slot of an address among `n`, which may be one that nobody has, or whose library was unloaded: a
 * loader opens a driver for a look, and closes it. -1: all are of others.
 */
int door_slot(_Atomic(void *) *slots, int n, void *real);

#endif
