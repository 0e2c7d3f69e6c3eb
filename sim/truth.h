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
/* The driver's figure for a process, which NVML shows: it lacks what the driver leaves out. */
uint64_t sim_truth_figure(struct sim_truth *truth, pid_t pid, int device);
/* The pids of live processes: at most `max`; how many were written. */
int sim_truth_pids(struct sim_truth *truth, pid_t *pids, int max);

/*
 * Device time that a process had, as sim/device_time.h says; all zero for an unknown one. That of a
 * process which ended, however it did, stays until a thousand others began. A process that called
 * exec counts as one with what it was before.
 */
struct sim_truth_time {
	uint64_t busy_ns;   /* kernels, copies on the device, memsets: their intervals, united */
	uint64_t closed_ns; /* and the gaps below 100 us in which nobody else had the device */
	uint64_t closed_least_ns, closed_most_ns; /* the same with 50 and with 150 us */
	uint64_t kernel_ns, device_copy_ns, host_copy_ns, set_ns;
	uint64_t switch_ns;	/* the device stood still on its way to this process ... */
	uint64_t own_switch_ns; /* ... from another context of its own */
};

void sim_truth_time(struct sim_truth *truth, pid_t pid, int device,
		    struct sim_truth_time *ret_time);
/* closed_ns of one bin of SIM_TIME_BIN_NS by CLOCK_MONOTONIC; bins are kept for 25 s. */
uint64_t sim_truth_bin_ns(struct sim_truth *truth, pid_t pid, int device, uint64_t bin);
/* The pids of processes whose time is still there, living or not: at most `max`. */
int sim_truth_seen(struct sim_truth *truth, pid_t *pids, int max);

/* The most that was in use at once since the last reset. */
uint64_t sim_truth_peak(struct sim_truth *truth, int device);
void sim_truth_reset_peak(struct sim_truth *truth, int device);

#endif
