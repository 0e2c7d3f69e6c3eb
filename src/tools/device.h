/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device, and a kernel on it that works for a given time and for nothing else. The kernel
 * counts loops instead of looking at a clock: while another program has the device it makes no
 * progress, so kernels done are device time had.
 */
#ifndef ALLOT_TOOLS_DEVICE_H
#define ALLOT_TOOLS_DEVICE_H

#include <stdint.h>

#include "nvidia/cuda_api.h"

#define cu cuda_real

struct load_device {
	CUfunction spin;
	unsigned int blocks, threads;
	double loops_per_us;
};

/* Says what failed on stderr and ends the process: a measurement has no use for the rest. */
void load_must(CUresult result, const char *what);
#define MUST(call) load_must(call, #call)

/* Opens and initialises the driver. */
void load_driver(void);

/*
 * Opens the driver, makes the device's context current and loads the kernel. `blocks` 0: one for
 * each multiprocessor. `loops_per_us` 0: measured, which wants the device for itself for about a
 * quarter of a second; else the answer of an earlier measurement.
 */
void load_device_open(struct load_device *ret, int ordinal, unsigned int blocks,
		      unsigned int threads, double loops_per_us);

/* Returns the kernel's parameter for a run of `us` us, at least 1. */
uint64_t load_device_loops(const struct load_device *device, double us);

#endif
