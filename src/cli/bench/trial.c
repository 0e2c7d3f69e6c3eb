/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/trial.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/now.h"
#include "ledger/tenant.h"

#define ALONE_SETTLE_S 0.2

void bench_trial_tenant(struct bench_place *place, struct bench_words *words,
			struct bench_tenant *ret)
{
	snprintf(ret->name, sizeof(ret->name), "bench-%d-%u", (int)getpid(), ++place->tenants);
	bench_words_add(words, "%s", place->self);
	bench_words_add(words, "run");
	bench_words_add(words, "--name");
	bench_words_add(words, "%s", ret->name);
}

void bench_trial_option(struct bench_words *words, const char *option, double value)
{
	bench_words_add(words, "%s", option);
	bench_words_add(words, "%.9g", value);
}

void bench_trial_load(const struct bench_place *place, struct bench_words *words, const char *form,
		      double kernel_us, double seconds, double warmup)
{
	if (words->n)
		bench_words_add(words, "--");
	bench_words_add(words, "%s", place->load);
	bench_words_add(words, "--wait");
	bench_words_add(words, "--canary");
	bench_words_add(words, "--form");
	bench_words_add(words, "%s", form);
	bench_trial_option(words, "--kernel-us", kernel_us);
	bench_trial_option(words, "--seconds", seconds);
	bench_trial_option(words, "--warm-up", warmup);
	if (place->loops_per_us > 0)
		bench_trial_option(words, "--loops-per-us", place->loops_per_us);
}

int bench_trial_open(struct bench_load *ret, struct bench_words *words)
{
	int r = bench_load_open(ret, words);

	bench_words_free(words);
	return r;
}

/* A load's own processes end a little after it, and until then the tenant is in use. */
void bench_trial_forget(const struct bench_place *place, const struct bench_tenant *tenant)
{
	if (!tenant->name[0])
		return;
	for (int i = 0; i < 200 && tenant_remove(place->runtime, tenant->name) == -EBUSY; i++)
		usleep(10000);
}

int bench_trial_one(struct bench_words *words, struct bench_result *ret)
{
	struct bench_load load;
	int r = bench_trial_open(&load, words);

	if (r < 0)
		return r;
	bench_load_go(&load, now_monotonic_ns() + BENCH_LEAD_NS);
	return bench_load_close(&load, ret);
}

int bench_trial_alone(struct bench_place *place, const char *form, double kernel_us,
		      struct bench_result *ret)
{
	struct bench_words words = {0};
	int r;

	bench_trial_load(place, &words, form, kernel_us, BENCH_ALONE_S, ALONE_SETTLE_S);
	r = bench_trial_one(&words, ret);
	if (r < 0)
		return r;
	if (place->loops_per_us <= 0)
		place->loops_per_us = ret->loops_per_us;
	return 0;
}

int bench_trial_go_both(struct bench_load load[2], uint64_t *ret_start_ns)
{
	uint64_t start_ns = now_monotonic_ns() + BENCH_LEAD_NS;
	int r = bench_load_go(&load[0], start_ns);

	if (!r)
		r = bench_load_go(&load[1], start_ns);
	if (!r)
		*ret_start_ns = start_ns;
	return r;
}

int bench_trial_close_both(struct bench_load load[2], struct bench_result ret[2])
{
	int r = bench_load_close(&load[0], &ret[0]);
	int second = bench_load_close(&load[1], r < 0 ? NULL : &ret[1]);

	return r < 0 ? r : second;
}

int bench_trial_open_both(struct bench_load load[2], struct bench_words words[2])
{
	int r = bench_trial_open(&load[0], &words[0]);

	if (r < 0) {
		bench_words_free(&words[1]);
		return r;
	}
	r = bench_trial_open(&load[1], &words[1]);
	if (r < 0)
		bench_load_close(&load[0], NULL);
	return r;
}

int bench_trial_set(const struct bench_place *place, const struct bench_tenant *tenant,
		    const char *option, double value)
{
	struct bench_words words = {0};
	int r;

	bench_words_add(&words, "%s", place->self);
	bench_words_add(&words, "set");
	bench_words_add(&words, "%s", tenant->name);
	bench_trial_option(&words, option, value);
	r = bench_call(&words);
	bench_words_free(&words);
	return r;
}
