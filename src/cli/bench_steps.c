/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_steps.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "cli/bench_targets.h"
#include "cli/say.h"
#include "ledger/tenant.h"

#define LEAD_NS	     UINT64_C(50000000) /* from all being ready to the start */
#define SETTLE_S     0.5		/* of a phase are not looked at */
#define LATE_PART    0.02		/* beyond it a measurement is called doubtful */
#define PAIR_S	     3.0
#define REQUEST_S    2.5
#define REQUEST_US   1000
#define LAUNCH_S     1.0
#define PROCESSOR_S  2.0
#define PROCESSOR_US 1000

struct tenant {
	char name[64];
};

/* `allot run` with a name that nobody else has. */
static void add_run(struct bench_place *place, struct bench_words *words, struct tenant *ret)
{
	snprintf(ret->name, sizeof(ret->name), "bench-%d-%u", (int)getpid(), ++place->tenants);
	bench_words_add(words, "%s", place->self);
	bench_words_add(words, "run");
	bench_words_add(words, "--name");
	bench_words_add(words, "%s", ret->name);
}

static void add(struct bench_words *words, const char *option, double value)
{
	bench_words_add(words, "%s", option);
	bench_words_add(words, "%.9g", value);
}

/* The load itself, after the tenant's words if there are any. */
static void add_load(const struct bench_place *place, struct bench_words *words, const char *form,
		     double kernel_us, double seconds, double warmup)
{
	if (words->n)
		bench_words_add(words, "--");
	bench_words_add(words, "%s", place->load);
	bench_words_add(words, "--wait");
	bench_words_add(words, "--canary");
	bench_words_add(words, "--form");
	bench_words_add(words, "%s", form);
	add(words, "--kernel-us", kernel_us);
	add(words, "--seconds", seconds);
	add(words, "--warm-up", warmup);
	if (place->loops_per_us > 0)
		add(words, "--loops-per-us", place->loops_per_us);
}

static int open_load(struct bench_load *ret, struct bench_words *words)
{
	int r = bench_load_open(ret, words);

	bench_words_free(words);
	return r;
}

/* A load's own processes end a little after it, and until then the tenant is in use. */
static void forget(const struct bench_place *place, const struct tenant *tenant)
{
	if (!tenant->name[0])
		return;
	for (int i = 0; i < 200 && tenant_remove(place->runtime, tenant->name) == -EBUSY; i++)
		usleep(10000);
}

/* One load from its start to its end. */
static int run_one(struct bench_words *words, struct bench_result *ret)
{
	struct bench_load load;

	if (open_load(&load, words) < 0)
		return -1;
	bench_load_go(&load, now_monotonic_ns() + LEAD_NS);
	return bench_load_close(&load, ret);
}

static int go_both(struct bench_load load[2], uint64_t *ret_start_ns)
{
	*ret_start_ns = now_monotonic_ns() + LEAD_NS;
	return bench_load_go(&load[0], *ret_start_ns) < 0 ||
			       bench_load_go(&load[1], *ret_start_ns) < 0
		       ? -1
		       : 0;
}

static int close_both(struct bench_load load[2], struct bench_result ret[2])
{
	int r = bench_load_close(&load[0], &ret[0]);

	return bench_load_close(&load[1], r < 0 ? NULL : &ret[1]) < 0 ? -1 : r;
}

static int open_both(struct bench_load load[2], struct bench_words words[2])
{
	if (open_load(&load[0], &words[0]) < 0) {
		bench_words_free(&words[1]);
		return -1;
	}
	if (open_load(&load[1], &words[1]) < 0) {
		bench_load_close(&load[0], NULL);
		return -1;
	}
	return 0;
}

int bench_alone(struct bench_place *place, double kernel_us, double *ret_share)
{
	struct bench_words words = {0};
	struct bench_result result;

	add_load(place, &words, "plain", kernel_us, 1.2, 0.2);
	if (run_one(&words, &result) < 0)
		return -1;
	if (place->loops_per_us <= 0)
		place->loops_per_us = result.loops_per_us;
	*ret_share = result.share;
	return 0;
}

static int set(const struct bench_place *place, const struct tenant *tenant, const char *option,
	       double value)
{
	struct bench_words words = {0};
	int r;

	bench_words_add(&words, "%s", place->self);
	bench_words_add(&words, "set");
	bench_words_add(&words, "%s", tenant->name);
	add(&words, option, value);
	r = bench_call(&words);
	bench_words_free(&words);
	return r;
}

static void judge_phase(struct bench_caps *caps, unsigned int i)
{
	struct bench_phase *phase = &caps->phase[i];
	double from = i * caps->phase_s + SETTLE_S, to = (i + 1) * caps->phase_s;
	double width = caps->result.bin_s;

	phase->share = bench_result_share(&caps->result, from, to) / caps->alone;
	phase->worst = phase->share;
	for (double at = from; at + 1 <= to + width / 2; at += width) {
		double share = bench_result_share(&caps->result, at, at + 1) / caps->alone;

		if (fabs(share - phase->target) > fabs(phase->worst - phase->target))
			phase->worst = share;
	}
	caps->mean_error += fabs(phase->share - phase->target) / caps->nphases;
	caps->worst_error = fmax(caps->worst_error, fabs(phase->worst - phase->target));
	caps->kept += fmin(1, phase->share / phase->target) / caps->nphases;
}

static int play_caps(const struct bench_place *place, const struct tenant *tenant,
		     struct bench_load *load, const struct bench_caps *caps)
{
	uint64_t start_ns = now_monotonic_ns() + LEAD_NS;

	if (bench_load_go(load, start_ns) < 0)
		return -1;
	for (unsigned int i = 1; i < caps->nphases; i++)
		if (bench_sleep_until(start_ns + (uint64_t)(i * caps->phase_s * 1e9)) < 0 ||
		    set(place, tenant, "--compute", caps->phase[i].target * 100) < 0)
			return -1;
	return 0;
}

int bench_measure_caps(struct bench_place *place, struct bench_caps *caps)
{
	double seconds = caps->nphases * caps->phase_s;
	struct bench_words words = {0};
	struct bench_load load;
	struct tenant tenant = {""};
	int r;

	add_run(place, &words, &tenant);
	add(&words, "--compute", caps->phase[0].target * 100);
	bench_words_add(&words, "--policy");
	bench_words_add(&words, "cap");
	bench_words_add(&words, "--controller");
	bench_words_add(&words, "%s", caps->controller);
	add_load(place, &words, "plain", caps->kernel_us, seconds, SETTLE_S);
	r = open_load(&load, &words);
	if (!r) {
		r = play_caps(place, &tenant, &load, caps);
		r = bench_load_close(&load, r < 0 ? NULL : &caps->result) < 0 ? -1 : r;
	}
	forget(place, &tenant);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < caps->nphases; i++)
		judge_phase(caps, i);
	caps->late = caps->result.late_ms > LATE_PART * seconds * 1e3;
	return 0;
}

/* Two loads without allot. */
static int pair_native(struct bench_place *place, double alone, struct bench_pair *ret)
{
	struct bench_words words[2] = {{0}, {0}};
	struct bench_load load[2];
	uint64_t start_ns;

	for (int i = 0; i < 2; i++)
		add_load(place, &words[i], "plain", ret->kernel_us, PAIR_S * 2 / 3, SETTLE_S);
	if (open_both(load, words) < 0)
		return -1;
	go_both(load, &start_ns);
	if (close_both(load, ret->result) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		ret->share[i] = ret->result[i].share / alone;
	return 0;
}

static int play_pairs(const struct bench_place *place, const struct tenant *second,
		      struct bench_load load[2], const struct bench_pair pair[static BENCH_WEIGHTS])
{
	uint64_t start_ns;
	int r = go_both(load, &start_ns);

	for (int i = 1; !r && i < BENCH_WEIGHTS; i++) {
		r = bench_sleep_until(start_ns + (uint64_t)(i * PAIR_S * 1e9));
		if (!r)
			r = set(place, second, "--weight", pair[i].weight[1]);
	}
	return r;
}

/* Two tenants, of which the second gets one weight after the other. */
static int pair_tenants(struct bench_place *place, double alone,
			struct bench_pair pair[static BENCH_WEIGHTS])
{
	struct bench_words words[2] = {{0}, {0}};
	struct tenant tenant[2] = {{""}, {""}};
	struct bench_load load[2];
	int r;

	for (int i = 0; i < 2; i++) {
		add_run(place, &words[i], &tenant[i]);
		bench_words_add(&words[i], "--policy");
		bench_words_add(&words[i], "share");
		add(&words[i], "--weight", pair[0].weight[i]);
		add_load(place, &words[i], "plain", pair[0].kernel_us, BENCH_WEIGHTS * PAIR_S,
			 SETTLE_S);
	}
	r = open_both(load, words);
	if (!r) {
		r = play_pairs(place, &tenant[1], load, pair);
		r = close_both(load, pair[0].result) < 0 ? -1 : r;
	}
	for (int i = 0; i < 2; i++) {
		forget(place, &tenant[i]);
		for (int k = 0; !r && k < BENCH_WEIGHTS; k++)
			pair[k].share[i] =
				bench_result_share(&pair[0].result[i], k * PAIR_S + SETTLE_S,
						   (k + 1) * PAIR_S) /
				alone;
	}
	return r;
}

int bench_measure_pairs(struct bench_place *place, struct bench_pair ret[BENCH_PAIRS])
{
	static const struct bench_pair weights[BENCH_WEIGHTS] = {
		{.name = "weights 1:1", .weight = {1, 1}},
		{.name = "weights 1:3", .weight = {1, 3}},
		{.name = "weights 1:9", .weight = {1, 9}},
	};
	static const double kernels_us[] = {1000, 100};
	double alone;

	ret[0] = (struct bench_pair){.name = "no tenants", .kernel_us = kernels_us[0]};
	for (int k = 0; k < 2; k++) {
		struct bench_pair *first = &ret[1 + k * BENCH_WEIGHTS];

		for (int i = 0; i < BENCH_WEIGHTS; i++) {
			first[i] = weights[i];
			first[i].kernel_us = kernels_us[k];
		}
		if (bench_alone(place, kernels_us[k], &alone) < 0 ||
		    (!k && pair_native(place, alone, &ret[0]) < 0) ||
		    pair_tenants(place, alone, first) < 0)
			return -1;
	}
	return 0;
}

/* A request beside a neighbour that always wants the device, both with allot or both without. */
static int request_beside(struct bench_place *place, struct bench_request *ret)
{
	bool tenants = ret->most_us > 0;
	struct bench_words words[2] = {{0}, {0}};
	struct tenant tenant[2] = {{""}, {""}};
	struct bench_result result[2];
	struct bench_load load[2];
	uint64_t start_ns;
	int r;

	for (int i = 0; i < 2; i++) {
		if (tenants) {
			add_run(place, &words[i], &tenant[i]);
			bench_words_add(&words[i], "--policy");
			bench_words_add(&words[i], "share");
			add(&words[i], "--weight", 1);
			bench_words_add(&words[i], "--priority");
			bench_words_add(&words[i], "%s", i ? "normal" : "high");
		}
		add_load(place, &words[i], i ? "plain" : "request",
			 i ? ret->neighbour_us : REQUEST_US, REQUEST_S, SETTLE_S);
	}
	r = open_both(load, words);
	if (!r) {
		go_both(load, &start_ns);
		r = close_both(load, result);
	}
	for (int i = 0; i < 2; i++)
		forget(place, &tenant[i]);
	if (r < 0)
		return r;
	ret->p50_us = result[0].latency_p50_us;
	ret->p99_us = result[0].latency_p99_us;
	ret->neighbour = result[1].share;
	return 0;
}

static int request_alone(struct bench_place *place, struct bench_request *ret)
{
	struct bench_words words = {0};
	struct bench_result result;

	add_load(place, &words, "request", REQUEST_US, REQUEST_S / 2, SETTLE_S / 2);
	if (run_one(&words, &result) < 0)
		return -1;
	ret->p50_us = result.latency_p50_us;
	ret->p99_us = result.latency_p99_us;
	return 0;
}

int bench_measure_requests(struct bench_place *place, struct bench_request ret[BENCH_REQUESTS])
{
	static const struct bench_request requests[BENCH_REQUESTS] = {
		{.name = "alone"},
		{.name = "beside 1 ms kernels, no tenants", .neighbour_us = 1000},
		{.name = "beside 1 ms kernels, high priority",
		 .neighbour_us = 1000,
		 .most_us = BENCH_REQUEST_LONG_US,
		 .least = BENCH_NEIGHBOUR_PERCENT / 100},
		{.name = "beside 0.2 ms kernels, no tenants", .neighbour_us = 200},
		{.name = "beside 0.2 ms kernels, high priority",
		 .neighbour_us = 200,
		 .most_us = BENCH_REQUEST_SHORT_US},
	};

	for (int i = 0; i < BENCH_REQUESTS; i++) {
		ret[i] = requests[i];
		if ((ret[i].neighbour_us > 0 ? request_beside(place, &ret[i])
					     : request_alone(place, &ret[i])) < 0)
			return -1;
	}
	return 0;
}

/* One load from its start to its end, in a tenant of its own where the row says so. */
static int run_launches(struct bench_place *place, const struct bench_launch *row, bool lean,
			struct bench_result *ret)
{
	struct bench_words words = {0};
	struct tenant tenant = {""};
	int r;

	if (row->compute >= 0)
		add_run(place, &words, &tenant);
	if (row->compute > 0)
		add(&words, "--compute", row->compute);
	if (lean) {
		add_load(place, &words, "plain", PROCESSOR_US, PROCESSOR_S, SETTLE_S);
		bench_words_add(&words, "--lean");
	} else {
		add_load(place, &words, "sync", 1, LAUNCH_S, LAUNCH_S / 4);
	}
	r = run_one(&words, ret);
	forget(place, &tenant);
	return r;
}

/*
 * Launches of kernels so short that the gate has no reason to hold them, and each waited for; and
 * what a program takes of a processor that does nothing but keep the device busy.
 */
int bench_measure_launches(struct bench_place *place, struct bench_launch ret[BENCH_LAUNCHES])
{
	static const struct bench_launch launches[BENCH_LAUNCHES] = {
		{.name = "no tenant", .compute = -1},
		{.name = "tenant without a compute limit"},
		{.name = "tenant with --compute 25", .compute = 25},
		{.name = "tenant with --compute 90", .compute = 90},
	};

	for (int i = 0; i < BENCH_LAUNCHES; i++) {
		struct bench_result result;

		ret[i] = launches[i];
		if (run_launches(place, &ret[i], false, &result) < 0)
			return -1;
		ret[i].p50_us = result.launch_p50_us;
		ret[i].p99_us = result.launch_p99_us;
		if (run_launches(place, &ret[i], true, &result) < 0)
			return -1;
		ret[i].processor = result.cpu_seconds / PROCESSOR_S;
	}
	return 0;
}
