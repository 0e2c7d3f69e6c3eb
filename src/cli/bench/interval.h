/* SPDX-License-Identifier: Apache-2.0 */
/* A measured quantity with the interval that it may be in, and how people read it. */
#ifndef ALLOT_CLI_BENCH_INTERVAL_H
#define ALLOT_CLI_BENCH_INTERVAL_H

struct bench_interval {
	double value, low, high; /* low <= value <= high */
};

/* The most values that bench_interval_of_median takes. */
#define BENCH_VALUES 32

/*
 * The median of `n` values, and two of them between which the true median is with 95 % or more, by
 * their ranks (the sign test), whatever the values' distribution. Of fewer than six: the least and
 * the greatest, which hold it with less.
 */
void bench_interval_of_median(const double *values, unsigned int n, struct bench_interval *ret);

/* Sets the value, and widens the interval where it is not within. */
void bench_interval_set(struct bench_interval *x, double value);

#define BENCH_INTERVAL_WORDS 64
/* "25.0 (24.5 to 25.6)": each value times `scale`, with `decimals` decimals; then the unit. */
void bench_interval_say(const struct bench_interval *x, double scale, int decimals,
			const char *unit, char buf[static BENCH_INTERVAL_WORDS]);
/*
 * A difference: "+1.50 (1.20 to 1.90) us", or, where it may as well be none, "no more than 1.20
 * us": the value itself is noise then.
 */
void bench_interval_say_added(const struct bench_interval *x, const char *unit,
			      char buf[static BENCH_INTERVAL_WORDS]);

#endif
