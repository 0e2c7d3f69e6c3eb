/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/look.h"

struct look_seen sim_look(const void *granule, const struct look_key *key)
{
	struct look_seen seen = {.word = *(const uint32_t *)granule};

	for (uint32_t t = 0; t < LOOK_THREADS; t++) {
		const uint32_t *w = (const uint32_t *)granule + (uint64_t)t * 4, *s = &key->sums[t * 4];
		uint64_t sum[2] = {0};

		for (uint32_t i = 0; i < LOOK_STEPS; i++, w += LOOK_THREADS * 4) {
			const uint32_t *k = &key->words[i * 4];

			for (uint32_t n = 0; n < 2; n++, k += 2)
				sum[n] += (uint64_t)(w[0] + k[0]) * (w[1] + k[1]) +
					  (uint64_t)(w[2] + k[2]) * (w[3] + k[3]);
			seen.differs |= (w[0] ^ seen.word) | (w[1] ^ seen.word) |
					(w[2] ^ seen.word) | (w[3] ^ seen.word);
		}
		for (uint32_t n = 0; n < 2; n++)
			seen.hash[n] += (uint64_t)((uint32_t)sum[n] + s[2 * n]) *
					((uint32_t)(sum[n] >> 32) + s[2 * n + 1]);
	}
	return seen;
}
