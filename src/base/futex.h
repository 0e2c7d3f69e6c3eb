/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that threads sleep on, in memory that processes may share. A thread that wakes up looks
 * again at what it waits for: a wake-up may come for nothing, for instance by a signal.
 */
#ifndef ALLOT_BASE_FUTEX_H
#define ALLOT_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Sleeps while the word is what was seen, until it is woken, or until then by CLOCK_MONOTONIC;
 * UINT64_MAX: without limit.
 */
static inline void futex_wait_until(const void *word, uint32_t seen, uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, until_ns == UINT64_MAX ? NULL : &until,
		NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void futex_wait(const void *word, uint32_t seen)
{
	futex_wait_until(word, seen, UINT64_MAX);
}

static inline void futex_wake_all(const void *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
