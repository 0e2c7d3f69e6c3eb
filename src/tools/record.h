/* SPDX-License-Identifier: Apache-2.0 */
/* A load's notes of itself: durations, device time by short bins of it, late wake-ups. */
#ifndef ALLOT_TOOLS_RECORD_H
#define ALLOT_TOOLS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_SUB	  128 /* to an octave: better than one percent */
#define HISTOGRAM_ENTRIES (58 * HISTOGRAM_SUB)

void load_sleep_until(uint64_t ns);

/* Of durations. Zeroed it is empty. */
struct histogram {
	uint64_t n, max_ns;
	uint32_t entry[HISTOGRAM_ENTRIES];
};
void histogram_add(struct histogram *h, uint64_t ns);
/*
 * Returns the duration, in us, that `permille` thousandths of them do not exceed; 0 if there are
 * none.
 */
double histogram_us(const struct histogram *h, unsigned int permille);
/*
 * The true percentile is, with 95 %, between those of the durations whose ranks are 1.96 standard
 * deviations below and above its own: `side` -1, 1. As if each were independent of the one before.
 */
double histogram_bound_us(const struct histogram *h, unsigned int permille, int side);

/* Device time by bins from `from_ns`; figures of the window from `window_ns` to `to_ns`. */
struct record {
	uint64_t from_ns, window_ns, to_ns, bin_ns;
	unsigned int abreast; /* processes that do such work at once */
	size_t nbins;
	double *bin_us;
	uint64_t last_ns;					 /* when work was last done */
	uint64_t kernels;					 /* done in the window */
	uint64_t first_stamp_ns, last_stamp_ns, stamped_kernels; /* done after the first stamp */
};
/* false without memory. */
bool record_open(struct record *ret, uint64_t from_ns, uint64_t window_ns, uint64_t to_ns,
		 uint64_t bin_ns, unsigned int abreast);
/*
 * Records that `kernels` kernels of `kernel_us` each were done at that instant. Their time is
 * spread backwards, at most to the previous completion, so that a bin shows the device's work and
 * not its ends. Each takes as many times its time alone as there are processes, which share the
 * device.
 */
void record_done(struct record *r, uint64_t done_ns, unsigned int kernels, double kernel_us);
/* Part of the window in which the device worked, by what was done between two completions. */
double record_share(const struct record *r, double kernel_us);

/*
 * A thread that only sleeps, and notes how much later than asked it wakes: what it suffers, all
 * threads here suffer, so a measurement of this time says nothing.
 */
struct canary {
	uint64_t late_ns, longest_ns; /* in all beyond a millisecond each; the longest */
};
void canary_start(struct canary *canary, uint64_t from_ns, uint64_t to_ns);

#endif
