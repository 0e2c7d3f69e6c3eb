/* SPDX-License-Identifier: Apache-2.0 */
/* The tenant's use of its devices, in some lines at the end of a run: `allot run --report`. */
#ifndef ALLOT_CLI_EXEC_REPORT_H
#define ALLOT_CLI_EXEC_REPORT_H

#include "cli/tenant/dmem.h"
#include "cli/tenant/enroll.h"

/* Prints the report of a tenant whose command has just ended, on standard error. */
void report_print(const struct enrolment *enrolment);

/* As guarded_launch, without a guard: runs the command, reports, and ends as it did. */
int report_launch(struct enrolment *enrolment, const struct dmem_entry *cgroup, char **command);

#endif
