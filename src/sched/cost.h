/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a launch takes, learned from measuring it: by function and its number of blocks, or by
 * executable graph, and over all. It bounds the work in flight; no bill has it in it. The thread
 * that learns holds a lock of its caller's. Asking needs none: an answer that is read while a key
 * takes another's place may be the other's.
 */
#ifndef ALLOT_SCHED_COST_H
#define ALLOT_SCHED_COST_H

#include <stdbool.h>
#include <stdint.h>

#define COST_ENTRIES 2048 /* a power of two */

struct cost {
	_Atomic uint64_t key;
	_Atomic uint64_t ns;
	_Atomic uint64_t uses; /* since it was last measured, or was to be, by itself */
	_Atomic uint64_t used_ns; /* when its time was learned, or last believed */
};

struct costs {
	struct cost entry[COST_ENTRIES];
	_Atomic uint64_t mean_ns;
};

/*
 * A function does more in more blocks: the key of its launches of about as many, which is within a
 * third.
 */
static inline uint64_t cost_key(uint64_t function, uint64_t blocks)
{
	unsigned int high = 63 - (unsigned int)__builtin_clzll(blocks | 1);
	uint64_t half = high ? blocks >> (high - 1) & 1 : 0;

	return function ^ (uint64_t)(high * 2 + half) << 56;
}

/* The expected time of a launch of `key` (not 0); 0: none was measured. */
uint64_t cost_expect(const struct costs *costs, uint64_t key);

/*
 * The same of one that is launched now; 0, too, where none was for TUNING_FORGET_NS: until the next
 * is measured. *ret_alone: it should be measured by itself, since none was, or not for many
 * launches: among others it tells nothing.
 */
uint64_t cost_use(struct costs *costs, uint64_t key, uint64_t now_ns, bool *ret_alone);

/*
 * `n` launches, all of `key` (0: of several), took `took_ns` together. `waits`: they may have
 * waited for something else meanwhile, so the least is believed; otherwise the most, since too much
 * in flight does the harm.
 */
void cost_learn(struct costs *costs, uint64_t key, uint32_t n, uint64_t took_ns, uint64_t now_ns,
		bool waits);

/* The measure of `key` (0: of none) is in doubt: the next launch of it is measured by itself. */
void cost_doubt(struct costs *costs, uint64_t key);

/* The average time of a launch of any key; 0: nothing was measured yet. */
uint64_t cost_mean(const struct costs *costs);

/* A launch of `key` was among others that took `most_ns` together: it took no longer itself. */
void cost_bound(struct costs *costs, uint64_t key, uint64_t most_ns);

#endif
