/* SPDX-License-Identifier: Apache-2.0 */
/* The command with a guard beside it, in a process that stays until it ends. */
#ifndef ALLOT_CLI_EXEC_GUARDED_H
#define ALLOT_CLI_EXEC_GUARDED_H

#include <stdbool.h>

#include "cli/tenant/dmem.h"
#include "cli/tenant/enroll.h"

/*
 * Runs the command in the tenant that this run has made or joined, and ends as it did; or answers
 * allot's own exit status, and nothing was started. The tenant is removed if nobody else uses it, and
 * the cgroup that this process is in. With `report` it says what the tenant had.
 */
int guarded_launch(struct enrolment *enrolment, const struct dmem_entry *cgroup,
		   char **command, bool report);

#endif
