/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's allocations and failed calls, for `allot sim --report`: a file for each process in the
 * folder ALLOT_SIM_REPORT, which the driver maps and keeps true at each moment, so that a process
 * that is killed has left its own. `allot sim` reads them when its command has ended.
 */
#ifndef ALLOT_SIM_REPORT_H
#define ALLOT_SIM_REPORT_H

#include <stdint.h>

#include "sim/config.h"

#define SIM_REPORT_MAGIC   0x3150455254504f4cull
#define SIM_REPORT_VERSION 1u
#define SIM_REPORT_ERRORS  64
#define SIM_REPORT_TEXT	   64

/* By the call that made it. */
enum sim_report_kind {
	SIM_REPORT_MEMORY,   /* cuMemAlloc, cuMemAllocPitch */
	SIM_REPORT_ASYNC,    /* cuMemAllocAsync */
	SIM_REPORT_MANAGED,  /* cuMemAllocManaged */
	SIM_REPORT_PHYSICAL, /* cuMemCreate, until it is released and unmapped */
	SIM_REPORT_ARRAY,    /* cuArrayCreate, cuMipmappedArrayCreate */
	SIM_REPORT_HOST,     /* cuMemHostAlloc */
	SIM_REPORT_KINDS,
};

/* Of one kind on one device: what is held now, and how many there ever were. */
struct sim_report_held {
	_Atomic uint64_t n, bytes, made;
};

struct sim_report_device {
	_Atomic uint64_t now_bytes, peak_bytes; /* with contexts */
	struct sim_report_held held[SIM_REPORT_KINDS];
};

/* A call and a result that it had. The first process to write `code` owns the entry. */
struct sim_report_error {
	_Atomic uint32_t code; /* of call and result, not 0; 0: free */
	char call[SIM_REPORT_TEXT], result[SIM_REPORT_TEXT];
	_Atomic uint64_t n;
};

struct sim_report {
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	char command[2 * SIM_REPORT_TEXT];
	_Atomic uint32_t ended; /* by exit(), or a return from main() */
	_Atomic uint64_t more_errors; /* that found no entry */
	struct sim_report_device device[SIM_MAX_DEVICES];
	struct sim_report_error error[SIM_REPORT_ERRORS];
};

#endif
