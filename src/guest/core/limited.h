/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls are limited: what a hook asks first, and what the first of them does once the driver
 * is initialised.
 */
#ifndef ALLOT_GUEST_CORE_LIMITED_H
#define ALLOT_GUEST_CORE_LIMITED_H

#include "guest/core/guest.h"

/*
 * After the driver's cuInit succeeded, or when a call shows that it did: learns the devices and
 * claims a slot. 0, or the error with which the program's use of the GPU is refused.
 */
CUresult limited_attach(struct guest *guest);

/* As limited_guest, where it is not known yet whether there is a limit. */
struct guest *limited_ask(CUresult *ret_error);

/*
 * The limited guest of this call, or NULL when the call is to be passed on as it is: nothing is
 * limited, or the driver itself is calling. *ret_error is set when the GPU is refused.
 */
static inline struct guest *limited_guest(CUresult *ret_error)
{
	struct guest *guest = guest_made();

	if (__builtin_expect(guest && atomic_load_explicit(&guest->slot, memory_order_acquire), 1))
		return guest_inside() ? NULL : guest; /* a process with a slot has a driver, too */
	return limited_ask(ret_error);
}

#endif
