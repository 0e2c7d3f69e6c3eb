/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's own count, for tests and tools: what each device has given, by whom. It looks at
 * the region and takes no row in it, so it is no tenant and no process of the simulator.
 */
#ifndef ALLOT_SIM_TRUTH_H
#define ALLOT_SIM_TRUTH_H

#include <stdint.h>
#include <sys/types.h>

struct sim_truth;

/* `dir` NULL: ALLOT_SIM_DIR or its default. The region must exist. 0 or -errno. */
int sim_truth_open(const char *dir, struct sim_truth **ret_truth);
/* As sim_truth_open, but makes the region from the ALLOT_SIM_* variables where there is none. */
int sim_truth_create(const char *dir, struct sim_truth **ret_truth);
void sim_truth_close(struct sim_truth *truth);

int sim_truth_devices(struct sim_truth *truth);
uint64_t sim_truth_total(struct sim_truth *truth, int device);
void sim_truth_uuid(struct sim_truth *truth, int device, uint8_t ret_uuid[16]);
uint64_t sim_truth_context_bytes(struct sim_truth *truth, int device);

/* Bytes in use now by live processes, on the device or by one process (0 for an unknown one). */
uint64_t sim_truth_used(struct sim_truth *truth, int device);
uint64_t sim_truth_process(struct sim_truth *truth, pid_t pid, int device);
/* The pids of live processes: at most `max`; how many were written. */
int sim_truth_pids(struct sim_truth *truth, pid_t *pids, int max);

/* The most that was in use at once since the last reset. */
uint64_t sim_truth_peak(struct sim_truth *truth, int device);
void sim_truth_reset_peak(struct sim_truth *truth, int device);

#endif
