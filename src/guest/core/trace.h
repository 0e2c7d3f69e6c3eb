/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's record of what it decides, where its tenant is traced: ledger/trace/trace.h. Off, an
 * event costs one load and a branch, and its numbers are not computed.
 */
#ifndef ALLOT_GUEST_CORE_TRACE_H
#define ALLOT_GUEST_CORE_TRACE_H

#include "guest/core/guest.h"
#include "ledger/trace/trace.h"

static inline bool trace_is_on(const struct guest *guest)
{
	return __builtin_expect(
		atomic_load_explicit(&guest->trace.to, memory_order_relaxed) != NULL, 0);
}

/* trace(guest, TRACE_HELD, device, a, b, c): see trace_put. Any thread. */
#define trace(guest, ...)                                                                        \
	do {                                                                                     \
		if (trace_is_on(guest))                                                          \
			trace_to(atomic_load_explicit(&(guest)->trace.to, memory_order_acquire),    \
				 __VA_ARGS__);                                                   \
	} while (0)

void trace_follow_policy(struct guest *guest);

/*
 * Begins or ends the record, if the policy says something else than when this was last called. Makes
 * a file: not for a thread that holds a lock, or that is in the middle of a launch.
 */
static inline void trace_follow(struct guest *guest)
{
	if (__builtin_expect(atomic_load_explicit(&guest->trace.generation, memory_order_relaxed) !=
				     guest_generation(guest),
			     0))
		trace_follow_policy(guest);
}

#endif
