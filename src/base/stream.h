/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As memcpy, for much that nobody reads soon: what is written goes past the caches, where the
 * processor can. Else it would read first what is written over, and what is in the caches would go.
 */
#ifndef ALLOT_BASE_STREAM_H
#define ALLOT_BASE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/* Whole lines; behind it they are seen in order. How much that was. */
static inline size_t stream_lines(char *to, const char *from, size_t bytes)
{
	size_t done;

	if (((uintptr_t)to | (uintptr_t)from) % sizeof(__m128i))
		return 0;
	for (done = 0; done + 4 * sizeof(__m128i) <= bytes; done += 4 * sizeof(__m128i)) {
		const __m128i *source = (const __m128i *)(from + done);
		__m128i *target = (__m128i *)(to + done);

		for (int i = 0; i < 4; i++)
			_mm_stream_si128(target + i, _mm_load_si128(source + i));
	}
	_mm_sfence();
	return done;
}
#else
static inline size_t stream_lines(char *to, const char *from, size_t bytes)
{
	return 0;
}
#endif

static inline void stream_copy(char *to, const char *from, size_t bytes)
{
	size_t done = stream_lines(to, from, bytes);

	memcpy(to + done, from + done, bytes - done);
}

#endif
