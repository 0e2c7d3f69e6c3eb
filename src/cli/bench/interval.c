/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/interval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int interval_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * The greatest rank for which the true median is below that value with no more than 2.5 %: as
 * probable as it is that fewer of `n` fair coins than the rank show heads. 1 at least.
 */
static unsigned int interval_rank(unsigned int n)
{
	double heads = 1, below; /* of exactly `rank` heads; of that many or fewer */
	unsigned int rank = 0;

	for (unsigned int i = 0; i < n; i++)
		heads /= 2;
	for (below = heads; below <= 0.025; below += heads) {
		rank++;
		heads *= (double)(n - rank + 1) / rank;
	}
	return rank ? rank : 1;
}

void bench_interval_of_median(const double *values, unsigned int n, struct bench_interval *ret)
{
	double sorted[BENCH_VALUES];
	unsigned int rank;

	*ret = (struct bench_interval){0};
	if (n > BENCH_VALUES)
		n = BENCH_VALUES;
	if (!n)
		return;
	memcpy(sorted, values, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), interval_compare);
	rank = interval_rank(n);
	ret->value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
	ret->low = sorted[rank - 1];
	ret->high = sorted[n - rank];
}

void bench_interval_set(struct bench_interval *x, double value)
{
	x->value = value;
	if (value < x->low)
		x->low = value;
	if (value > x->high)
		x->high = value;
}

void bench_interval_say(const struct bench_interval *x, double scale, int decimals,
			const char *unit, char buf[static BENCH_INTERVAL_WORDS])
{
	snprintf(buf, BENCH_INTERVAL_WORDS, "%.*f (%.*f to %.*f)%s", decimals, x->value * scale,
		 decimals, x->low * scale, decimals, x->high * scale, unit);
}

void bench_interval_say_added(const struct bench_interval *x, const char *unit,
			      char buf[static BENCH_INTERVAL_WORDS])
{
	if (x->low <= 0 && x->high >= 0)
		snprintf(buf, BENCH_INTERVAL_WORDS, "no more than %.2f %s", x->high, unit);
	else
		snprintf(buf, BENCH_INTERVAL_WORDS, "%+.2f (%.2f to %.2f) %s", x->value, x->low,
			 x->high, unit);
}
