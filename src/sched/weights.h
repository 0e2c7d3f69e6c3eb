/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a device that each tenant has where tenants work at the same time, side by side.
 * Pure.
 */
#ifndef ALLOT_SCHED_WEIGHTS_H
#define ALLOT_SCHED_WEIGHTS_H

#include <stdint.h>

struct part {
	uint32_t cap_permille; /* exactly this, at most 1000; 0: by weight */
	uint32_t weight;       /* at least 1 */
	uint32_t permille;     /* out: 1 to 1000 */
};

/*
 * A tenant with a cap has just that, whatever others want. The others divide by weight what the
 * caps leave, but each has at least its weight's part among all tenants, so the sum may be above
 * 1000. With equal weights, one tenant beside a cap of 500 has 500; two beside it have 333 each,
 * not 250.
 */
void weights_divide(struct part *parts, uint32_t n);

#endif
