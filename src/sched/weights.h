/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What part of a device each of its tenants has where they work at the same time, each on its own
 * part. Pure.
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
 * Who has a cap has that, whatever others want. The others divide by weight what caps leave, and
 * each has at least its weight's part among all; so the sum is above 1000 where caps leave less.
 */
void weights_divide(struct part *parts, uint32_t n);

#endif
