/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_TESTS_E2E_SWAP_REST_H
#define ALLOT_TESTS_E2E_SWAP_REST_H

#include "base/now.h"

#define REST_MOST_NS (10 * NS_PER_MS) /* a half of what counts as idle: TUNING_RESIDENCY_IDLE_NS */

/*
 * Sleeps for twice as long as this process has computed since it last slept, as `since` says, but not
 * for long. Simulated devices compute on processors, and programs that never rest have all of these
 * while they wait for each other's turns to end.
 */
static inline void rest(uint64_t *since)
{
	uint64_t had_ns = 2 * (now_ns(CLOCK_PROCESS_CPUTIME_ID) - *since);

	nap_ns((long)(had_ns < REST_MOST_NS ? had_ns : REST_MOST_NS));
	*since = now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
