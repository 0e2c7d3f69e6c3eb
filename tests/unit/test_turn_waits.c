/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles of waits over the last minute. */
#include "sched/waits.h"

#include <string.h>

#include "base/now.h"
#include "tests/check.h"

/* Every length is told as itself, or at most an eighth more. */
static void check_lengths(void)
{
	for (uint64_t us = 0; us < 20000000; us += 1 + us / 50) {
		struct waits waits = {0};
		struct waits_sum sum;

		waits_add(&waits, 5, us * NS_PER_US, "a", 1);
		/* A longer one, so that the longest does not bound the figure. */
		waits_add(&waits, 5, 2 * us * NS_PER_US, "b", 7 * NS_PER_US);
		waits_sum(&waits, 6, &sum);
		CHECK_EQ(sum.n, 2);
		if (us >= 1u << 24)
			continue;
		CHECK(sum.p50_us >= us && sum.p50_us <= us + us / 8);
		CHECK(!strcmp(sum.behind, "b") && sum.behind_us == 7);
	}
}

static void check_percentiles(void)
{
	struct waits waits = {0};
	struct waits_sum sum;

	for (int i = 0; i < 1000; i++)
		waits_add(&waits, 0, (i < 15 ? 50 : 4) * NS_PER_MS, i == 3 ? "long" : "", 0);
	waits_sum(&waits, 0, &sum);
	CHECK(sum.p50_us >= 4000 && sum.p50_us <= 4500);
	CHECK(sum.p99_us == 50000 && sum.longest_us == 50000);
}

/* A minute later nothing is left. */
static void check_ages(void)
{
	struct waits waits = {0};
	struct waits_sum sum;

	for (uint64_t s = 0; s < 200; s++) {
		waits_add(&waits, s * NS_PER_S, NS_PER_MS, "a", 0);
		waits_sum(&waits, s * NS_PER_S, &sum);
		CHECK(sum.n == s + 1 || (sum.n > 50 && sum.n <= 60));
	}
	waits_sum(&waits, 260 * NS_PER_S, &sum);
	CHECK(!sum.n && !sum.p99_us && !*sum.behind);
}

int main(void)
{
	check_lengths();
	check_percentiles();
	check_ages();
	return 0;
}
