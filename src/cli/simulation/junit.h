/* SPDX-License-Identifier: Apache-2.0 */
/* A report as JUnit XML, for what shows tests' results: two tests for each process. */
#ifndef ALLOT_CLI_SIMULATION_JUNIT_H
#define ALLOT_CLI_SIMULATION_JUNIT_H

#include <stdio.h>

#include "cli/simulation/outcome.h"

void junit_write(const struct outcome *outcome, FILE *out);

#endif
