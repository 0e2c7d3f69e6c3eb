/* SPDX-License-Identifier: Apache-2.0 */
/* Two loads at once that always want the device: each one's share, by their weights. */
#ifndef ALLOT_CLI_BENCH_PAIRS_H
#define ALLOT_CLI_BENCH_PAIRS_H

#include "cli/bench/trial.h"

struct bench_pair {
	const char *name, *form; /* the load's, see allot-load */
	unsigned int weight[2];	 /* 0: no tenants, the driver decides */
	double kernel_us;
	struct bench_interval share[2], together; /* of a load that is alone */
	struct bench_result result[2]; /* of the whole run; with the first of its pairs alone */
};

/* The part that the first load is to have by the weights; 0 where the driver decides. */
double bench_pair_part(const struct bench_pair *pair);

/* Name, form and kernel_us are given. `alone` is the share that one load has by itself. */
#define BENCH_WITHOUT_S	  2.0
#define BENCH_BY_WEIGHT_S 3.0 /* for each weight */
int bench_pair_without(struct bench_place *place, double alone, struct bench_pair *pair);
/* Two tenants. The weights are given, too: the second tenant gets one of `n` after the other. */
int bench_pair_by_weight(struct bench_place *place, double alone, struct bench_pair *pair,
			 unsigned int n);

/*
 * The driver's own answer, then, changed while they run, weights of 1:1, 1:3 and 1:9, with kernels
 * of 1 ms; and the weights again with kernels of 0.1 ms. 0, or -errno after a message.
 */
#define BENCH_WEIGHTS 3
#define BENCH_PAIRS   (1 + 2 * BENCH_WEIGHTS)
double bench_pairs_seconds(void); /* estimated duration */
int bench_measure_pairs(struct bench_place *place, struct bench_pair pair[BENCH_PAIRS]);

#endif
