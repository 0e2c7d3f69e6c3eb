/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that people share a GPU for: a token loop, in which thousands of brief kernels come
 * first, and then for each token a graph, a small copy to the host and a wait. Nothing that is
 * learned of the brief kernels says how long the graph takes.
 */
#ifndef ALLOT_CLI_BENCH_TOKENS_H
#define ALLOT_CLI_BENCH_TOKENS_H

#include "cli/bench/pairs.h"

#define BENCH_TOKEN_US	  4000.0 /* of the device's time */
#define BENCH_TOKEN_CAPS  3
#define BENCH_TOKEN_PAIRS 3 /* without tenants, and by weights of 1:1 and 1:3 */

struct bench_tokens {
	struct bench_result alone;
	/* Each measurement has a new process, because earlier kernels are part of the question. */
	struct bench_token_cap {
		double target; /* of a load that is alone, as the share */
		struct bench_interval share;
		struct bench_result result;
	} cap[BENCH_TOKEN_CAPS];
	struct bench_pair pair[BENCH_TOKEN_PAIRS];
};

/* Estimated duration, with the kernels before the tokens. */
double bench_tokens_seconds(double seconds);
/* Measures each cap for `seconds`. 0, or -errno after a message. */
int bench_measure_tokens(struct bench_place *place, double seconds, struct bench_tokens *tokens);

#endif
