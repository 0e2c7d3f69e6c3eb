/* SPDX-License-Identifier: Apache-2.0 */
/* A granule cut into allocations: against a plain list of who has which unit. */
#include "guest/movable/cut.h"

#include <string.h>

#include "tests/check.h"

static uint64_t seed = 88172645463325252u;

static uint32_t pick(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed % below);
}

static void check_edges(void)
{
	static struct cut cut;

	CHECK_EQ(cut_units(1), 1);
	CHECK_EQ(cut_units(CUT_UNIT), 1);
	CHECK_EQ(cut_units(CUT_UNIT + 1), 2);
	CHECK_EQ(cut_take(&cut, 0), -1);
	CHECK_EQ(cut_take(&cut, CUT_UNITS + 1), -1);
	CHECK_EQ(cut_take(&cut, CUT_UNITS), 0);
	CHECK_EQ(cut_take(&cut, 1), -1);
	CHECK_EQ(cut_first(&cut, CUT_UNITS - 1), 0);
	CHECK(!cut_give(&cut, 1));
	CHECK(!cut_give(&cut, CUT_UNITS));
	CHECK(cut_give(&cut, 0));
	CHECK(!cut_give(&cut, 0));
	CHECK_EQ(cut.allocations, 0);
	CHECK_EQ(cut_first(&cut, 0), -1);
}

static void check_against_a_list(void)
{
	static struct cut cut;
	static uint16_t owner[CUT_UNITS]; /* 1 + first unit; 0: free */

	for (int i = 0; i < 20000; i++) {
		uint32_t units = 1 + pick(pick(8) ? 40 : 1500), at = pick(CUT_UNITS);
		int first;

		if (pick(2)) {
			bool begins = owner[at] == at + 1;

			CHECK_EQ(cut_give(&cut, at), begins);
			for (uint32_t u = at; begins && u < CUT_UNITS && owner[u] == at + 1; u++)
				owner[u] = 0;
			continue;
		}
		first = cut_take(&cut, units);
		if (first < 0) {
			uint32_t run = 0;

			for (uint32_t u = 0; u < CUT_UNITS; u++) {
				run = owner[u] ? 0 : run + 1;
				CHECK(run < units);
			}
			continue;
		}
		for (uint32_t u = 0; u < units; u++) {
			CHECK_EQ(owner[(uint32_t)first + u], 0);
			owner[(uint32_t)first + u] = (uint16_t)(first + 1);
		}
		CHECK_EQ(cut_first(&cut, at), owner[at] - 1);
	}
}

int main(void)
{
	check_edges();
	check_against_a_list();
	return 0;
}
