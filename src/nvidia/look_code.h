/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that look.c has a device run, as text that any driver compiles for any device (PTX, from
 * sm_50 on). A block of LOOK_THREADS threads hashes granules, one after the other, and sees which are
 * one repeated word. The key is in host memory: each block reads it once.
 *
 *	for each thread t and step i: four words w of the granule, at byte (i * LOOK_THREADS + t) * 16
 *		sum[0] += (w0 + k[4i])     * (w1 + k[4i + 1]) + (w2 + k[4i + 2]) * (w3 + k[4i + 3])
 *		sum[1] += (w0 + k[4i + 2]) * (w1 + k[4i + 3]) + (w2 + k[4i + 4]) * (w3 + k[4i + 5])
 *	hash[n] = sum over t of (low(sum[n]) + s[4t + 2n]) * (high(sum[n]) + s[4t + 2n + 1])
 *
 * Sums of words wrap at 32 bits, products and their sums at 64. That is NH of UMAC (Black, Halevi,
 * Krawczyk, Krovetz, Rogaway: "UMAC: Fast and Secure Message Authentication", 1999), twice and by two
 * keys: two contents that nobody chose by the key have the same hash with a chance of at most 2^-62.
 */
#ifndef ALLOT_NVIDIA_LOOK_CODE_H
#define ALLOT_NVIDIA_LOOK_CODE_H

#include <stdint.h>

#define LOOK_BYTES   (UINT64_C(2) << 20) /* of a granule */
#define LOOK_THREADS 256
#define LOOK_STEPS   (LOOK_BYTES / LOOK_THREADS / 16)

/*
 * The kernel: (const uint64_t *granules, struct look_seen *seen, const struct look_key *key, uint32_t n).
 * Of as many blocks as there are granules at most.
 */
#define LOOK_NAME "allot_look"

/* Random words. Behind the last step's are two more, by which the second sum is ahead. */
struct look_key {
	uint32_t words[LOOK_STEPS * 4 + 4];
	uint32_t sums[LOOK_THREADS * 4];
};

/* Of a granule. */
struct look_seen {
	uint64_t hash[2];
	uint32_t word;	  /* the first one */
	uint32_t differs; /* bits in which any other one differs from it; 0: it is that word, repeated */
};

extern const char look_code[];

#endif
