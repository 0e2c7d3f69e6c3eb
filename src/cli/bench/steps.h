/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurements of `allot bench`, one function a question. All return 0, or -errno after a
 * message.
 */
#ifndef ALLOT_CLI_BENCH_STEPS_H
#define ALLOT_CLI_BENCH_STEPS_H

#include <stdbool.h>

#include "cli/bench/trial.h"

#define BENCH_PHASES 5

/* A tenant alone on the device, whose cap changes while it runs. */
struct bench_caps {
	const char *controller;
	double kernel_us, phase_s;
	double alone; /* share of the same load without a limit */
	unsigned int nphases;
	struct bench_phase {
		double target;
		struct bench_interval share;
		double worst; /* share of that second which was furthest from the target */
	} phase[BENCH_PHASES];
	struct bench_result result;
	double mean_error, worst_error, kept; /* parts; kept: of the target, where less was had */
	bool late;			      /* the processor was elsewhere for long */
};

/* A request each 10 ms. */
struct bench_request {
	const char *name;
	double neighbour_us;		  /* its kernels; 0: no neighbour */
	bool tenants;			  /* both are, of one weight */
	const char *priority, *latency;	  /* NULL: as the neighbour's, and the default */
	struct bench_interval p50_us, p99_us;
	struct bench_interval neighbour;  /* its share */
	double most_us;			  /* the promise for p99; 0: none */
	double least;			  /* and for the neighbour's share */
};

struct bench_launch {
	const char *name;
	double compute; /* the cap in percent; 0: none; < 0: no tenant */
	struct bench_interval p50_us, p99_us;
	struct bench_interval added_us; /* to the half of the first row, round by round */
	/* The program's use of one processor while it keeps the device busy. */
	struct bench_interval processor;
};

/*
 * controller, kernel_us, phase_s, nphases and the phases' targets are given. Each comes with about
 * how many seconds it takes.
 */
int bench_measure_caps(struct bench_place *place, struct bench_caps *caps);
double bench_caps_seconds(const struct bench_caps *caps);
#define BENCH_REQUESTS 7
int bench_measure_requests(struct bench_place *place, struct bench_request row[BENCH_REQUESTS]);
double bench_requests_seconds(void);
#define BENCH_LAUNCHES 4
#define BENCH_ROUNDS   6 /* the least and the greatest hold the true median with 97 % */
int bench_measure_launches(struct bench_place *place, bool quick,
			   struct bench_launch row[BENCH_LAUNCHES]);
double bench_launches_seconds(bool quick);

#endif
