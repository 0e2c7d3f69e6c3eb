/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long what is launched takes, learned from measuring it: by function and its number of
 * blocks, or executable graph, and over all. Only a guess, to bound the work in flight by; what is
 * billed is measured. Who learns holds the lock of the device whose costs these are; to ask, nobody
 * needs it: who asks while a key takes another's place may have the guess for that one.
 */
#ifndef ALLOT_PRELOAD_COST_H
#define ALLOT_PRELOAD_COST_H

#include <stdbool.h>
#include <stdint.h>

#define COST_ENTRIES 512 /* a power of two */

struct cost {
	uint64_t key;
	uint32_t ns;   /* at most 4 s, which is as good as for ever */
	uint32_t uses; /* since it was last measured, or was to be, on its own */
};

struct costs {
	struct cost entry[COST_ENTRIES];
	uint32_t mean_ns; /* 0: nothing was measured yet */
	/* What launches of several keys take together, of what they take alone; 0: as much. */
	uint32_t mixed_permille;
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

/*
 * What a launch of `key` (not 0) is expected to take, in ns. *ret_known: it was measured, and not
 * only others were.
 */
uint64_t cost_expect(const struct costs *costs, uint64_t key, bool *ret_known);

/* The same of one that is launched now. *ret_alone: it should be measured by itself. */
uint64_t cost_use(struct costs *costs, uint64_t key, bool *ret_known, bool *ret_alone);

/*
 * `n` launches, all of `key` (0: of several), took `ns` together, of which `expected_ns` were
 * expected (0: not of all). `beside`: some of that may have been the time of other processes, which
 * have the device in between; so the least is believed.
 */
void cost_learn(struct costs *costs, uint64_t key, uint32_t n, uint64_t ns, uint64_t expected_ns,
		bool beside);

#endif
