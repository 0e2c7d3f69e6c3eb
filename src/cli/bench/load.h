/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `allot bench`'s loads: processes of allot-load, started with or without a tenant and released at
 * one instant, and their reports. Errors are reported where they happen; a function that fails
 * returns -errno.
 */
#ifndef ALLOT_CLI_BENCH_LOAD_H
#define ALLOT_CLI_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/bench/interval.h"

#define BENCH_WORDS 40
#define BENCH_BINS  640

/*
 * A command line under construction. Empty when zeroed. An incomplete one (a word is missing) is
 * never started.
 */
struct bench_words {
	unsigned int n;
	bool incomplete;
	char *word[BENCH_WORDS + 1];
};
void bench_words_add(struct bench_words *words, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void bench_words_free(struct bench_words *words);

struct bench_result {
	double share; /* of the device's time, after the warm-up: 1 is all of it */
	double loops_per_us, cpu_seconds, late_ms;
	double launch_p50_us, launch_p99_us;		      /* 0: not measured */
	struct bench_interval latency_p50_us, latency_p99_us; /* likewise */
	double bin_s;
	unsigned int nbins;
	double bin[BENCH_BINS]; /* share by time, from the start on */
};

/* The mean share of the whole bins between two instants. */
double bench_result_share(const struct bench_result *result, double from_s, double to_s);
/*
 * The share of `n` results together, as a part of `alone`. Its interval reaches from the lowest to
 * the highest half second.
 */
void bench_result_interval(const struct bench_result *result, unsigned int n, double from_s,
			   double to_s, double alone, struct bench_interval *ret);

struct bench_load {
	pid_t pid;
	FILE *to, *from;
};

/* Starts the command, and returns when the load is ready to begin. */
int bench_load_open(struct bench_load *ret, const struct bench_words *words);
/* Tells the load to begin at that instant of CLOCK_MONOTONIC. */
int bench_load_go(struct bench_load *load, uint64_t at_ns);
/* Waits for the end. `ret` may be NULL: then the load is ended at once. */
int bench_load_close(struct bench_load *load, struct bench_result *ret);

/* Runs a command of allot to its end, its output unseen unless it fails. */
int bench_call(const struct bench_words *words);
/* -errno when the user wants to stop; see bench_stop_on_signals. */
int bench_sleep_until(uint64_t ns);
/*
 * From now on the terminal's signals end the running loads, and then, after a clean-up, this
 * program.
 */
void bench_stop_on_signals(void);
bool bench_stopped(void);

#endif
