/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a device's time is on the tenant's bill already: one timeline a device, written by all
 * of the tenant's processes. The device works once for whatever runs at the same time, in streams
 * or in processes, and intervals are measured in any order: a long kernel ends after the short
 * ones beside it. So time is a row of bits, and an interval is billed for those that it sets.
 *
 *	word	number of the turn of the ring | 48 bits, TIMELINE_BIT_NS each
 *
 * A word that an earlier turn of the ring left begins anew. Each word stands for itself: a process
 * that is killed between two of them loses the rest of one interval.
 */
#ifndef ALLOT_LEDGER_TIMELINE_H
#define ALLOT_LEDGER_TIMELINE_H

#include <stdint.h>

/* Two processes' intervals that share less than this may both be billed for it. */
#define TIMELINE_BIT_NS	UINT64_C(8192)
#define TIMELINE_BITS	48
#define TIMELINE_WORDS	8192 /* 3.2 s; what is older counts as not billed yet */

struct timeline {
	uint64_t word[TIMELINE_WORDS];
};

/*
 * The device worked from one instant to the other, in ns of CLOCK_MONOTONIC. Answers how much of
 * that was not on the bill yet, and puts it there. An interval belongs to the bits whose middle it
 * covers, so that intervals behind each other share none; one that covers no middle is new.
 */
uint64_t timeline_add(struct timeline *timeline, uint64_t from_ns, uint64_t to_ns);

/*
 * Returns how much of the time in between is on the bill, by bits whose middle lies in it. Time that is
 * older than the ring counts as not billed.
 */
uint64_t timeline_busy_ns(const struct timeline *timeline, uint64_t from_ns, uint64_t to_ns);

#endif
