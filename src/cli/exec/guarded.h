/* SPDX-License-Identifier: Apache-2.0 */
/* The command with a guard beside it, in a process that stays until it ends. */
#ifndef ALLOT_CLI_EXEC_GUARDED_H
#define ALLOT_CLI_EXEC_GUARDED_H

#include <stdbool.h>

#include "cli/tenant/dmem.h"
#include "cli/tenant/enroll.h"

/*
 * Runs the command in the tenant that this run has made or joined, and ends with its status; or
 * returns allot's own exit status if nothing was started. Afterwards the tenant is removed, unless
 * other processes use it, and so is this process's cgroup. With `report` the tenant's use is
 * printed.
 */
int guarded_launch(struct enrolment *enrolment, const struct dmem_entry *cgroup,
		   char **command, bool report);

#endif
