/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sum for a stretch of time, in a ring of such words: the stretch's number stands above it, so that a
 * word that an earlier turn of the ring left begins anew, and nobody has to clear it.
 */
#ifndef ALLOT_SIM_NUMBERED_H
#define ALLOT_SIM_NUMBERED_H

#include <stdatomic.h>
#include <stdint.h>

#define SIM_NUMBERED_SHIFT 28
#define SIM_NUMBERED_MOST  ((1ull << SIM_NUMBERED_SHIFT) - 1)

/* The sum of stretch `k`; 0 for one that is not kept any more. */
static inline uint64_t sim_numbered_sum(const _Atomic uint64_t *at, uint64_t k)
{
	uint64_t word = atomic_load_explicit(at, memory_order_relaxed);

	return word >> SIM_NUMBERED_SHIFT == k ? word & SIM_NUMBERED_MOST : 0;
}

/* Adds to stretch `k`, up to `most`. A word that a later one has by now stays. Any thread. */
static inline void sim_numbered_add(_Atomic uint64_t *at, uint64_t k, uint64_t more, uint64_t most)
{
	uint64_t old = atomic_load_explicit(at, memory_order_relaxed), sum;

	do {
		if (old >> SIM_NUMBERED_SHIFT > k)
			break;
		sum = more + (old >> SIM_NUMBERED_SHIFT == k ? old & SIM_NUMBERED_MOST : 0);
		sum = sum < most ? sum : most;
	} while (!atomic_compare_exchange_weak_explicit(at, &old, k << SIM_NUMBERED_SHIFT | sum,
							memory_order_relaxed, memory_order_relaxed));
}

#endif
