/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/steps.h"

#include <math.h>

#include "base/now.h"
#include "cli/bench/targets.h"

#define LATE_PART    0.02 /* beyond it a measurement is called doubtful */
#define REQUEST_S    2.5
#define REQUEST_US   1000
#define LAUNCH_S     0.4 /* in each round */
#define PROCESSOR_S  1.0
#define QUICK_PART   0.5 /* of both */
#define PROCESSOR_US 1000

static void steps_judge_phase(struct bench_caps *caps, unsigned int i)
{
	struct bench_phase *phase = &caps->phase[i];
	double from = i * caps->phase_s + BENCH_SETTLE_S, to = (i + 1) * caps->phase_s;
	double width = caps->result.bin_s;

	bench_result_interval(&caps->result, 1, from, to, caps->alone, &phase->share);
	phase->worst = phase->share.value;
	for (double at = from; at + 1 <= to + width / 2; at += width) {
		double share = bench_result_share(&caps->result, at, at + 1) / caps->alone;

		if (fabs(share - phase->target) > fabs(phase->worst - phase->target))
			phase->worst = share;
	}
	caps->mean_error += fabs(phase->share.value - phase->target) / caps->nphases;
	caps->worst_error = fmax(caps->worst_error, fabs(phase->worst - phase->target));
	caps->kept += fmin(1, phase->share.value / phase->target) / caps->nphases;
}

static int steps_play_caps(const struct bench_place *place, const struct bench_tenant *tenant,
			   struct bench_load *load, const struct bench_caps *caps)
{
	uint64_t start_ns = now_monotonic_ns() + BENCH_LEAD_NS;
	int r = bench_load_go(load, start_ns);

	for (unsigned int i = 1; !r && i < caps->nphases; i++) {
		r = bench_sleep_until(start_ns + (uint64_t)(i * caps->phase_s * 1e9));
		if (!r)
			r = bench_trial_set(place, tenant, "--compute",
					    caps->phase[i].target * 100);
	}
	return r;
}

double bench_caps_seconds(const struct bench_caps *caps)
{
	return BENCH_ALONE_S + caps->nphases * caps->phase_s + 2 * BENCH_START_S;
}

int bench_measure_caps(struct bench_place *place, struct bench_caps *caps)
{
	double seconds = caps->nphases * caps->phase_s;
	struct bench_words words = {0};
	struct bench_result alone;
	struct bench_load load;
	struct bench_tenant tenant = {""};
	int r, closed;

	if ((r = bench_trial_alone(place, "plain", caps->kernel_us, &alone)) < 0)
		return r;
	caps->alone = alone.share;
	bench_trial_tenant(place, &words, &tenant);
	bench_trial_option(&words, "--compute", caps->phase[0].target * 100);
	bench_words_add(&words, "--policy");
	bench_words_add(&words, "cap");
	bench_words_add(&words, "--controller");
	bench_words_add(&words, "%s", caps->controller);
	bench_trial_load(place, &words, "plain", caps->kernel_us, seconds, BENCH_SETTLE_S);
	r = bench_trial_open(&load, &words);
	if (!r) {
		r = steps_play_caps(place, &tenant, &load, caps);
		closed = bench_load_close(&load, r < 0 ? NULL : &caps->result);
		r = closed < 0 ? closed : r;
	}
	bench_trial_forget(place, &tenant);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < caps->nphases; i++)
		steps_judge_phase(caps, i);
	caps->late = caps->result.late_ms > LATE_PART * seconds * 1e3;
	return 0;
}

static void steps_add_option(struct bench_words *words, const char *option, const char *value)
{
	bench_words_add(words, "%s", option);
	bench_words_add(words, "%s", value);
}

/* A request beside a neighbour that always wants the device, both with allot or both without. */
static int steps_measure_request_beside(struct bench_place *place, struct bench_request *ret)
{
	struct bench_words words[2] = {{0}, {0}};
	struct bench_tenant tenant[2] = {{""}, {""}};
	struct bench_result result[2];
	struct bench_load load[2];
	uint64_t start_ns;
	int r;

	for (int i = 0; i < 2; i++) {
		if (ret->tenants) {
			bench_trial_tenant(place, &words[i], &tenant[i]);
			steps_add_option(&words[i], "--policy", "share");
			bench_trial_option(&words[i], "--weight", 1);
		}
		if (!i && ret->priority)
			steps_add_option(&words[i], "--priority", ret->priority);
		if (!i && ret->latency)
			steps_add_option(&words[i], "--latency", ret->latency);
		bench_trial_load(place, &words[i], i ? "plain" : "request",
			 i ? ret->neighbour_us : REQUEST_US, REQUEST_S, BENCH_SETTLE_S);
	}
	r = bench_trial_open_both(load, words);
	if (!r) {
		bench_trial_go_both(load, &start_ns);
		r = bench_trial_close_both(load, result);
	}
	for (int i = 0; i < 2; i++)
		bench_trial_forget(place, &tenant[i]);
	if (r < 0)
		return r;
	ret->p50_us = result[0].latency_p50_us;
	ret->p99_us = result[0].latency_p99_us;
	bench_result_interval(&result[1], 1, BENCH_SETTLE_S, REQUEST_S, 1, &ret->neighbour);
	bench_interval_set(&ret->neighbour, result[1].share);
	return 0;
}

static int steps_measure_request_alone(struct bench_place *place, struct bench_request *ret)
{
	struct bench_words words = {0};
	struct bench_result result;
	int r;

	bench_trial_load(place, &words, "request", REQUEST_US, REQUEST_S / 2, BENCH_SETTLE_S / 2);
	r = bench_trial_one(&words, &result);
	if (r < 0)
		return r;
	ret->p50_us = result.latency_p50_us;
	ret->p99_us = result.latency_p99_us;
	return 0;
}

double bench_requests_seconds(void)
{
	return REQUEST_S / 2 + (BENCH_REQUESTS - 1) * (REQUEST_S + 2 * BENCH_START_S) +
	       BENCH_START_S;
}

int bench_measure_requests(struct bench_place *place, struct bench_request row[BENCH_REQUESTS])
{
	static const struct bench_request requests[BENCH_REQUESTS] = {
		{.name = "alone"},
		{.name = "beside 1 ms kernels, no tenants", .neighbour_us = 1000},
		{.name = "beside 1 ms kernels, equal weights",
		 .neighbour_us = 1000,
		 .tenants = true,
		 .most_us = 20000 + BENCH_REQUEST_BEYOND_US,
		 .least = BENCH_NEIGHBOUR_PERCENT / 100},
		{.name = "beside 1 ms kernels, --latency 5ms",
		 .neighbour_us = 1000,
		 .tenants = true,
		 .latency = "5ms",
		 .most_us = 5000 + BENCH_REQUEST_BEYOND_US,
		 .least = BENCH_NEIGHBOUR_PERCENT / 100},
		{.name = "beside 1 ms kernels, high priority",
		 .neighbour_us = 1000,
		 .tenants = true,
		 .priority = "high",
		 .most_us = BENCH_REQUEST_LONG_US,
		 .least = BENCH_NEIGHBOUR_PERCENT / 100},
		{.name = "beside 0.2 ms kernels, no tenants", .neighbour_us = 200},
		{.name = "beside 0.2 ms kernels, high priority",
		 .neighbour_us = 200,
		 .tenants = true,
		 .priority = "high",
		 .most_us = BENCH_REQUEST_SHORT_US},
	};
	int r = 0;

	for (int i = 0; !r && i < BENCH_REQUESTS; i++) {
		row[i] = requests[i];
		r = row[i].neighbour_us > 0 ? steps_measure_request_beside(place, &row[i])
					    : steps_measure_request_alone(place, &row[i]);
	}
	return r;
}

/* One load from its start to its end, in a tenant of its own where the row says so. */
static int steps_run_launches(struct bench_place *place, const struct bench_launch *row, bool lean,
			      double seconds, struct bench_result *ret)
{
	struct bench_words words = {0};
	struct bench_tenant tenant = {""};
	int r;

	if (row->compute >= 0)
		bench_trial_tenant(place, &words, &tenant);
	if (row->compute > 0)
		bench_trial_option(&words, "--compute", row->compute);
	if (lean) {
		bench_trial_load(place, &words, "plain", PROCESSOR_US, seconds, seconds / 4);
		bench_words_add(&words, "--lean");
	} else {
		bench_trial_load(place, &words, "sync", 1, seconds, seconds / 4);
	}
	r = bench_trial_one(&words, ret);
	bench_trial_forget(place, &tenant);
	return r;
}

/* Results of all rounds for one row. */
struct steps_launches {
	double p50_us[BENCH_ROUNDS], p99_us[BENCH_ROUNDS], added_us[BENCH_ROUNDS];
	double processor[BENCH_ROUNDS];
};

static int steps_measure_launch(struct bench_place *place, const struct bench_launch *row,
				double part, unsigned int round, struct steps_launches *found)
{
	struct bench_result result;
	int r = steps_run_launches(place, row, false, part * LAUNCH_S, &result);

	if (r < 0)
		return r;
	found->p50_us[round] = result.launch_p50_us;
	found->p99_us[round] = result.launch_p99_us;
	r = steps_run_launches(place, row, true, part * PROCESSOR_S, &result);
	if (r < 0)
		return r;
	found->processor[round] = result.cpu_seconds / (part * PROCESSOR_S);
	return 0;
}

double bench_launches_seconds(bool quick)
{
	double part = quick ? QUICK_PART : 1;

	return BENCH_ROUNDS * BENCH_LAUNCHES *
	       (part * (LAUNCH_S + PROCESSOR_S) + 2 * BENCH_START_S);
}

/*
 * Launches of kernels so short that the gate has no reason to hold them, each waited for; and the
 * processor time of a program that only keeps the device busy. Each round has all rows, since
 * processes differ by more, even without a tenant, than the effect that is measured.
 */
int bench_measure_launches(struct bench_place *place, bool quick,
			   struct bench_launch row[BENCH_LAUNCHES])
{
	static const struct bench_launch launches[BENCH_LAUNCHES] = {
		{.name = "no tenant", .compute = -1},
		{.name = "tenant without a compute limit"},
		{.name = "tenant with --compute 25", .compute = 25},
		{.name = "tenant with --compute 90", .compute = 90},
	};
	struct steps_launches found[BENCH_LAUNCHES] = {0};

	for (unsigned int round = 0; round < BENCH_ROUNDS; round++)
		for (int i = 0; i < BENCH_LAUNCHES; i++) {
			int r = steps_measure_launch(place, &launches[i], quick ? QUICK_PART : 1,
						     round, &found[i]);

			if (r < 0)
				return r;
			found[i].added_us[round] = found[i].p50_us[round] - found[0].p50_us[round];
		}
	for (int i = 0; i < BENCH_LAUNCHES; i++) {
		row[i] = launches[i];
		bench_interval_of_median(found[i].p50_us, BENCH_ROUNDS, &row[i].p50_us);
		bench_interval_of_median(found[i].p99_us, BENCH_ROUNDS, &row[i].p99_us);
		bench_interval_of_median(found[i].added_us, BENCH_ROUNDS, &row[i].added_us);
		bench_interval_of_median(found[i].processor, BENCH_ROUNDS, &row[i].processor);
	}
	return 0;
}
