/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that one thread of the process does while others wait for it. The first thread begins, the
 * others sleep until it has ended:
 *
 *	first thread  once_begin: true ── does it ── once_end(error)
 *	others        once_begin ──────── sleep ───► false: `error` is there
 */
#ifndef ALLOT_GUEST_PROCESS_ONCE_H
#define ALLOT_GUEST_PROCESS_ONCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum once_state { ONCE_NOT_YET, ONCE_UNDER_WAY, ONCE_DONE };

/* Zeroed: nobody has begun. */
struct once {
	_Atomic uint32_t state; /* enum once_state; a futex */
	int error;		/* what it came to, 0 or -errno; valid once it is done */
};

/* True if the caller is the first, and so has to do it. Waits for nothing. */
bool once_take(struct once *once);

/* The same, but a caller that is not the first returns when it is done. */
bool once_begin(struct once *once);

/* Wakes all who wait. */
void once_end(struct once *once, int error);

/*
 * Waits while it is under way, until then by CLOCK_MONOTONIC; false: it is still under way. True
 * also if nobody has begun.
 */
bool once_wait_until(struct once *once, uint64_t until_ns);

#endif
