/* SPDX-License-Identifier: Apache-2.0 */
/* Calls are timed in batches, and the median over the batches is what counts. */
#ifndef ALLOT_BENCH_BATCH_H
#define ALLOT_BENCH_BATCH_H

#include <stddef.h>

struct batch_item {
	const char *name;
	void (*call)(void);
	int calls; /* in a batch */
	int each;  /* what is timed stands so often in a call; 0: once */
};

/* The process stays on the processor on which it happens to run. */
void batch_pin(void);
/* argv[1], if it is there and within 1 to `most`; `normal` without it; 0 otherwise. */
int batch_count(int argc, char **argv, int normal, int most);
/* Sorts. */
double batch_median(double *values, int n);
/* Nanoseconds of each item. The items take turns, so that a slow moment meets all of them. 0 or
 * -ENOMEM. */
int batch_measure(const struct batch_item *items, size_t n, int batches, double *ret_ns);
/* {"name": value, ...} and the end of the line. */
void batch_print(const struct batch_item *items, size_t n, const double *values);

#endif
