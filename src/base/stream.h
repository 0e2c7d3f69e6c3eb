/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As memcpy, for large blocks that nobody reads soon: the stores bypass the caches, where the
 * processor can. Otherwise it would first read the lines that are overwritten, and evict the
 * content of the caches. It copies several pages at a time: more loads are under way then, since a
 * processor fetches ahead only within a page.
 */
#ifndef ALLOT_BASE_STREAM_H
#define ALLOT_BASE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STREAM_LINE  64
#define STREAM_PAGE  4096
#define STREAM_PAGES 8

#ifdef __SSE2__
#include <emmintrin.h>

/* Coverage counters in here would take ten times as long as the copies. */
#define STREAM_UNCOUNTED __attribute__((no_profile_instrument_function))

STREAM_UNCOUNTED static inline void stream_line(char *to, const char *from)
{
	const __m128i *source = (const __m128i *)from;
	__m128i *target = (__m128i *)to;

	for (int i = 0; i < STREAM_LINE / (int)sizeof(__m128i); i++)
		_mm_stream_si128(target + i, _mm_load_si128(source + i));
}

STREAM_UNCOUNTED static inline void stream_pages(char *to, const char *from)
{
	for (size_t line = 0; line < STREAM_PAGE; line += STREAM_LINE)
		for (size_t page = 0; page < STREAM_PAGES; page++)
			stream_line(to + page * STREAM_PAGE + line, from + page * STREAM_PAGE + line);
}

/* Whole lines; behind it they are seen in order. How much that was. */
STREAM_UNCOUNTED static inline size_t stream_lines(char *to, const char *from, size_t bytes)
{
	size_t done = 0;

	if (((uintptr_t)to | (uintptr_t)from) % sizeof(__m128i))
		return 0;
	for (; done + STREAM_PAGES * STREAM_PAGE <= bytes; done += STREAM_PAGES * STREAM_PAGE)
		stream_pages(to + done, from + done);
	for (; done + STREAM_LINE <= bytes; done += STREAM_LINE)
		stream_line(to + done, from + done);
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
