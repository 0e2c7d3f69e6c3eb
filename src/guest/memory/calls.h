/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of this process that change what it holds on a device. While one is under way the driver's
 * figure and ours may be of different moments; if none was from before the figure was asked for
 * until after, they fit together:
 *
 *	allocating thread   calls_begin ── driver allocates ── commit ── calls_end
 *	looking thread            seen = calls ── driver's figure ── calls == seen, none under way?
 */
#ifndef ALLOT_GUEST_MEMORY_CALLS_H
#define ALLOT_GUEST_MEMORY_CALLS_H

#include "guest/core/guest.h"

/*
 * guest_device.calls is one word, so that a call pays once for both of its halves: the lower one
 * counts the calls under way, the upper one those that ever began.
 */
static inline void calls_begin(struct guest_device *device)
{
	atomic_fetch_add(&device->calls, (UINT64_C(1) << 32) + 1);
}

static inline void calls_end(struct guest_device *device)
{
	atomic_fetch_sub(&device->calls, 1);
}

/* Of such a word: how many were under way. */
static inline uint32_t calls_under_way(uint64_t calls)
{
	return (uint32_t)calls;
}

#endif
