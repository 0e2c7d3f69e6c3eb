/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few orderings that memory shared with other processes needs, each named after what it
 * does. Peers are untrusted: load once into a local, check the local, use the local.
 */
#ifndef ALLOT_BASE_ATOMIC_H
#define ALLOT_BASE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* A value on its own: orders nothing. */
#define atomic_peek(ptr) __atomic_load_n((ptr), __ATOMIC_RELAXED)
#define atomic_poke(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_RELAXED)

/* What was written before atomic_release is seen by who reads its value with atomic_acquire. */
#define atomic_acquire(ptr) __atomic_load_n((ptr), __ATOMIC_ACQUIRE)
#define atomic_release(ptr, value) __atomic_store_n((ptr), (value), __ATOMIC_RELEASE)

/*
 * Publish, then check: of two processes that each atomic_publish and then atomic_check the
 * other's word, at least one sees the other. That needs a total order of all four (x86 would
 * otherwise let the load pass the store in the store buffer).
 */
#define atomic_publish_add(ptr, value) __atomic_fetch_add((ptr), (value), __ATOMIC_SEQ_CST)
#define atomic_check(ptr) __atomic_load_n((ptr), __ATOMIC_SEQ_CST)

/* Sets or clears bits; full order, answers the old value. */
#define atomic_set_bits(ptr, bits) __atomic_fetch_or((ptr), (bits), __ATOMIC_SEQ_CST)
#define atomic_clear_bits(ptr, bits) __atomic_fetch_and((ptr), ~(bits), __ATOMIC_SEQ_CST)

static inline bool atomic_swap_if_u64(uint64_t *ptr, uint64_t expected, uint64_t desired)
{
	return __atomic_compare_exchange_n(ptr, &expected, desired, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/*
 * Subtracts, stopping at zero, so that releasing more than was taken cannot wrap a counter to
 * 2^64 and lock everybody else out. Release: what came before is seen by who acquires the result.
 * Answers how much was really subtracted.
 */
static inline uint64_t atomic_sub_floor(uint64_t *ptr, uint64_t value)
{
	uint64_t old = __atomic_load_n(ptr, __ATOMIC_RELAXED), cut;

	do {
		cut = old < value ? old : value;
	} while (!__atomic_compare_exchange_n(ptr, &old, old - cut, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	return cut;
}

/* Raises *ptr to at least `value`. Totally ordered with publish and check. */
static inline void atomic_raise_u32(uint32_t *ptr, uint32_t value)
{
	uint32_t old = __atomic_load_n(ptr, __ATOMIC_SEQ_CST);

	while (old < value && !__atomic_compare_exchange_n(ptr, &old, value, true, __ATOMIC_SEQ_CST,
							   __ATOMIC_SEQ_CST))
		;
}

static inline void atomic_raise_u64(uint64_t *ptr, uint64_t value)
{
	uint64_t old = __atomic_load_n(ptr, __ATOMIC_RELAXED);

	while (old < value && !__atomic_compare_exchange_n(ptr, &old, value, true, __ATOMIC_SEQ_CST,
							   __ATOMIC_RELAXED))
		;
}

#endif
