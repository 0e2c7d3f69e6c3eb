/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of emulated AMD GPUs: programs that know nothing of allot make queues in tenants, and the
 * emulator's own roster says which units and how much time they have.
 */
#include "tests/sim/queues.h"

static int quarter = 27, half = 55, rest = 44, all = 110; /* 25, 50, 40 and 100 % of 110 */
static bool pairs;

static bool in_pairs(const struct puppet *p, uint32_t id)
{
	struct roster_queue is = roster_get(p, id);

	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		if ((is.mask[i] ^ is.mask[i] >> 1) & 0x55555555)
			return false;
	return true;
}

/* A quarter of the units from the beginning, in every queue; half of them when that is said. */
static void test_masks(void)
{
	struct puppet a = puppet_start("a", OPTIONS("--compute", "25"));
	struct puppet b = puppet_start("b", OPTIONS("--compute", "40"));
	uint32_t one = puppet_make(&a, 0, AQL), two = puppet_make(&a, 0, PM4), other;
	uint64_t took_ms;

	CHECK(bits(&a, one) == quarter && bits(&a, two) == quarter);
	CHECK(roster_get(&a, one).active && roster_get(&a, two).active);
	other = puppet_make(&b, 0, AQL);
	CHECK(bits(&b, other) == rest && disjoint(&a, one, &b, other));
	tenant_set("a", 500);
	took_ms = wait_bits(&a, one, half);
	wait_bits(&a, two, half);
	fprintf(stderr, "a new share was in force after %llu ms\n", (unsigned long long)took_ms);
	wait_bits(&b, other, rest);
	CHECK(disjoint(&a, one, &b, other) && disjoint(&a, two, &b, other));
	CHECK(!pairs || (in_pairs(&a, one) && in_pairs(&b, other)));
	CHECK(roster_get(&a, one).active && roster_get(&a, two).active);
	/* On another GPU nobody else is. */
	CHECK_EQ(bits(&a, puppet_make(&a, 1, AQL)), half);
	puppet_end(&a);
	puppet_end(&b);
}

int main(int argc, char **argv)
{
	const char *model = argc > 3 ? argv[3] : "gfx90a";

	queues_begin(argv);
	if (!strcmp(model, "gfx1030")) {
		quarter = 20, half = 40, rest = 32, all = 80;
		pairs = true;
	} else if (!strcmp(model, "gfx942")) {
		quarter = 76, half = 152, rest = 121, all = 304;
	}
	test_masks();
	return 0;
}
