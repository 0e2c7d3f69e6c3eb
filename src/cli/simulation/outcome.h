/* SPDX-License-Identifier: Apache-2.0 */
/* `allot sim --report`: what the command's processes did with CUDA, read from their sim/report.h. */
#ifndef ALLOT_CLI_SIMULATION_OUTCOME_H
#define ALLOT_CLI_SIMULATION_OUTCOME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "sim/report.h"

/* A copy of a process's file: its texts end, and no other process changes it. */
struct outcome_process {
	struct sim_report was;
	bool ended; /* by exit: what it still held then was never freed */
	bool lives;
};

struct outcome {
	struct outcome_process *process; /* by pid */
	size_t n;
};

/*
 * Makes the folder that processes write into, in that of the devices, and sets ALLOT_SIM_REPORT. 0 or
 * -errno.
 */
int outcome_prepare(const char *dir, char ret_folder[static PATH_MAX]);

/* Reads all of them, and removes the folder. 0 or -errno. */
int outcome_read(const char *folder, struct outcome *ret);
void outcome_free(struct outcome *outcome);

/*
 * Finds memory that a process left: of the first kind and device from *at on, or false. For loops,
 * from 0 on.
 */
struct outcome_left {
	unsigned int device;
	const char *call; /* that made it: "cuMemAlloc" */
	uint64_t n, bytes;
};
bool outcome_next_left(const struct outcome_process *process, unsigned int *at, struct outcome_left *ret);

/*
 * Likewise a call that did not succeed. A result that says that the simulator does not have the call is
 * none of the program's faults.
 */
const struct sim_report_error *outcome_next_error(const struct outcome_process *process, unsigned int *at);
bool outcome_is_fault(const struct sim_report_error *error);

bool outcome_has_left(const struct outcome_process *process);
bool outcome_has_faults(const struct outcome_process *process);

/* How many allocations there were, and the peak on the device. */
uint64_t outcome_made(const struct outcome_process *process);

/* On stderr. */
void outcome_print(const struct outcome *outcome);

#endif
