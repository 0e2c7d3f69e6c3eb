/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of memory that others change concurrently: fields of fixed width in files that processes
 * share. Every access is one of these, and each names its order and its counterpart. The other side
 * is not trusted: read a word once into a local, check the local, use the local.
 *
 * A process's private words are C11's _Atomic. That type is not for shared files: the compiler
 * chooses its size and its representation.
 */
#ifndef ALLOT_BASE_WORD_H
#define ALLOT_BASE_WORD_H

#include <stdbool.h>
#include <stdint.h>

/* A word that says something on its own. Orders nothing, pairs with nothing. */
#define word_read(ptr) __atomic_load_n((ptr), __ATOMIC_RELAXED)
#define word_write(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_RELAXED)

/* Counts that nobody decides by. Each answers the old value; orders nothing. */
#define word_add(ptr, value) __atomic_fetch_add((ptr), (value), __ATOMIC_RELAXED)
#define word_sub(ptr, value) __atomic_fetch_sub((ptr), (value), __ATOMIC_RELAXED)

/*
 * A word that tells that others are ready. A word_acquire that reads the value of a word_release
 * sees everything that was written before that release.
 *
 *	writer				reader
 *	word_write(&row->bytes, n)
 *	word_release(&row->state, 1)	word_acquire(&row->state) == 1
 *					word_read(&row->bytes) == n
 */
#define word_acquire(ptr) __atomic_load_n((ptr), __ATOMIC_ACQUIRE)
#define word_release(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_RELEASE)

/*
 * Publish, then check: of two processes that each publish a word and then check the other's word,
 * at least one sees the other. That needs a total order of all four (x86 would otherwise let the
 * load pass the store in the store buffer). Every publish pairs with every check.
 */
#define word_publish(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_SEQ_CST)
#define word_publish_add(ptr, value) __atomic_fetch_add((ptr), (value), __ATOMIC_SEQ_CST)
#define word_publish_swap(ptr, value) __atomic_exchange_n((ptr), (value), __ATOMIC_SEQ_CST)
#define word_check(ptr) __atomic_load_n((ptr), __ATOMIC_SEQ_CST)
/* The same order between other stores before it and other loads behind it. */
#define word_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Sets or clears bits; published, and answers the old value. */
#define word_set_bits(ptr, bits) __atomic_fetch_or((ptr), (bits), __ATOMIC_SEQ_CST)
#define word_clear_bits(ptr, bits) __atomic_fetch_and((ptr), ~(bits), __ATOMIC_SEQ_CST)

/* Published if it succeeds: the word was `expected` and is `desired` now. */
static inline bool word_swap_if(uint64_t *ptr, uint64_t expected, uint64_t desired)
{
	return __atomic_compare_exchange_n(ptr, &expected, desired, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static inline bool word_swap_if_u32(uint32_t *ptr, uint32_t expected, uint32_t desired)
{
	return __atomic_compare_exchange_n(ptr, &expected, desired, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/*
 * Subtracts, but not below zero, so that releasing more than was taken cannot wrap a counter to
 * 2^64 and lock everybody else out. A release: an acquire or check of the result sees all that came
 * before. Returns the number that was really subtracted.
 */
static inline uint64_t word_sub_floor(uint64_t *ptr, uint64_t value)
{
	uint64_t old = __atomic_load_n(ptr, __ATOMIC_RELAXED), cut;

	do {
		cut = old < value ? old : value;
	} while (!__atomic_compare_exchange_n(ptr, &old, old - cut, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	return cut;
}

/* Raises *ptr to at least `value`. Published, and pairs with word_check. */
static inline void word_raise_u32(uint32_t *ptr, uint32_t value)
{
	uint32_t old = __atomic_load_n(ptr, __ATOMIC_SEQ_CST);

	while (old < value && !__atomic_compare_exchange_n(ptr, &old, value, true, __ATOMIC_SEQ_CST,
							   __ATOMIC_SEQ_CST))
		;
}

static inline void word_raise_u64(uint64_t *ptr, uint64_t value)
{
	uint64_t old = __atomic_load_n(ptr, __ATOMIC_RELAXED);

	while (old < value && !__atomic_compare_exchange_n(ptr, &old, value, true, __ATOMIC_SEQ_CST,
							   __ATOMIC_RELAXED))
		;
}

#endif
