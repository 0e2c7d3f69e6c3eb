/* SPDX-License-Identifier: Apache-2.0 */
/* What a load says of itself: percentiles, device time by bins, the share of a window. */
#include <math.h>
#include <stdlib.h>

#include "base/now.h"
#include "tests/check.h"
#include "tools/record.h"

#define MS NS_PER_MS

static bool near(double a, double b, double by)
{
	return fabs(a - b) <= by;
}

static void test_histogram(void)
{
	struct histogram *h = calloc(1, sizeof(*h));

	CHECK_EQ(histogram_us(h, 500), 0);
	CHECK_EQ(histogram_bound_us(h, 500, 1), 0);
	for (uint64_t i = 1; i <= 1000; i++)
		histogram_add(h, i * 1000);
	CHECK(near(histogram_us(h, 500), 500, 5));
	CHECK(near(histogram_us(h, 990), 990, 10));
	CHECK_EQ(histogram_us(h, 1000), 1000);
	/* The true percentile is between these with 95 %: by its rank, 500 and 31 about it. */
	CHECK(near(histogram_bound_us(h, 500, -1), 469, 5));
	CHECK(near(histogram_bound_us(h, 500, 1), 531, 5));
	CHECK(near(histogram_bound_us(h, 990, -1), 983, 10));
	CHECK(near(histogram_bound_us(h, 990, 1), 997, 10));
	CHECK_EQ(histogram_bound_us(h, 999, 1), 1000);
	/* The ends of the range. */
	histogram_add(h, 0);
	histogram_add(h, UINT64_MAX);
	CHECK_EQ(h->entry[0], 1);
	CHECK_EQ(h->max_ns, UINT64_MAX);
	free(h);
}

static void test_histogram_is_finer_than_a_percent(void)
{
	for (uint64_t ns = 1; ns < UINT64_MAX / 8; ns = ns * 5 / 4 + 1) {
		struct histogram *h = calloc(1, sizeof(*h));

		histogram_add(h, ns);
		histogram_add(h, UINT64_MAX / 4);
		CHECK(near(histogram_us(h, 500) * 1e3, (double)ns, (double)ns / 100));
		free(h);
	}
}

static void test_bins_show_work_not_ends(void)
{
	struct record r;

	/* One kernel of 250 ms that ends at 300 ms: 50, 100 and 100 ms. */
	CHECK(record_open(&r, 1000 * MS, 1000 * MS, 2000 * MS, 100 * MS, 1));
	CHECK_EQ(r.nbins, 10);
	record_done(&r, 1300 * MS, 1, 250e3);
	CHECK(near(r.bin_us[0], 50e3, 1) && near(r.bin_us[1], 100e3, 1));
	CHECK(near(r.bin_us[2], 100e3, 1) && near(r.bin_us[3], 0, 1));
	/* The next began when that one was done, whatever it says of itself. */
	record_done(&r, 1400 * MS, 1, 250e3);
	CHECK(near(r.bin_us[2], 100e3, 1) && near(r.bin_us[3], 250e3, 1));
	/* Beyond the end: noted nowhere. */
	record_done(&r, 2500 * MS, 1, 1e3);
	CHECK_EQ(r.kernels, 2);
	free(r.bin_us);

	/* Four processes: one's kernel of 50 ms took 200 ms beside the others'. */
	CHECK(record_open(&r, 0, 0, 2000 * MS, 100 * MS, 4));
	record_done(&r, 500 * MS, 1, 50e3);
	CHECK(near(r.bin_us[2], 0, 1) && near(r.bin_us[3], 25e3, 1) && near(r.bin_us[4], 25e3, 1));
	/* The next one had no more than the time since. */
	record_done(&r, 600 * MS, 1, 50e3);
	CHECK(near(r.bin_us[4], 25e3, 1) && near(r.bin_us[5], 50e3, 1));
	free(r.bin_us);
}

static void test_share(void)
{
	struct record r;

	/* 10 ms each 40 ms, after a warm-up that is not counted. */
	CHECK(record_open(&r, 0, 400 * MS, 2000 * MS, 100 * MS, 1));
	for (uint64_t at = 40; at <= 2000; at += 40)
		record_done(&r, at * MS, 1, 10e3);
	CHECK(near(record_share(&r, 10e3), 0.25, 1e-9));
	CHECK_EQ(r.kernels, 40);
	free(r.bin_us);

	/* One kernel in all: by the window. */
	CHECK(record_open(&r, 0, 0, 2000 * MS, 100 * MS, 1));
	record_done(&r, 500 * MS, 1, 100e3);
	CHECK(near(record_share(&r, 100e3), 0.05, 1e-9));
	free(r.bin_us);

	/* A burst and then nothing is not the burst's rate. */
	CHECK(record_open(&r, 0, 0, 2000 * MS, 100 * MS, 1));
	for (uint64_t at = 1; at <= 100; at++)
		record_done(&r, at * MS, 1, 1e3);
	CHECK(near(record_share(&r, 1e3), 0.05, 1e-9));
	free(r.bin_us);
}

int main(void)
{
	test_histogram();
	test_histogram_is_finer_than_a_percent();
	test_bins_show_work_not_ends();
	test_share();
	return 0;
}
