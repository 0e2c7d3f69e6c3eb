/* SPDX-License-Identifier: Apache-2.0 */
/* What a measurement can be, from its rounds, and how it is said. */
#include "cli/bench/interval.h"

#include <stdbool.h>
#include <string.h>

#include "tests/check.h"

static bool is(const struct bench_interval *x, double value, double low, double high)
{
	return x->value == value && x->low == low && x->high == high;
}

/* Ranks as in tables of the sign test: 1 of 6, 2 of 9, 3 of 12, 6 of 20. */
static void test_median(void)
{
	static const struct {
		unsigned int n;
		double low;
	} ranks[] = {{1, 1}, {2, 1}, {5, 1}, {6, 1}, {8, 1}, {9, 2}, {11, 2}, {12, 3}, {20, 6}};
	struct bench_interval x;
	double values[20];

	for (unsigned int i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		unsigned int n = ranks[i].n;

		for (unsigned int k = 0; k < n; k++) /* not in order */
			values[k] = n - k;
		bench_interval_of_median(values, n, &x);
		CHECK(is(&x, (n + 1) / 2.0, ranks[i].low, n + 1 - ranks[i].low));
	}
	bench_interval_of_median(values, 0, &x);
	CHECK(is(&x, 0, 0, 0));
}

static void test_set(void)
{
	struct bench_interval x = {2, 1, 3};

	bench_interval_set(&x, 2.5);
	CHECK(is(&x, 2.5, 1, 3));
	bench_interval_set(&x, 4);
	CHECK(is(&x, 4, 1, 4));
	bench_interval_set(&x, 0);
	CHECK(is(&x, 0, 0, 4));
}

static const char *said(double value, double low, double high)
{
	static char words[BENCH_INTERVAL_WORDS];

	bench_interval_say_added(&(struct bench_interval){value, low, high}, "us", words);
	return words;
}

static void test_words(void)
{
	char words[BENCH_INTERVAL_WORDS];

	bench_interval_say(&(struct bench_interval){0.25, 0.245, 0.2561}, 100, 1, "", words);
	CHECK(!strcmp(words, "25.0 (24.5 to 25.6)"));
	bench_interval_say(&(struct bench_interval){1500, 1200, 1900}, 1e-3, 2, " ms", words);
	CHECK(!strcmp(words, "1.50 (1.20 to 1.90) ms"));

	CHECK(!strcmp(said(1.5, 1.2, 1.9), "+1.50 (1.20 to 1.90) us"));
	CHECK(!strcmp(said(-3.27, -5, 1.2), "no more than 1.20 us"));
	CHECK(!strcmp(said(0.3, -5, 1.2), "no more than 1.20 us"));
	CHECK(!strcmp(said(0, 0, 0), "no more than 0.00 us"));
	CHECK(!strcmp(said(-2, -3, -1), "-2.00 (-3.00 to -1.00) us"));
}

int main(void)
{
	test_median();
	test_set();
	test_words();
	return 0;
}
