/* SPDX-License-Identifier: Apache-2.0 */
/* What launches are expected to take, learned from what they took. */
#include "preload/cost.h"

#include "tests/check.h"

#define US UINT64_C(1000)

static struct costs costs;

static uint64_t expected(uint64_t key)
{
	bool known;

	return cost_expect(&costs, key, &known);
}

static void check_learn(void)
{
	bool known, alone;

	costs = (struct costs){0};
	CHECK_EQ(cost_use(&costs, 7, &known, &alone), 1000 * US);
	CHECK(!known && alone);
	cost_learn(&costs, 7, 4, 400 * US, 0, false);
	CHECK_EQ(cost_use(&costs, 7, &known, &alone), 100 * US);
	CHECK(known && !alone);
	CHECK_EQ(expected(8), 100 * US); /* as all of them */
	cost_learn(&costs, 7, 1, 116 * US, 0, false);
	CHECK_EQ(expected(7), 102 * US);
	/* Another phase of the program. */
	cost_learn(&costs, 7, 1, 9000 * US, 0, false);
	CHECK_EQ(expected(7), 9000 * US);
	/* Of several: over all, and of none of them. */
	cost_learn(&costs, 0, 2, 200 * US, 0, false);
	CHECK_EQ(expected(7), 9000 * US);
	CHECK_EQ(expected(9), 100 * US);
	cost_learn(&costs, 7, 0, 5, 0, false);
	CHECK_EQ(expected(7), 9000 * US);
}

/*
 * Who is launched again and again is measured now and then: once, though its measure may be known
 * only many launches later.
 */
static void check_stale(void)
{
	bool known, alone;
	int measured = 0;

	costs = (struct costs){0};
	cost_learn(&costs, 7, 1, 100 * US, 0, false);
	for (int i = 0; i < 10000; i++) {
		cost_use(&costs, 7, &known, &alone);
		measured += alone;
		expected(7); /* asking is no use */
	}
	CHECK(measured >= 10 && measured <= 50);
}

/* Four processes have the device in turns of 2 ms: every other kernel of 1 ms waits for others. */
static void check_beside(void)
{
	costs = (struct costs){0};
	cost_learn(&costs, 7, 1, 7500 * US, 0, true);
	for (int i = 0; i < 100; i++) {
		cost_learn(&costs, 7, 1, i % 2 ? 7500 * US : 1000 * US, 0, true);
		if (i > 30)
			CHECK(expected(7) >= 1000 * US && expected(7) < 1300 * US);
	}
	/* What is too low does not stay so. */
	cost_learn(&costs, 7, 1, 10 * US, 0, true);
	CHECK(expected(7) > 500 * US);
	for (int i = 0; i < 20; i++)
		cost_learn(&costs, 7, 1, 1000 * US, 0, true);
	CHECK_EQ(expected(7), 1000 * US);
	/* Nor is what really takes longer unseen, in time. */
	for (int i = 0; i < 40; i++)
		cost_learn(&costs, 7, 1, 50000 * US, 0, true);
	CHECK_EQ(expected(7), 50000 * US);
	/* As long as can be. */
	for (int i = 0; i < 200; i++)
		cost_learn(&costs, 7, 1, UINT64_MAX, 0, true);
	CHECK_EQ(expected(7), UINT32_MAX);
}

/* A program's functions, launched in turns, keep what was learned of each. */
static void check_many(void)
{
	bool known;

	costs = (struct costs){0};
	for (int round = 0; round < 2; round++) {
		uint64_t key = UINT64_C(0x7f3a81c04000);

		for (uint64_t i = 0; i < 64; i++) {
			key = (key * 6364136223846793005 + 1442695040888963407) >> 16;
			cost_expect(&costs, key, &known);
			CHECK_EQ(known, round == 1);
			cost_learn(&costs, key, 1, (i + 1) * US, 0, false);
			CHECK_EQ(expected(key), (i + 1) * US);
		}
	}
	/* More than there is room for: some are forgotten, none is mistaken. */
	for (uint64_t i = 0; i < 4 * COST_ENTRIES; i++) {
		cost_learn(&costs, 1 + i * 64, 1, (i + 1) * US, 0, false);
		CHECK_EQ(expected(1 + i * 64), (i + 1) * US);
	}
}

static void check_key(void)
{
	const uint64_t function = UINT64_C(0x7f3a81c04000);

	CHECK(cost_key(function, 1) != cost_key(function, 2));
	CHECK(cost_key(function, 2) != cost_key(function, 3));
	CHECK(cost_key(function, 1000) != cost_key(function, 2000));
	CHECK_EQ(cost_key(function, 1000), cost_key(function, 1020));
	CHECK(cost_key(function, 1000) != cost_key(function + 64, 1000));
	for (uint64_t blocks = 1; blocks; blocks *= 2)
		CHECK(cost_key(function, blocks) && cost_key(function, blocks - 1));
	CHECK(cost_key(function, UINT64_MAX) != cost_key(function, UINT64_MAX / 2));
}

/* What is measured by itself takes 100 us, and 60 us among others. */
static void check_mixed(void)
{
	costs = (struct costs){0};
	cost_learn(&costs, 7, 1, 100 * US, 0, false);
	cost_learn(&costs, 8, 1, 100 * US, 0, false);
	for (int i = 0; i < 200; i++) {
		cost_learn(&costs, 0, 10, 600 * US, 5 * expected(7) + 5 * expected(8), false);
	}
	CHECK(expected(7) > 58 * US && expected(7) < 62 * US);
	/* Launches of one key alone teach nothing about that, nor what is not all known. */
	cost_learn(&costs, 7, 10, 1000 * US, 0, false);
	cost_learn(&costs, 0, 10, 10000 * US, 0, false);
	CHECK(expected(8) > 58 * US && expected(8) < 62 * US);
	/* Others had the device in between; and something is damaged. */
	cost_learn(&costs, 0, 10, 10000 * US, 600 * US, true);
	CHECK(expected(8) < 62 * US);
	for (int i = 0; i < 1000; i++)
		cost_learn(&costs, 0, 10, i < 500 ? 0 : UINT64_MAX / 4, 1, false);
	CHECK(expected(8) == 150 * US);
}

int main(void)
{
	check_mixed();
	check_key();
	check_many();
	check_learn();
	check_stale();
	check_beside();
	return 0;
}
