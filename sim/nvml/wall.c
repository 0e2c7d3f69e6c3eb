/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/wall.h"

#include <pthread.h>

static uint64_t offset_ns;

uint64_t sim_nvml_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void wall_measure_offset(void)
{
	offset_ns = sim_nvml_clock_ns(CLOCK_REALTIME) - sim_nvml_clock_ns(CLOCK_MONOTONIC);
}

uint64_t sim_nvml_wall_us(uint64_t monotonic_ns)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, wall_measure_offset);
	return (monotonic_ns + offset_ns) / 1000;
}
