/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges in a tree, beside a table of the same addresses that is searched from end to end. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "peer/ranges.h"
#include "tests/check.h"

#define SPAN  512 /* addresses */
#define STEPS 200000

static uint32_t state = 12345;

static uint32_t random_below(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static struct range ranges[SPAN]; /* by where they begin */
static bool used[SPAN];
static struct ranges tree;

static struct range *model_at_or_after(uint64_t address)
{
	for (uint32_t i = 0; i < SPAN; i++)
		if (used[i] && ranges[i].last >= address)
			return &ranges[i];
	return NULL;
}

static bool model_overlaps(uint64_t first, uint64_t last)
{
	for (uint32_t i = 0; i < SPAN; i++)
		if (used[i] && ranges[i].first <= last && ranges[i].last >= first)
			return true;
	return false;
}

static uint32_t depth_of(const struct range *range)
{
	uint32_t left, right;

	if (!range)
		return 0;
	left = depth_of(range->left);
	right = depth_of(range->right);
	return 1 + (left > right ? left : right);
}

static void test_random(void)
{
	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t first = random_below(SPAN), last = first + random_below(8), at;

		if (last >= SPAN)
			last = SPAN - 1;
		if (used[first]) {
			ranges_remove(&tree, &ranges[first]);
			used[first] = false;
		} else {
			struct range range = {.first = first, .last = last};
			bool overlaps = model_overlaps(first, last);

			ranges[first] = range;
			CHECK_EQ(ranges_insert(&tree, &ranges[first]), overlaps ? -EEXIST : 0);
			used[first] = !overlaps;
		}
		at = random_below(SPAN + 8);
		CHECK(ranges_at_or_after(&tree, at) == model_at_or_after(at));
	}
	for (uint32_t i = 0; i < SPAN; i++)
		if (used[i])
			ranges_remove(&tree, &ranges[i]);
	CHECK(!tree.root);
}

static void test_ends(void)
{
	struct range low = {.first = 0, .last = 0}, backwards = {.first = 2, .last = 1};
	struct range high = {.first = UINT64_MAX, .last = UINT64_MAX};
	struct range all = {.first = 0, .last = UINT64_MAX};

	CHECK_EQ(ranges_insert(&tree, &backwards), -EINVAL);
	CHECK_EQ(ranges_insert(&tree, &high), 0);
	CHECK_EQ(ranges_insert(&tree, &low), 0);
	CHECK_EQ(ranges_insert(&tree, &all), -EEXIST);
	CHECK(ranges_at_or_after(&tree, 0) == &low);
	CHECK(ranges_at_or_after(&tree, 1) == &high);
	ranges_remove(&tree, &low);
	ranges_remove(&tree, &high);
	CHECK_EQ(ranges_insert(&tree, &all), 0);
	CHECK(ranges_at_or_after(&tree, UINT64_MAX) == &all);
	ranges_remove(&tree, &all);
	CHECK(!ranges_at_or_after(&tree, 0));
}

/* In order, as addresses are handed out, it must not become a list. */
static void test_depth(void)
{
	static struct range many[4096];

	for (uint32_t i = 0; i < 4096; i++) {
		many[i].first = (UINT64_C(0x7f0000000000)) + i * UINT64_C(0x200000);
		many[i].last = many[i].first + 0xfff;
		CHECK_EQ(ranges_insert(&tree, &many[i]), 0);
	}
	CHECK(depth_of(tree.root) < 48);
	for (uint32_t i = 0; i < 4096; i++)
		ranges_remove(&tree, &many[(i * 7) % 4096]);
	CHECK(!tree.root);
}

int main(void)
{
	test_ends();
	test_random();
	test_depth();
	return 0;
}
