/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Time in ns: units, clocks, and sleep. */
#ifndef ALLOT_BASE_NOW_H
#define ALLOT_BASE_NOW_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

/*
 * Sleeps for less than a second, or until a signal's handler has run. It is no cancellation point, as
 * libc's nanosleep is: a thread of the program may nap in the middle of a call.
 */
static inline void nap_ns(long ns)
{
	syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = ns}, NULL);
}

#endif
