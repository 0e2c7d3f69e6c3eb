/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant used of a device: billed once, told by the second. Clocks are numbers here. */
#include "ledger/compute.h"

#include <string.h>

#include "tests/check.h"

#define SECOND UINT64_C(1000000000)
#define MS     UINT64_C(1000000)

static struct compute compute;

static void fresh(void)
{
	memset(&compute, 0, sizeof(compute));
}

/* Work that overlaps counts once, whoever bills it first. */
static void check_cover(void)
{
	uint64_t from = 0;

	fresh();
	CHECK_EQ(compute_cover(&compute, 10 * MS, 20 * MS, &from), 10 * MS);
	CHECK_EQ(from, 10 * MS);
	CHECK_EQ(compute_cover(&compute, 15 * MS, 25 * MS, &from), 5 * MS);
	CHECK_EQ(from, 20 * MS);
	CHECK_EQ(compute_cover(&compute, 12 * MS, 24 * MS, &from), 0);
	CHECK_EQ(compute_cover(&compute, 40 * MS, 41 * MS, &from), MS);
	CHECK_EQ(from, 40 * MS);
	/* A mark that lies hours ahead is damage, and hides no work. */
	compute.covered_ns = UINT64_MAX;
	CHECK_EQ(compute_cover(&compute, 50 * MS, 60 * MS, &from), 10 * MS);
}

static void check_achieved(void)
{
	fresh();
	CHECK_EQ(compute_achieved(&compute, 1000 * SECOND, 1), 0);
	for (uint64_t s = 1000; s < 1010; s++)
		compute_add_busy(&compute, s * SECOND + 500 * MS, 300 * MS);
	CHECK_EQ(compute_achieved(&compute, 1010 * SECOND + 1, 1), 3000);
	CHECK_EQ(compute_achieved(&compute, 1010 * SECOND + 1, 10), 3000);
	CHECK_EQ(compute_achieved(&compute, 1010 * SECOND + 1, 60), 500);
	/* The present second is not over, and does not count. */
	compute_add_busy(&compute, 1010 * SECOND + 1, 900 * MS);
	CHECK_EQ(compute_achieved(&compute, 1010 * SECOND + 2, 1), 3000);
	CHECK_EQ(compute_achieved(&compute, 1011 * SECOND + 2, 1), 9000);
	/* Long after, entries of other times stand in the ring. */
	CHECK_EQ(compute_achieved(&compute, 2000 * SECOND, 60), 0);
	CHECK_EQ(compute_achieved(&compute, 1010 * SECOND, 0), 0);
	CHECK_EQ(compute_achieved(&compute, 1010 * SECOND, 64), 0);
	/* At the beginning of time. */
	fresh();
	compute_add_busy(&compute, SECOND + 500 * MS, 100 * MS);
	CHECK_EQ(compute_achieved(&compute, 2 * SECOND + 1, 1), 1000);
	CHECK_EQ(compute_achieved(&compute, 2 * SECOND + 1, 60), 16);
}

static void check_history(void)
{
	uint32_t bp[60], sum = 0;

	fresh();
	for (uint64_t s = 1000; s < 1060; s++)
		if (s % 2)
			compute_add_busy(&compute, s * SECOND + MS, (s - 1000) * 10 * MS);
	compute_history(&compute, 1060 * SECOND + MS, 60, bp);
	for (uint32_t i = 0; i < 60; i++)
		CHECK_EQ(bp[i], i % 2 ? i * 100 : 0);
	/* A unit of almost three seconds is billed at its end, and shown where it ran. */
	fresh();
	compute_add_busy(&compute, 1005 * SECOND + MS, 3 * SECOND - 100 * MS);
	compute_history(&compute, 1008 * SECOND, 10, bp);
	for (uint32_t i = 0; i < 10; i++)
		sum += bp[i];
	CHECK_EQ(sum, 29000);
	CHECK_EQ(bp[8], 0);
	CHECK_EQ(bp[7], 10000);
	CHECK_EQ(bp[6], 10000);
	CHECK_EQ(bp[5], 9000);
	memset(&compute, 0xa5, sizeof(compute));
	compute_history(&compute, 3, 60, bp);
	for (uint32_t i = 0; i < 60; i++)
		CHECK(bp[i] <= 10000);
}

int main(void)
{
	check_cover();
	check_achieved();
	check_history();
	return 0;
}
