/* SPDX-License-Identifier: Apache-2.0 */
/* Results of `allot bench` as JSON. */
#ifndef ALLOT_CLI_BENCH_FILES_H
#define ALLOT_CLI_BENCH_FILES_H

#include "cli/bench/report.h"

/* 0, or -errno after a message. */
int bench_write_json(const struct bench_report *report, const char *path);

#endif
