/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate in front of work: open, it costs one load; closed, by `allot` for the whole tenant, the launching
 * thread waits on it. The word is the policy's and mapped read-only.
 */
#ifndef ALLOT_PRELOAD_GATE_H
#define ALLOT_PRELOAD_GATE_H

#include "base/atomic.h"
#include "preload/guest.h"

void gate_wait(const uint32_t *gate);

static inline void gate_pass(const struct guest *guest)
{
	if (__builtin_expect(atomic_peek(guest->gate) != POLICY_GATE_OPEN, 0))
		gate_wait(guest->gate);
}

#endif
