/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a with 64 bits (http://www.isthe.com/chongo/tech/comp/fnv): names, keys, and sums that find
 * damage. It is no protection against forgery.
 */
#ifndef ALLOT_BASE_HASH_H
#define ALLOT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED UINT64_C(14695981039346656037)

/* One step. The function is of bytes; with whole words it is as good a sum, eight times as fast. */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
	return (hash ^ word) * UINT64_C(1099511628211);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		hash = hash_word(hash, p[i]);
	return hash;
}

static inline uint64_t hash_string(uint64_t hash, const char *s)
{
	for (; *s; s++)
		hash = hash_word(hash, (unsigned char)*s);
	return hash;
}

/* For a table: each bit of the answer depends on all bits of the word (splitmix64's finisher). */
static inline uint64_t hash_mix(uint64_t word)
{
	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}

#endif
