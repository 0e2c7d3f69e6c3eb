/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the two tables of memory/allocator.h a tenant has. */
#ifndef ALLOT_GUEST_MOVABLE_MOVABLE_H
#define ALLOT_GUEST_MOVABLE_MOVABLE_H

#include "guest/core/guest.h"

/* Sets guest->allocator and guest->holders: once, before `slot`. */
void movable_choose_allocator(struct guest *guest);

#endif
