/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/tokens.h"

#define FORM	  "token"
#define KERNEL_US (BENCH_TOKEN_US / 50) /* as many kernels as allot-load puts into a graph */

static int tokens_measure_cap(struct bench_place *place, double seconds, double alone,
			      struct bench_token_cap *cap)
{
	struct bench_words words = {0};
	struct bench_tenant tenant;
	int r;

	bench_trial_tenant(place, &words, &tenant);
	bench_trial_option(&words, "--compute", cap->target * 100);
	bench_words_add(&words, "--policy");
	bench_words_add(&words, "cap");
	bench_trial_load(place, &words, FORM, KERNEL_US, seconds, BENCH_SETTLE_S);
	r = bench_trial_one(&words, &cap->result);
	bench_trial_forget(place, &tenant);
	if (r < 0)
		return r;
	bench_result_interval(&cap->result, 1, BENCH_SETTLE_S, seconds, alone, &cap->share);
	bench_interval_set(&cap->share, cap->result.share / alone);
	return 0;
}

double bench_tokens_seconds(double seconds)
{
	return BENCH_ALONE_S + BENCH_TOKEN_CAPS * seconds + BENCH_WITHOUT_S +
	       (BENCH_TOKEN_PAIRS - 1) * BENCH_BY_WEIGHT_S +
	       (1 + BENCH_TOKEN_CAPS + 4) * BENCH_START_S;
}

int bench_measure_tokens(struct bench_place *place, double seconds, struct bench_tokens *tokens)
{
	static const double caps[BENCH_TOKEN_CAPS] = {0.25, 0.5, 0.75};
	static const struct bench_pair pairs[BENCH_TOKEN_PAIRS] = {
		{.name = "no tenants", .form = FORM, .kernel_us = KERNEL_US},
		{.name = "weights 1:1", .form = FORM, .kernel_us = KERNEL_US, .weight = {1, 1}},
		{.name = "weights 1:3", .form = FORM, .kernel_us = KERNEL_US, .weight = {1, 3}},
	};
	int r = bench_trial_alone(place, FORM, KERNEL_US, &tokens->alone);

	for (int i = 0; !r && i < BENCH_TOKEN_CAPS; i++) {
		tokens->cap[i].target = caps[i];
		r = tokens_measure_cap(place, seconds, tokens->alone.share, &tokens->cap[i]);
	}
	for (int i = 0; i < BENCH_TOKEN_PAIRS; i++)
		tokens->pair[i] = pairs[i];
	if (!r)
		r = bench_pair_without(place, tokens->alone.share, &tokens->pair[0]);
	if (!r)
		r = bench_pair_by_weight(place, tokens->alone.share, &tokens->pair[1],
					 BENCH_TOKEN_PAIRS - 1);
	return r;
}
