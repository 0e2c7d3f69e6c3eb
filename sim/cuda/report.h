/* SPDX-License-Identifier: Apache-2.0 */
/* Writes this process's sim/report.h. Without ALLOT_SIM_REPORT all of these do nothing. */
#ifndef ALLOT_SIM_CUDA_REPORT_H
#define ALLOT_SIM_CUDA_REPORT_H

#include "nvidia/cuda_api.h"
#include "sim/report.h"

/* As cuInit succeeds. A forked child has no report until it succeeds there. */
void sim_report_begin(void);

/*
 * A call's result that is not CUDA_SUCCESS. Answers that are no error are left out: "not ready", and
 * those to questions that programs ask to find out (a symbol, what an address is).
 */
void sim_report_result(enum cuda_fn fn, enum cuda_kind kind, CUresult result);

/* Device memory of any kind, by the device's index in the region. */
void sim_report_take(int device, uint64_t bytes);
void sim_report_give(int device, uint64_t bytes);

/* An allocation that a program is to free, and has freed. */
void sim_report_hold(enum sim_report_kind kind, int device, uint64_t bytes);
void sim_report_drop(enum sim_report_kind kind, int device, uint64_t bytes);

#endif
