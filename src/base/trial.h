/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mechanisms of which a measurement shows what each wins. A build with the option `trials` does
 * without the one that ALLOT_WITHOUT names (tests/gpu/parts/swap_turns.py). Any other build reads
 * no such variable: trial_has is a constant.
 */
#ifndef ALLOT_BASE_TRIAL_H
#define ALLOT_BASE_TRIAL_H

#include <stdbool.h>

#ifdef ALLOT_TRIALS
#include <stdlib.h>
#include <string.h>

static inline bool trial_has(const char *mechanism)
{
	const char *without = getenv("ALLOT_WITHOUT");

	return !without || strcmp(without, mechanism) != 0;
}
#else
#define trial_has(mechanism) true
#endif

#endif
