/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Numbers brought within bounds: the smaller, the larger, and sums that end at a bound. */
#ifndef ALLOT_BASE_NUMBER_H
#define ALLOT_BASE_NUMBER_H

#include <stdint.h>

static inline int64_t clamp_i64(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* a + b, or UINT64_MAX where that would wrap. */
static inline uint64_t sat_add_u64(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* a - b, or 0 where that would wrap. */
static inline uint64_t sat_sub_u64(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

#endif
