/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_steps.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/say.h"
#include "ledger/tenant.h"

#define LEAD_NS	     UINT64_C(50000000) /* from all being ready to the start */
#define SETTLE_S     0.5		/* of a phase are not looked at */
#define LATE_PART    0.02		/* beyond it a measurement is called doubtful */
#define PAIR_S	     3.0
#define REQUEST_S    2.5
#define LAUNCH_S     1.0
#define NEIGHBOUR_US 1000

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
	bench_load_go(&load, bench_now_ns() + LEAD_NS);
	return bench_load_close(&load, ret);
}

static int go_both(struct bench_load load[2], uint64_t *ret_start_ns)
{
	*ret_start_ns = bench_now_ns() + LEAD_NS;
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
	uint64_t start_ns = bench_now_ns() + LEAD_NS;

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
static int pair_native(struct bench_place *place, struct bench_pair *ret)
{
	struct bench_words words[2] = {{0}, {0}};
	struct bench_load load[2];
	uint64_t start_ns;

	for (int i = 0; i < 2; i++)
		add_load(place, &words[i], "plain", NEIGHBOUR_US, PAIR_S * 2 / 3, SETTLE_S);
	if (open_both(load, words) < 0)
		return -1;
	go_both(load, &start_ns);
	if (close_both(load, ret->result) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		ret->share[i] = ret->result[i].share;
	return 0;
}

/* Two tenants of the same weight, of which the second then gets another. */
static int pair_tenants(struct bench_place *place, struct bench_pair *even, struct bench_pair *odd)
{
	struct bench_words words[2] = {{0}, {0}};
	struct tenant tenant[2] = {{""}, {""}};
	struct bench_load load[2];
	uint64_t start_ns;
	int r;

	for (int i = 0; i < 2; i++) {
		add_run(place, &words[i], &tenant[i]);
		bench_words_add(&words[i], "--policy");
		bench_words_add(&words[i], "share");
		add(&words[i], "--weight", even->weight[i]);
		add_load(place, &words[i], "plain", NEIGHBOUR_US, 2 * PAIR_S, SETTLE_S);
	}
	r = open_both(load, words);
	if (!r) {
		r = go_both(load, &start_ns);
		if (!r)
			r = bench_sleep_until(start_ns + (uint64_t)(PAIR_S * 1e9));
		if (!r)
			r = set(place, &tenant[1], "--weight", odd->weight[1]);
		r = close_both(load, even->result) < 0 ? -1 : r;
	}
	for (int i = 0; i < 2; i++) {
		forget(place, &tenant[i]);
		odd->result[i] = even->result[i];
		even->share[i] = bench_result_share(&even->result[i], SETTLE_S, PAIR_S);
		odd->share[i] = bench_result_share(&odd->result[i], PAIR_S + SETTLE_S, 2 * PAIR_S);
	}
	return r;
}

int bench_measure_pairs(struct bench_place *place, struct bench_pair ret[BENCH_PAIRS])
{
	ret[0] = (struct bench_pair){.name = "no tenants"};
	ret[1] = (struct bench_pair){.name = "weights 1:1", .weight = {1, 1}};
	ret[2] = (struct bench_pair){.name = "weights 1:3", .weight = {1, 3}};
	return pair_native(place, &ret[0]) < 0 ? -1 : pair_tenants(place, &ret[1], &ret[2]);
}

/* A request beside a neighbour that always wants the device, both with allot or both without. */
static int request_beside(struct bench_place *place, bool tenants, struct bench_request *ret)
{
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
		add_load(place, &words[i], i ? "plain" : "request", NEIGHBOUR_US, REQUEST_S,
			 SETTLE_S);
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

int bench_measure_requests(struct bench_place *place, struct bench_request ret[BENCH_REQUESTS])
{
	struct bench_words words = {0};
	struct bench_result result;

	ret[0] = (struct bench_request){.name = "alone", .neighbour = -1};
	ret[1] = (struct bench_request){.name = "beside a neighbour, no tenants"};
	ret[2] = (struct bench_request){.name = "beside a neighbour, high priority"};
	add_load(place, &words, "request", NEIGHBOUR_US, REQUEST_S / 2, SETTLE_S / 2);
	if (run_one(&words, &result) < 0)
		return -1;
	ret[0].p50_us = result.latency_p50_us;
	ret[0].p99_us = result.latency_p99_us;
	return request_beside(place, false, &ret[1]) < 0 ? -1
							 : request_beside(place, true, &ret[2]);
}

/* Launches of kernels so short that the gate has no reason to hold them, and each waited for. */
int bench_measure_launches(struct bench_place *place, struct bench_launch ret[BENCH_LAUNCHES])
{
	static const char *const names[BENCH_LAUNCHES] = {
		"no tenant", "tenant without a compute limit", "tenant with --compute 90"};

	for (int i = 0; i < BENCH_LAUNCHES; i++) {
		struct bench_words words = {0};
		struct tenant tenant = {""};
		struct bench_result result;
		int r;

		if (i)
			add_run(place, &words, &tenant);
		if (i == 2)
			add(&words, "--compute", 90);
		add_load(place, &words, "sync", 1, LAUNCH_S, LAUNCH_S / 4);
		r = run_one(&words, &result);
		forget(place, &tenant);
		if (r < 0)
			return r;
		ret[i] =
			(struct bench_launch){names[i], result.launch_p50_us, result.launch_p99_us};
	}
	return 0;
}
