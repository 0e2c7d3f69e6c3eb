/* SPDX-License-Identifier: Apache-2.0 */
/* What `allot bench` measures, one function a question. All answer 0, or -errno after a message. */
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
		double target, share;
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
	double p50_us, p99_us, neighbour; /* its share */
	double most_us;			  /* the promise for p99; 0: none */
	double least;			  /* and for the neighbour's share */
};

struct bench_launch {
	const char *name;
	double compute; /* the cap in percent; 0: none; < 0: no tenant */
	double p50_us, p99_us;
	double processor; /* what the program takes of one, while it keeps the device busy */
};

/* controller, kernel_us, phase_s, alone and the phases' targets are given. */
int bench_measure_caps(struct bench_place *place, struct bench_caps *caps);
#define BENCH_REQUESTS 5
int bench_measure_requests(struct bench_place *place, struct bench_request row[BENCH_REQUESTS]);
#define BENCH_LAUNCHES 4
int bench_measure_launches(struct bench_place *place, struct bench_launch row[BENCH_LAUNCHES]);

#endif
