/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/longest.h"

#include <stdbool.h>

#include "base/number.h"
#include "sched/tuning.h"

/*
 * From the lowest bit on: the longest of this period, that of the one before, in steps of 65,536 ns,
 * and the number of the period.
 */
#define STEP_SHIFT    16
#define LONGEST_BITS  20
#define LONGEST_MASK  ((UINT64_C(1) << LONGEST_BITS) - 1)
#define PERIOD_SHIFT  (2 * LONGEST_BITS)
#define PERIOD_MASK   (UINT64_MAX >> PERIOD_SHIFT)

/* Reports of several processes come in any order: one of an earlier period counts in this one. */
static bool longest_is_later(uint64_t period, uint64_t than)
{
	uint64_t ahead = (period - than) & PERIOD_MASK;

	return ahead && ahead <= PERIOD_MASK / 2;
}

uint64_t longest_add(uint64_t word, uint64_t now_ns, uint64_t unit_ns)
{
	uint64_t period = now_ns / TUNING_LONGEST_NS & PERIOD_MASK;
	uint64_t steps = min_u64((unit_ns >> STEP_SHIFT) + 1, LONGEST_MASK);
	uint64_t here = word & LONGEST_MASK, before = word >> LONGEST_BITS & LONGEST_MASK;

	if (!word || longest_is_later(period, word >> PERIOD_SHIFT)) {
		before = here;
		here = 0;
	} else {
		period = word >> PERIOD_SHIFT;
	}
	return period << PERIOD_SHIFT | before << LONGEST_BITS | max_u64(here, steps);
}

uint64_t longest_ns(uint64_t word)
{
	return max_u64(word & LONGEST_MASK, word >> LONGEST_BITS & LONGEST_MASK) << STEP_SHIFT;
}
