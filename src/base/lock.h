/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for a handful of instructions inside one process: a futex, so that it needs no library, no
 * initialisation and no memory of its own. Never held across a system call or a call of another
 * library's code; a forked child does not use its parent's.
 *
 * A lock is declared by its rank: `struct lock_backing lock;`. A thread that holds a lock takes only
 * locks that stand further down in LOCK_RANKS, so no two threads wait for each other. A build for
 * debugging, or with a sanitizer, stops a program that does otherwise; any other build has neither
 * the checks nor a byte for them.
 */
#ifndef ALLOT_BASE_LOCK_H
#define ALLOT_BASE_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_RANKS(X)                                                                     \
	X(own_pools)	 /* pools, slabs and whose order they were freed in, of a device */ \
	X(backing)	 /* pieces of movable memory */                                     \
	X(capturing)	 /* streams that capture */                                         \
	X(amd_files)	 /* marks of files of /dev/kfd; objects are swept with it */        \
	X(amd_queues)	 /* queues and what they are held to */                             \
	X(amd_ranges)	 /* ranges of SVM */                                                \
	X(amd_addresses) /* addresses that are given out */                                 \
	X(meter)	 /* streams, intervals and what is in flight */                     \
	X(opencl)	 /* devices that OpenCL drivers named */                            \
	X(host_nodes)	 /* host functions of graphs that ran */                            \
	X(objects)	 /* a shard of the table of objects */                              \
	X(spare)	 /* the process's words on kept memory, in the ledger */

#define LOCK_RANK(name) LOCK_RANK_##name,
enum lock_rank { LOCK_RANKS(LOCK_RANK) LOCK_RANK_COUNT };
#undef LOCK_RANK

/* 0 free, 1 held, 2 held and a thread may be waiting. */
struct lock {
	_Atomic uint32_t word;
};

/* The type carries the rank, in an array without elements. */
#define LOCK_TYPE(name)                                   \
	struct lock_##name {                              \
		struct lock lock;                         \
		char rank_[0][1 + LOCK_RANK_##name]; \
	};
LOCK_RANKS(LOCK_TYPE)
#undef LOCK_TYPE
#define LOCK_RANK_OF(of) ((enum lock_rank)(sizeof((of)->rank_[0]) - 1))

#ifdef ALLOT_LOCK_RANKS
/* Each ends the process, and says which locks are involved, if the order is broken. */
void lock_rank_take(enum lock_rank rank);
void lock_rank_drop(enum lock_rank rank);
/* In front of what no lock is held across. */
void lock_rank_none(const char *what);
#else
static inline void lock_rank_take(enum lock_rank rank)
{
}
static inline void lock_rank_drop(enum lock_rank rank)
{
}
static inline void lock_rank_none(const char *what)
{
}
#endif

#define lock_take(of)                                 \
	do {                                          \
		lock_rank_take(LOCK_RANK_OF(of)); \
		lock_word_take(&(of)->lock);      \
	} while (0)

#define lock_drop(of)                                 \
	do {                                          \
		lock_word_drop(&(of)->lock);      \
		lock_rank_drop(LOCK_RANK_OF(of)); \
	} while (0)

static inline void lock_word_take(struct lock *lock)
{
	uint32_t seen = 0;

	if (atomic_compare_exchange_strong_explicit(&lock->word, &seen, 1, memory_order_acquire,
						    memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire))
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static inline void lock_word_drop(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
