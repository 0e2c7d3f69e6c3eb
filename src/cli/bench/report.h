/* SPDX-License-Identifier: Apache-2.0 */
/* Results of `allot bench` as tables for people. */
#ifndef ALLOT_CLI_BENCH_REPORT_H
#define ALLOT_CLI_BENCH_REPORT_H

#include "cli/bench/pairs.h"
#include "cli/bench/steps.h"
#include "cli/bench/tokens.h"

#define BENCH_CAPS_MAX 12

struct bench_report {
	char device[128];
	unsigned int ncaps; /* of each controller together, one after the other */
	struct bench_caps caps[BENCH_CAPS_MAX];
	bool has_pairs, has_tokens, has_requests, has_launches;
	struct bench_pair pair[BENCH_PAIRS];
	struct bench_tokens tokens;
	struct bench_request request[BENCH_REQUESTS];
	struct bench_launch launch[BENCH_LAUNCHES];
};

/* Its tables, on stdout. 0, or -errno after a message. */
int bench_print_caps(const struct bench_report *report);
int bench_print_pairs(const struct bench_report *report);
int bench_print_tokens(const struct bench_report *report);
int bench_print_requests(const struct bench_report *report);
int bench_print_launches(const struct bench_report *report);
/* The controllers side by side; nothing where there is one alone. */
int bench_print_controllers(const struct bench_report *report);

#endif
