/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a tenant's work waited for its turns over the last minute: a histogram for every 10 s.
 * Pure.
 */
#ifndef ALLOT_SCHED_WAITS_H
#define ALLOT_SCHED_WAITS_H

#include <stdint.h>

#define WAITS_PERIODS 6
/* Eight for each power of two, up to 16 s: a percentile is at most an eighth too large. */
#define WAITS_BUCKETS	 176
#define WAITS_NAME_BYTES 64

/* All zero in the beginning. */
struct waits {
	struct waits_period {
		uint64_t number; /* 1 + of the 10 s; 0: it is empty */
		uint32_t n[WAITS_BUCKETS];
		uint32_t longest_us, behind_us;
		char behind[WAITS_NAME_BYTES];
	} period[WAITS_PERIODS];
};

struct waits_sum {
	uint32_t n, p50_us, p99_us, longest_us;
	/* Of the longest: the longest turn of another tenant meanwhile, and its tenant. */
	uint32_t behind_us;
	char behind[WAITS_NAME_BYTES];
};

void waits_add(struct waits *waits, uint64_t now_ns, uint64_t waited_ns, const char *behind,
	       uint64_t behind_ns);
void waits_sum(const struct waits *waits, uint64_t now_ns, struct waits_sum *ret);

#endif
