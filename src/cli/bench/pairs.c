/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/pairs.h"

double bench_pair_part(const struct bench_pair *pair)
{
	unsigned int sum = pair->weight[0] + pair->weight[1];

	return sum ? (double)pair->weight[0] / sum : 0;
}

static void pairs_judge(struct bench_pair *pair, const struct bench_result result[2], double from_s,
			double to_s, double alone)
{
	for (int i = 0; i < 2; i++)
		bench_result_interval(&result[i], 1, from_s, to_s, alone, &pair->share[i]);
	bench_result_interval(result, 2, from_s, to_s, alone, &pair->together);
}

int bench_pair_without(struct bench_place *place, double alone, struct bench_pair *pair)
{
	struct bench_words words[2] = {{0}, {0}};
	struct bench_load load[2];
	uint64_t start_ns;
	int r;

	for (int i = 0; i < 2; i++)
		bench_trial_load(place, &words[i], pair->form, pair->kernel_us, BENCH_WITHOUT_S,
				 BENCH_SETTLE_S);
	r = bench_trial_open_both(load, words);
	if (r < 0)
		return r;
	bench_trial_go_both(load, &start_ns);
	r = bench_trial_close_both(load, pair->result);
	if (r < 0)
		return r;
	pairs_judge(pair, pair->result, BENCH_SETTLE_S, BENCH_WITHOUT_S, alone);
	for (int i = 0; i < 2; i++)
		bench_interval_set(&pair->share[i], pair->result[i].share / alone);
	bench_interval_set(&pair->together, pair->share[0].value + pair->share[1].value);
	return 0;
}

static int pairs_play(const struct bench_place *place, const struct bench_tenant *second,
		      struct bench_load load[2], const struct bench_pair *pair, unsigned int n)
{
	uint64_t start_ns;
	int r = bench_trial_go_both(load, &start_ns);

	for (unsigned int i = 1; !r && i < n; i++) {
		r = bench_sleep_until(start_ns + (uint64_t)(i * BENCH_BY_WEIGHT_S * 1e9));
		if (!r)
			r = bench_trial_set(place, second, "--weight", pair[i].weight[1]);
	}
	return r;
}

int bench_pair_by_weight(struct bench_place *place, double alone, struct bench_pair *pair,
			 unsigned int n)
{
	struct bench_words words[2] = {{0}, {0}};
	struct bench_tenant tenant[2] = {{""}, {""}};
	struct bench_load load[2];
	int r, closed;

	for (int i = 0; i < 2; i++) {
		bench_trial_tenant(place, &words[i], &tenant[i]);
		bench_words_add(&words[i], "--policy");
		bench_words_add(&words[i], "share");
		bench_trial_option(&words[i], "--weight", pair[0].weight[i]);
		bench_trial_load(place, &words[i], pair[0].form, pair[0].kernel_us,
				 n * BENCH_BY_WEIGHT_S, BENCH_SETTLE_S);
	}
	r = bench_trial_open_both(load, words);
	if (!r) {
		r = pairs_play(place, &tenant[1], load, pair, n);
		closed = bench_trial_close_both(load, pair[0].result);
		r = closed < 0 ? closed : r;
	}
	for (int i = 0; i < 2; i++)
		bench_trial_forget(place, &tenant[i]);
	for (unsigned int k = 0; !r && k < n; k++)
		pairs_judge(&pair[k], pair[0].result, k * BENCH_BY_WEIGHT_S + BENCH_SETTLE_S,
			    (k + 1) * BENCH_BY_WEIGHT_S, alone);
	return r;
}

double bench_pairs_seconds(void)
{
	return 2 * (BENCH_ALONE_S + BENCH_WEIGHTS * BENCH_BY_WEIGHT_S) + BENCH_WITHOUT_S +
	       8 * BENCH_START_S;
}

int bench_measure_pairs(struct bench_place *place, struct bench_pair pair[BENCH_PAIRS])
{
	static const struct bench_pair weights[BENCH_WEIGHTS] = {
		{.name = "weights 1:1", .form = "plain", .weight = {1, 1}},
		{.name = "weights 1:3", .form = "plain", .weight = {1, 3}},
		{.name = "weights 1:9", .form = "plain", .weight = {1, 9}},
	};
	static const double kernels_us[] = {1000, 100};
	struct bench_result alone;
	int r = 0;

	pair[0] = (struct bench_pair){
		.name = "no tenants", .form = "plain", .kernel_us = kernels_us[0]};
	for (int k = 0; !r && k < 2; k++) {
		struct bench_pair *first = &pair[1 + k * BENCH_WEIGHTS];

		for (int i = 0; i < BENCH_WEIGHTS; i++) {
			first[i] = weights[i];
			first[i].kernel_us = kernels_us[k];
		}
		r = bench_trial_alone(place, "plain", kernels_us[k], &alone);
		if (!r && !k)
			r = bench_pair_without(place, alone.share, &pair[0]);
		if (!r)
			r = bench_pair_by_weight(place, alone.share, first, BENCH_WEIGHTS);
	}
	return r;
}
