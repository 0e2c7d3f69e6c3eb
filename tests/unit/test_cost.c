/* SPDX-License-Identifier: Apache-2.0 */
/* What launches are expected to take, learned from what they took. */
#include "sched/cost.h"

#include "base/now.h"
#include "sched/tuning.h"
#include "tests/check.h"

#define US NS_PER_US

static struct costs costs;

static void check_learn(void)
{
	costs = (struct costs){0};
	CHECK(!cost_expect(&costs, 7));
	cost_learn(&costs, 7, 4, 400 * US, 0, false);
	CHECK_EQ(cost_expect(&costs, 7), 100 * US);
	CHECK(!cost_expect(&costs, 8));
	/* Too much in flight does harm: up at once, and down by an eighth. */
	cost_learn(&costs, 7, 1, 9000 * US, 0, false);
	CHECK_EQ(cost_expect(&costs, 7), 9000 * US);
	cost_learn(&costs, 7, 1, 1000 * US, 0, false);
	CHECK_EQ(cost_expect(&costs, 7), 8000 * US);
	/* Of several: of none of them. */
	cost_learn(&costs, 0, 2, 200 * US, 0, false);
	CHECK_EQ(cost_expect(&costs, 7), 8000 * US);
	cost_learn(&costs, 7, 0, 5, 0, false);
	CHECK_EQ(cost_expect(&costs, 7), 8000 * US);
	cost_bound(&costs, 7, 9000 * US);
	CHECK_EQ(cost_expect(&costs, 7), 8000 * US);
	cost_bound(&costs, 7, 900 * US);
	CHECK_EQ(cost_expect(&costs, 7), 900 * US);
	cost_bound(&costs, 8, 1);
	CHECK(!cost_expect(&costs, 8));
	/* The briefest is known all the same. */
	cost_learn(&costs, 9, 1, 0, 0, false);
	CHECK_EQ(cost_expect(&costs, 9), 1);
}

/* What may have waited for others took no longer than the least of it. */
static void check_waits(void)
{
	costs = (struct costs){0};
	cost_learn(&costs, 7, 1, 1000 * US, 0, true);
	cost_learn(&costs, 7, 1, 100000 * US, 0, true);
	CHECK(cost_expect(&costs, 7) <= 1130 * US);
	cost_learn(&costs, 7, 1, 900 * US, 0, true);
	CHECK_EQ(cost_expect(&costs, 7), 900 * US);
}

/*
 * Who is launched again and again is measured now and then: once, though its measure may be known
 * only many launches later.
 */
static void check_stale(void)
{
	int measured = 0;
	bool alone;

	costs = (struct costs){0};
	CHECK(!cost_use(&costs, 7, 0, &alone) && alone);
	cost_learn(&costs, 7, 1, 100 * US, 0, false);
	for (int i = 0; i < 10000; i++) {
		CHECK_EQ(cost_use(&costs, 7, 0, &alone), 100 * US);
		measured += alone;
	}
	CHECK(measured >= 10 && measured <= 50);
	/* Or where it is said that its measure is in doubt. */
	cost_learn(&costs, 7, 1, 100 * US, 0, false);
	cost_doubt(&costs, 7);
	cost_doubt(&costs, 0);
	cost_doubt(&costs, 8);
	CHECK_EQ(cost_use(&costs, 7, 0, &alone), 100 * US);
	CHECK(alone);
	cost_use(&costs, 7, 0, &alone);
	CHECK(!alone);
}

/*
 * What was not launched for long is measured anew, and all that are launched until then are as
 * little known as the first.
 */
static void check_forgets(void)
{
	uint64_t now = TUNING_FORGET_NS;
	bool alone;

	costs = (struct costs){0};
	cost_learn(&costs, 7, 1, 100 * US, 0, false);
	for (int i = 0; i < 10; i++, now += TUNING_FORGET_NS)
		CHECK(cost_use(&costs, 7, now, &alone) && !alone);
	for (int i = 0; i < 10; i++)
		CHECK(!cost_use(&costs, 7, now + US, &alone) && alone);
	CHECK_EQ(cost_expect(&costs, 7), 100 * US);
	cost_learn(&costs, 7, 1, 2000 * US, now + 3000 * US, false);
	CHECK_EQ(cost_use(&costs, 7, now + 3001 * US, &alone), 2000 * US);
	CHECK(!alone);
}

/* A mean of the last few, from wherever it comes. */
static void check_mean(void)
{
	costs = (struct costs){0};
	for (int i = 0; i < 100; i++)
		cost_learn(&costs, 0, 10, 1000 * US, 0, false);
	CHECK(costs.mean_ns > 90 * US && costs.mean_ns < 110 * US);
	for (int i = 0; i < 100; i++)
		cost_learn(&costs, 3, 1, 5 * US, 0, false);
	CHECK(costs.mean_ns < 7 * US);
}

/* More functions than there is room for: some are forgotten, none is taken for another. */
static void check_many(void)
{
	costs = (struct costs){0};
	for (uint64_t key = 1; key <= 3 * COST_ENTRIES; key++)
		cost_learn(&costs, key << 8, 1, key * US, 0, false);
	for (uint64_t key = 1; key <= 3 * COST_ENTRIES; key++) {
		uint64_t is = cost_expect(&costs, key << 8);

		CHECK(!is || is == key * US);
	}
}

/* A function's launches of about as many blocks are one; of twice as many another. */
static void check_keys(void)
{
	CHECK_EQ(cost_key(0x1234500, 128), cost_key(0x1234500, 160));
	CHECK(cost_key(0x1234500, 128) != cost_key(0x1234500, 256));
	CHECK(cost_key(0x1234500, 0) && cost_key(0x1234500, 1));
	CHECK(cost_key(0x1234500, 128) != cost_key(0x5432100, 128));
}

int main(void)
{
	check_learn();
	check_waits();
	check_stale();
	check_forgets();
	check_mean();
	check_many();
	check_keys();
	return 0;
}
