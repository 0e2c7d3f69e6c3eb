/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that threads sleep on, in memory that processes may share. A thread that wakes up must
 * check its condition again: a wake-up may have another cause, such as a signal.
 */
#ifndef ALLOT_BASE_FUTEX_H
#define ALLOT_BASE_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Sleeps while the word equals `seen`, until it is woken, or until `until_ns` by CLOCK_MONOTONIC;
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

struct futex_seen {
	const void *word;
	uint32_t seen;
};

#define FUTEX_ANY_MOST 128 /* as many as the kernel takes */

/*
 * Sleeps while all of `n` words equal their `seen`. -ENOSYS, without sleep, where the kernel does not
 * do that: before Linux 5.16, or under a seccomp filter, which answers with any errno.
 */
static inline int futex_wait_any_until(const struct futex_seen *word, int n, uint64_t until_ns)
{
#if defined(SYS_futex_waitv) && defined(FUTEX_32)
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};
	struct futex_waitv any[FUTEX_ANY_MOST];

	n = n < FUTEX_ANY_MOST ? n : FUTEX_ANY_MOST;
	for (int i = 0; i < n; i++)
		any[i] = (struct futex_waitv){
			.uaddr = (uintptr_t)word[i].word, .val = word[i].seen, .flags = FUTEX_32};
	if (syscall(SYS_futex_waitv, any, n, 0, until_ns == UINT64_MAX ? NULL : &until,
		    CLOCK_MONOTONIC) >= 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR)
		return 0;
#endif
	return -ENOSYS;
}

static inline void futex_wake_all(const void *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
