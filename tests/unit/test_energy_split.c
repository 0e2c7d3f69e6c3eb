/* SPDX-License-Identifier: Apache-2.0 */
/* A device's energy by tenant, against loads of which each one's power is known. */
#include "daemon/energy/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "tests/check.h"

#define MOST	  8
#define REST	  120.0
#define SAMPLE_NS (20 * NS_PER_MS)
#define OFF_ALL	  0.02

static unsigned int seed;
static const double nobody[SPLIT_TENANTS];

static double pick(double least, double most)
{
	return least + (most - least) * rand_r(&seed) / RAND_MAX;
}

struct load {
	double watts;
	uint64_t slice_ns; /* how long it has the device at a time, about */
	int tenant;
	double true_j;
	uint64_t given_uj, busy_ns, busy_given_ns;
};

struct world {
	struct split split;
	struct load load[MOST];
	int n, owner;
	uint64_t left_ns; /* of the owner's slice */
	double all_j;
};

static void give(struct world *w, struct load *load)
{
	load->given_uj += split_give(&w->split, load->tenant, load->busy_ns - load->busy_given_ns, 0);
	load->busy_given_ns = load->busy_ns;
}

/* One sample: the owners take turns in it; nobody works with a chance of `idle`. */
static void sample(struct world *w, double noise)
{
	double part[SPLIT_TENANTS] = {0}, joules = REST * SAMPLE_NS / NS_PER_S;
	uint64_t busy[MOST] = {0};

	for (uint64_t at = 0; at < SAMPLE_NS;) {
		uint64_t ns = w->left_ns < SAMPLE_NS - at ? w->left_ns : SAMPLE_NS - at;

		busy[w->owner] += ns;
		at += ns;
		w->left_ns -= ns;
		if (!w->left_ns) {
			w->owner = (w->owner + 1) % w->n;
			w->left_ns = (uint64_t)(pick(0.7, 1.3) * (double)w->load[w->owner].slice_ns);
		}
	}
	for (int i = 0; i < w->n; i++) {
		struct load *load = &w->load[i];
		double s = (double)busy[i] / NS_PER_S;

		load->busy_ns += busy[i];
		load->true_j += load->watts * s;
		joules += load->watts * s;
		part[load->tenant] = (double)busy[i] / SAMPLE_NS;
	}
	w->all_j += joules;
	split_took(&w->split, (uint64_t)(joules * 1e6));
	split_learn(&w->split, joules * NS_PER_S / SAMPLE_NS * (1 + pick(-noise, noise)), part);
}

static void rest(struct world *w, int samples)
{
	for (int i = 0; i < samples; i++) {
		split_took(&w->split, (uint64_t)(REST * SAMPLE_NS / NS_PER_S * 1e6));
		w->all_j += REST * SAMPLE_NS / NS_PER_S;
		split_learn(&w->split, REST * (1 + pick(-0.01, 0.01)), nobody);
	}
}

static void join(struct world *w, double watts, uint64_t slice_ns)
{
	w->load[w->n++] = (struct load){
		.watts = watts, .slice_ns = slice_ns, .tenant = split_enter(&w->split)};
}

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	rest(w, 50);
	CHECK(w->split.rest_watts > 0.98 * REST && w->split.rest_watts < 1.02 * REST);
}

/*
 * Runs for so long. In the second half each is given its own within that part, and within a part of what
 * all of them took: noise is of the whole device.
 */
static void measure(struct world *w, int seconds, double noise, double off)
{
	double all_j = 0;

	for (int s = 0; s < seconds; s++) {
		if (s == seconds / 2)
			for (int i = 0; i < w->n; i++)
				w->load[i].true_j = w->load[i].given_uj = 0;
		for (int k = 0; k < 50; k++)
			sample(w, noise);
		for (int i = 0; i < w->n; i++)
			give(w, &w->load[i]);
	}
	for (int i = 0; i < w->n; i++)
		all_j += w->load[i].true_j;
	for (int i = 0; i < w->n; i++) {
		double true_j = w->load[i].true_j, given_j = (double)w->load[i].given_uj / 1e6;

		CHECK(given_j > true_j * (1 - off) - all_j * OFF_ALL);
		CHECK(given_j < true_j * (1 + off) + all_j * OFF_ALL);
	}
	CHECK(w->split.given_uj <= w->split.energy_uj);
}

static void check_alone(void)
{
	struct world w;

	begin(&w);
	join(&w, 500, NS_PER_S);
	measure(&w, 10, 0.1, 0.02);
}

/* Each has its own power, whatever the others draw and however long its turns are. */
static void check_turns(void)
{
	for (int i = 0; i < 200; i++) {
		struct world w;

		begin(&w);
		for (int k = 0; k < 2 + i % 4; k++) {
			double watts = pick(60, 600);

			join(&w, watts, (uint64_t)pick(3e6, 60e6));
		}
		measure(&w, 60, 0.08, 0.08);
	}
}

/* Those that always work at once have one power in common. */
static void check_together(void)
{
	struct split split = {.rest_watts = REST};
	int a = split_enter(&split), b = split_enter(&split);
	double part[SPLIT_TENANTS] = {0};

	part[a] = 0.75;
	part[b] = 0.25;
	for (int i = 0; i < 5000; i++)
		split_learn(&split, REST + 400, part);
	CHECK(split.tenant[a].watts > 399 && split.tenant[a].watts < 401);
	CHECK(split.tenant[b].watts > 399 && split.tenant[b].watts < 401);
}

/* A program that nobody measures is the device's own, and a tenant does not pay for it. */
static void check_outside(void)
{
	struct world w;

	begin(&w);
	join(&w, 300, NS_PER_S);
	measure(&w, 10, 0.05, 0.03);
	for (int i = 0; i < 500; i++) {
		split_took(&w.split, 10000000);
		split_learn(&w.split, REST + 380, nobody);
	}
	CHECK(w.split.tenant[0].watts < 310);
	/* It ends, and two seconds later all is as before. */
	rest(&w, 100);
	CHECK(w.split.rest_watts < 1.02 * REST);
	measure(&w, 10, 0.05, 0.05);
}

/* A number is another tenant's behind that, and nothing of the old one's sticks to it. */
static void check_leave(void)
{
	struct world w;

	begin(&w);
	join(&w, 600, 20 * NS_PER_MS);
	join(&w, 100, 30 * NS_PER_MS);
	measure(&w, 20, 0.05, 0.05);
	split_leave(&w.split, w.load[0].tenant);
	w.load[0] = (struct load){
		.watts = 50, .slice_ns = 20 * NS_PER_MS, .tenant = split_enter(&w.split)};
	measure(&w, 40, 0.05, 0.1);
	for (int i = 2; i < SPLIT_TENANTS; i++)
		CHECK(split_enter(&w.split) >= 0);
	CHECK_EQ(split_enter(&w.split), -ENOSPC);
}

/* Damaged bills give nobody more than there was, and nothing is less than nothing. */
static void check_damage(void)
{
	struct split split = {0};
	int tenant = split_enter(&split);
	double part[SPLIT_TENANTS] = {0};

	for (int i = 0; i < 1000; i++) {
		part[tenant] = pick(0, 1e-6);
		split_learn(&split, pick(0, 1000), part);
	}
	CHECK(split.tenant[tenant].watts >= 0);
	split_took(&split, 1000);
	CHECK(split_give(&split, tenant, UINT64_MAX, 0) <= 1000);
	split.tenant[tenant].watts = 1e300;
	split_give(&split, tenant, UINT64_MAX, 0);
	CHECK_EQ(split.given_uj, 1000);
	/* Energy that was given before is taken back from nobody. */
	split_took(&split, 1000);
	split.tenant[tenant].watts = 1;
	CHECK_EQ(split_give(&split, tenant, 1000000, 2000), 0);
	CHECK_EQ(split_give(&split, tenant, 1000000, 600), 400);
}

int main(void)
{
	seed = 7;
	check_alone();
	check_turns();
	check_together();
	check_outside();
	check_leave();
	check_damage();
	return 0;
}
