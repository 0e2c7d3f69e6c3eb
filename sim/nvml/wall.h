/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_NVML_WALL_H
#define ALLOT_SIM_NVML_WALL_H

#include <stdint.h>

/*
 * Samples carry wall time, and the simulator has times of CLOCK_MONOTONIC. In microseconds; the same for an
 * instant as long as the process lives.
 */
uint64_t sim_nvml_wall_us(uint64_t monotonic_ns);

#endif
