/* SPDX-License-Identifier: Apache-2.0 */
/* Time in ns: units, and clocks. */
#ifndef ALLOT_BASE_NOW_H
#define ALLOT_BASE_NOW_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static inline uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* All processes of a machine share both clocks. The second continues while the machine sleeps. */
static inline uint64_t now_monotonic_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

/* The processor time of this thread. */
static inline uint64_t now_thread_ns(void)
{
	return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t now_boot_ns(void)
{
	return now_ns(CLOCK_BOOTTIME);
}

#endif
