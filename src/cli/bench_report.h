/* SPDX-License-Identifier: Apache-2.0 */
/* What `allot bench` found: tables for people, JSON, and a picture. */
#ifndef ALLOT_CLI_BENCH_REPORT_H
#define ALLOT_CLI_BENCH_REPORT_H

#include "cli/bench_pairs.h"
#include "cli/bench_steps.h"

#define BENCH_CAPS_MAX 12

struct bench_report {
	char device[128];
	unsigned int ncaps; /* of each controller together, one after the other */
	struct bench_caps caps[BENCH_CAPS_MAX];
	bool has_pairs, has_requests, has_launches;
	struct bench_pair pair[BENCH_PAIRS];
	struct bench_request request[BENCH_REQUESTS];
	struct bench_launch launch[BENCH_LAUNCHES];
};

void bench_print_caps(const struct bench_report *report);
void bench_print_pairs(const struct bench_report *report);
void bench_print_requests(const struct bench_report *report);
void bench_print_launches(const struct bench_report *report);
/* The controllers side by side; nothing where there is one alone. */
void bench_print_controllers(const struct bench_report *report);

/* 0, or < 0 after a message. */
int bench_write_json(const struct bench_report *report, const char *path);
int bench_write_svg(const struct bench_report *report, const char *path);

#endif
