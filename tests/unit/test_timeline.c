/* SPDX-License-Identifier: Apache-2.0 */
/* The device's time is billed once, in whatever order its intervals are told. */
#include "ledger/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "tests/check.h"

#define US NS_PER_US
#define MS NS_PER_MS
#define SECOND (1000 * MS)

static struct timeline timeline;

static void fresh(void)
{
	memset(&timeline, 0, sizeof(timeline));
}

static void about(uint64_t is, uint64_t should, uint64_t off)
{
	CHECK(is <= should + off && should <= is + off);
}

static void check_order(void)
{
	const uint64_t t = 1000 * SECOND;

	/* Behind each other: exactly what they are, however brief. */
	fresh();
	for (uint64_t i = 0, sum = 0; i < 100000; i++) {
		sum += timeline_add(&timeline, t + i * 3333, t + (i + 1) * 3333);
		CHECK_EQ(sum, (i + 1) * 3333);
	}
	/* A long one that ends after the short ones beside it, and the other way around. */
	fresh();
	CHECK_EQ(timeline_add(&timeline, t + 10 * MS, t + 12 * MS), 2 * MS);
	about(timeline_add(&timeline, t, t + 50 * MS), 48 * MS, 20 * US);
	CHECK_EQ(timeline_add(&timeline, t + 20 * MS, t + 30 * MS), 0);
	about(timeline_add(&timeline, t + 45 * MS, t + 55 * MS), 5 * MS, 20 * US);
	CHECK_EQ(timeline_add(&timeline, t + 5 * MS, t + 5 * MS), 0);
	CHECK_EQ(timeline_add(&timeline, t + 6 * MS, t + 5 * MS), 0);
}

/* Once around the ring, and more: nothing of before is taken for now. */
static void check_ring(void)
{
	const uint64_t turn = TIMELINE_WORDS * TIMELINE_BITS * TIMELINE_BIT_NS;

	fresh();
	for (uint64_t i = 0; i < 5; i++) {
		CHECK_EQ(timeline_add(&timeline, i * turn + MS, i * turn + 3 * MS), 2 * MS);
		CHECK_EQ(timeline_add(&timeline, i * turn + MS, i * turn + 3 * MS), 0);
	}
	/* What is told so late that its place was written over is billed, and hides nothing. */
	CHECK_EQ(timeline_add(&timeline, 3 * turn + MS, 3 * turn + 2 * MS), MS);
	CHECK_EQ(timeline_add(&timeline, 4 * turn + MS, 4 * turn + 2 * MS), 0);
	/* Longer than the ring: all of it, and it ends. */
	fresh();
	CHECK_EQ(timeline_add(&timeline, MS, MS + 3 * turn), 3 * turn);
	fresh();
	CHECK_EQ(timeline_add(&timeline, 0, UINT64_MAX / 2), UINT64_MAX / 2);
}

/* Whatever bytes stand there: never more than the interval, and it ends. */
static void check_damage(void)
{
	unsigned char *bytes = (unsigned char *)&timeline;

	srand(1);
	for (size_t i = 0; i < sizeof(timeline); i++)
		bytes[i] = (unsigned char)rand();
	for (uint64_t t = SECOND; t < 2 * SECOND; t += MS)
		CHECK(timeline_add(&timeline, t, t + MS) <= MS);
}

/* Against a plain list of what was billed, for intervals at random. */
static void check_random(void)
{
	static unsigned char billed[200000]; /* a us each */
	uint64_t sum = 0, should = 0;

	fresh();
	srand(7);
	for (int i = 0; i < 300; i++) {
		uint64_t from = (uint64_t)rand() % 190000, len = 1 + (uint64_t)rand() % 3000;

		sum += timeline_add(&timeline, from * US, (from + len) * US);
		for (uint64_t k = from; k < from + len && k < 200000; k++) {
			should += !billed[k];
			billed[k] = 1;
		}
	}
	about(sum, should * US, should * US / 50);
}

/* The parts of a time are its whole, and what the ring has written over is nothing. */
static void check_busy(void)
{
	const uint64_t t = 2000 * SECOND;

	fresh();
	timeline_add(&timeline, t + 10 * MS, t + 12 * MS);
	timeline_add(&timeline, t + 20 * MS, t + 35 * MS);
	about(timeline_busy_ns(&timeline, t, t + 100 * MS), 17 * MS, 20 * US);
	about(timeline_busy_ns(&timeline, t + 11 * MS, t + 25 * MS), 6 * MS, 20 * US);
	about(timeline_busy_ns(&timeline, t + 12 * MS, t + 20 * MS), 0, 20 * US);
	CHECK_EQ(timeline_busy_ns(&timeline, t + 30 * MS, t + 30 * MS), 0);
	for (uint64_t at = t, sum = 0; at <= t + 50 * MS; at += 777 * US) {
		sum += timeline_busy_ns(&timeline, at, at + 777 * US);
		about(sum, timeline_busy_ns(&timeline, t, at + 777 * US), 100 * US);
	}
	CHECK_EQ(timeline_busy_ns(&timeline, t - 10 * SECOND, t - 9 * SECOND), 0);
	CHECK_EQ(timeline_busy_ns(&timeline, 0, UINT64_MAX), 0);
	/* One turn of the ring later, the same words are another time's. */
	CHECK_EQ(timeline_busy_ns(&timeline, t + 10 * MS + TIMELINE_WORDS * TIMELINE_BITS * TIMELINE_BIT_NS,
				  t + 12 * MS + TIMELINE_WORDS * TIMELINE_BITS * TIMELINE_BIT_NS), 0);
	timeline_add(&timeline, t + 10 * MS + TIMELINE_WORDS * TIMELINE_BITS * TIMELINE_BIT_NS,
		     t + 35 * MS + TIMELINE_WORDS * TIMELINE_BITS * TIMELINE_BIT_NS);
	about(timeline_busy_ns(&timeline, t, t + 100 * MS), 0, 500 * US);
}

int main(void)
{
	check_order();
	check_ring();
	check_damage();
	check_random();
	check_busy();
	return 0;
}
