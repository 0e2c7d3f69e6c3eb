/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for a handful of instructions inside one process: a futex, so that it needs no library, no
 * initialisation and no memory of its own. Never held across a system call or a call of another
 * library's code; a forked child does not use its parent's.
 */
#ifndef ALLOT_BASE_LOCK_H
#define ALLOT_BASE_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 0 free, 1 held, 2 held and a thread may be waiting. */
struct lock {
	_Atomic uint32_t word;
};

static inline void lock_take(struct lock *lock)
{
	uint32_t seen = 0;

	if (atomic_compare_exchange_strong_explicit(&lock->word, &seen, 1, memory_order_acquire,
						    memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire))
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static inline void lock_drop(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
