/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of this process that change what it holds on a device. While one is under way the driver's
 * figure and ours may be of different moments; if none was from before the figure was asked for
 * until after, they fit together:
 *
 *	allocating thread   calls_begin ── driver allocates ── commit ── calls_end
 *	looking thread            seen = calls ── driver's figure ── calls == seen, none under way?
 *
 * A call that ends a context takes away what other calls were just given, or are about to free. So
 * it goes alone: it lets those that are under way come to their end, and those that come meanwhile
 * wait. It is no lock, for both waits end after a while, and then go on all the same.
 *
 *	ending thread       calls_begin_alone ── driver ends the context ── forget it ── calls_end_alone
 *	allocating thread         calls_begin ──────────── waits ───────────────────────► driver ...
 */
#ifndef ALLOT_GUEST_ACCOUNT_CALLS_H
#define ALLOT_GUEST_ACCOUNT_CALLS_H

#include "guest/account/state.h"
#include "guest/core/guest.h"

/* Begun by this thread and not ended, on whichever device. */
extern _Thread_local unsigned int calls_depth __attribute__((tls_model("initial-exec")));

/* Until no thread goes alone on the device, or long enough. */
void calls_await(struct guest_device *device);

void calls_begin_alone(struct guest_device *device);
void calls_end_alone(struct guest_device *device);

/*
 * account_device.calls is one word, so that a call pays once for both of its halves: the lower one
 * counts the calls under way, the upper one those that ever began. A call within a call of the same
 * thread waits for nobody, since who goes alone waits for the outer one.
 */
#define CALLS_ONE_MORE ((UINT64_C(1) << 32) + 1)

/*
 * The number that a call of this thread adds. In a look at the driver's figure the thread also takes
 * off memory that the driver has taken back by itself. These calls are counted as under way alone,
 * so that no look is spoiled by its own housekeeping; the look compares the charges before and
 * after it.
 */
#define CALLS_HOUSEKEEPING UINT64_C(1)
extern _Thread_local uint64_t calls_step __attribute__((tls_model("initial-exec")));

/* The device on which this thread goes alone, or NULL. */
extern _Thread_local const struct guest_device *calls_alone
	__attribute__((tls_model("initial-exec")));

static inline void calls_begin(struct guest_device *device)
{
	atomic_fetch_add(&device->account->calls, calls_step);
	if (calls_depth++ == 0 && __builtin_expect(atomic_load(&device->account->alone) != 0, 0))
		calls_await(device);
}

static inline void calls_end(struct guest_device *device)
{
	atomic_fetch_sub(&device->account->calls, 1);
	calls_depth--;
}

/* Of such a word: how many were under way. */
static inline uint32_t calls_under_way(uint64_t calls)
{
	return (uint32_t)calls;
}

#endif
