/* SPDX-License-Identifier: Apache-2.0 */
/* The time, in ns. */
#ifndef ALLOT_BASE_NOW_H
#define ALLOT_BASE_NOW_H

#include <stdint.h>
#include <time.h>

/* By CLOCK_MONOTONIC, which all processes of a machine share. */
static inline uint64_t now_monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

#endif
