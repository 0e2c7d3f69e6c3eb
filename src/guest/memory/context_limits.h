/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that contexts take by their limits (cuCtxSetLimit), as an H200 does it:
 *
 *	stack          taken at once, for every thread that the device can hold, and given back at once
 *	malloc heap    backed at the first launch of code that uses it, and then for good
 *	printf FIFO    backed when such code is loaded; given back with the context, too
 *
 * A heap or FIFO that was raised is charged from then on, since the driver takes it without asking.
 * When it is backed it stands in the driver's figure, and is charged by that. Whether it is, the
 * driver says: a limit that is backed can be set no more, not even to what it is.
 */
#ifndef ALLOT_GUEST_MEMORY_CONTEXT_LIMITS_H
#define ALLOT_GUEST_MEMORY_CONTEXT_LIMITS_H

#include "guest/account/holder.h"
#include "guest/core/guest.h"

/* cuCtxSetLimit of one of these three, in the current context, which is the device's. */
CUresult context_limits_set(struct guest *guest, struct guest_device *device, CUlimit limit,
			    size_t value);
/* Returns true for one of these three. */
bool context_limits_has(CUlimit limit);

/* The context has ended, with what its limits took. */
void context_limits_forget(struct guest *guest, struct guest_device *device, CUcontext context);

extern const struct holder context_limits_holder;

#endif
