/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/record.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/now.h"

#define CANARY_NS      (2 * NS_PER_MS)
#define CANARY_FREE_NS NS_PER_MS

void load_sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Exact below two octaves, then HISTOGRAM_SUB entries to each octave. */
static unsigned int record_entry_of(uint64_t ns)
{
	unsigned int octave;

	if (ns < 2 * HISTOGRAM_SUB)
		return (unsigned int)ns;
	octave = 63 - (unsigned int)__builtin_clzll(ns) - 7;
	return octave * HISTOGRAM_SUB + (unsigned int)(ns >> octave);
}

static uint64_t record_ns_of(unsigned int entry)
{
	unsigned int octave = entry / HISTOGRAM_SUB;

	if (octave < 2)
		return entry;
	octave--;
	return (uint64_t)(entry - octave * HISTOGRAM_SUB) << octave;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	unsigned int entry = record_entry_of(ns);

	h->entry[entry < HISTOGRAM_ENTRIES ? entry : HISTOGRAM_ENTRIES - 1]++;
	h->n++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

static double histogram_us_at(const struct histogram *h, uint64_t rank)
{
	uint64_t seen = 0;

	if (rank >= h->n)
		return (double)h->max_ns / 1e3;
	for (unsigned int i = 0; h->n && i < HISTOGRAM_ENTRIES; i++) {
		seen += h->entry[i];
		if (seen >= rank)
			return (double)record_ns_of(i) / 1e3;
	}
	return 0;
}

double histogram_us(const struct histogram *h, unsigned int permille)
{
	return histogram_us_at(h, (h->n * permille + 999) / 1000);
}

double histogram_bound_us(const struct histogram *h, unsigned int permille, int side)
{
	double part = permille / 1e3, n = (double)h->n;
	double rank = n * part + side * 1.96 * sqrt(n * part * (1 - part)) + (side > 0);

	return histogram_us_at(h, rank > 1 ? (uint64_t)rank : 1);
}

bool record_open(struct record *ret, uint64_t from_ns, uint64_t window_ns, uint64_t to_ns,
		 uint64_t bin_ns, unsigned int abreast)
{
	*ret = (struct record){
		.from_ns = from_ns,
		.window_ns = window_ns,
		.to_ns = to_ns,
		.bin_ns = bin_ns,
		.abreast = abreast,
		.last_ns = from_ns,
	};
	ret->nbins = (size_t)((to_ns - from_ns + bin_ns - 1) / bin_ns);
	ret->bin_us = calloc(ret->nbins + 1, sizeof(*ret->bin_us));
	return ret->bin_us;
}

static void record_spread(struct record *r, uint64_t from_ns, uint64_t to_ns, double us)
{
	double per_ns = us / (double)(to_ns - from_ns);

	while (from_ns < to_ns) {
		size_t bin = (size_t)((from_ns - r->from_ns) / r->bin_ns);
		uint64_t end = r->from_ns + (bin + 1) * r->bin_ns;

		if (end > to_ns)
			end = to_ns;
		if (bin >= r->nbins)
			return;
		r->bin_us[bin] += per_ns * (double)(end - from_ns);
		from_ns = end;
	}
}

void record_done(struct record *r, uint64_t done_ns, unsigned int kernels, double kernel_us)
{
	uint64_t took_ns = (uint64_t)(kernels * kernel_us * 1e3 * r->abreast);
	uint64_t from_ns = done_ns > took_ns ? done_ns - took_ns : 0;

	if (from_ns < r->last_ns)
		from_ns = r->last_ns;
	if (from_ns >= done_ns)
		from_ns = done_ns - 1;
	if (from_ns >= r->from_ns)
		record_spread(r, from_ns, done_ns, kernels * kernel_us);
	r->last_ns = done_ns;
	if (done_ns < r->window_ns || done_ns >= r->to_ns)
		return;
	r->kernels += kernels;
	if (r->first_stamp_ns)
		r->stamped_kernels += kernels;
	else
		r->first_stamp_ns = done_ns;
	r->last_stamp_ns = done_ns;
}

double record_share(const struct record *r, double kernel_us)
{
	uint64_t span_ns = r->last_stamp_ns - r->first_stamp_ns;

	/* Too little to measure between completions: by the window. */
	if (r->stamped_kernels < 2 || span_ns < (r->to_ns - r->window_ns) / 2)
		return (double)r->kernels * kernel_us * 1e3 / (double)(r->to_ns - r->window_ns);
	return (double)r->stamped_kernels * kernel_us * 1e3 / (double)span_ns;
}

struct canary_span {
	struct canary *canary;
	uint64_t from_ns, to_ns;
};

static void *canary_run(void *arg)
{
	struct canary_span span = *(struct canary_span *)arg;

	free(arg);
	for (uint64_t due = span.from_ns; due < span.to_ns;) {
		uint64_t late;

		load_sleep_until(due);
		late = now_monotonic_ns() - due;
		if (late > CANARY_FREE_NS)
			span.canary->late_ns += late - CANARY_FREE_NS;
		if (late > span.canary->longest_ns)
			span.canary->longest_ns = late;
		due += CANARY_NS + late / CANARY_NS * CANARY_NS;
	}
	return NULL;
}

void canary_start(struct canary *canary, uint64_t from_ns, uint64_t to_ns)
{
	struct canary_span *span = malloc(sizeof(*span));
	pthread_t thread;

	if (!span)
		return;
	*span = (struct canary_span){canary, from_ns, to_ns};
	if (pthread_create(&thread, NULL, canary_run, span))
		free(span);
	else
		pthread_detach(thread);
}
