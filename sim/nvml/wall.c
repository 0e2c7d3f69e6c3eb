/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/wall.h"

#include <pthread.h>

#include "base/now.h"

static uint64_t offset_ns;

static void wall_measure_offset(void)
{
	offset_ns = now_ns(CLOCK_REALTIME) - now_monotonic_ns();
}

uint64_t sim_nvml_wall_us(uint64_t monotonic_ns)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, wall_measure_offset);
	return (monotonic_ns + offset_ns) / 1000;
}
