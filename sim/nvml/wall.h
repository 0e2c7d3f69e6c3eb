/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of samples: the simulator has times of CLOCK_MONOTONIC, and NVML says wall time. */
#ifndef ALLOT_SIM_NVML_WALL_H
#define ALLOT_SIM_NVML_WALL_H

#include <stdint.h>
#include <time.h>

uint64_t sim_nvml_clock_ns(clockid_t clock);

/* In microseconds; the same for an instant as long as the process lives. */
uint64_t sim_nvml_wall_us(uint64_t monotonic_ns);

#endif
