/* SPDX-License-Identifier: Apache-2.0 */
/* What `allot bench` found, as files: JSON, and a picture. 0, or < 0 after a message. */
#ifndef ALLOT_CLI_BENCH_FILES_H
#define ALLOT_CLI_BENCH_FILES_H

#include "cli/bench/report.h"

int bench_write_json(const struct bench_report *report, const char *path);
int bench_write_svg(const struct bench_report *report, const char *path);

#endif
