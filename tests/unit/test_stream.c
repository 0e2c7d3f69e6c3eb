/* SPDX-License-Identifier: Apache-2.0 */
/* A copy that goes past the caches: of any length, between any two places, and no more than that. */
#include "base/stream.h"

#include <stdbool.h>

#include "tests/check.h"

#define PAGES (STREAM_PAGES * STREAM_PAGE)
#define ROOM  (2 * PAGES + 4096)

static char from[ROOM] __attribute__((aligned(64))), to[ROOM] __attribute__((aligned(64)));

static char left(size_t i)
{
	return (char)(i * 13 + 7);
}

static void check_copy(size_t source, size_t target, size_t bytes)
{
	size_t wrong = 0;

	for (size_t i = 0; i < ROOM; i++)
		to[i] = left(i);
	stream_copy(to + target, from + source, bytes);
	for (size_t i = 0; i < ROOM; i++) {
		bool inside = i >= target && i < target + bytes;

		wrong += to[i] != (inside ? from[source + i - target] : left(i));
	}
	CHECK_EQ(wrong, 0);
}

int main(void)
{
	for (size_t i = 0; i < ROOM; i++)
		from[i] = (char)(i * i >> 3 ^ i);
	for (size_t bytes = 0; bytes < 300; bytes++)
		for (size_t at = 0; at < 64; at += 1 + bytes % 7) {
			check_copy(at, at, bytes);
			check_copy(at, 64 - at, bytes);
		}
	/* By several pages at a time, and what is left. */
	for (size_t bytes = PAGES - 64; bytes < ROOM - 64; bytes += 16411) {
		check_copy(0, 0, bytes);
		check_copy(48, 16, bytes);
		check_copy(1, 0, bytes);
	}
	check_copy(0, 0, ROOM);
	return 0;
}
