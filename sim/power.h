/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The power of a device: some watts at rest, and more while it works, as many as the working process
 * says by ALLOT_SIM_WATTS. As on an H200 there is a sample each 20 ms, kept for 2.4 s, which follows the
 * power by 4 ms and then by a low-pass of 14 ms, and a counter of energy that moves each 100 ms.
 * Nobody samples here: the engine says of busy time when it was.
 */
#ifndef ALLOT_SIM_POWER_H
#define ALLOT_SIM_POWER_H

#include <stdatomic.h>
#include <stdint.h>

#include "sim/numbered.h"

#define SIM_POWER_REST_MW   120000u
#define SIM_POWER_WORK_W    350u /* of a process that says nothing */
#define SIM_POWER_SAMPLE_NS 20000000ull
#define SIM_POWER_SAMPLES   119
#define SIM_POWER_TICK_NS   100000000ull
#define SIM_POWER_BIN_NS    5000000ull
#define SIM_POWER_BINS	    512

/* Beyond rest: microjoules. Bin k ends at k * BIN_NS. */
struct sim_power {
	_Atomic uint64_t all_uj;
	_Atomic uint64_t bin[SIM_POWER_BINS];
};

/* The device worked from one instant of CLOCK_MONOTONIC to the other. Any thread. */
static inline void sim_power_add(struct sim_power *power, uint64_t from_ns, uint64_t to_ns,
				 uint32_t watts)
{
	atomic_fetch_add_explicit(&power->all_uj, (to_ns - from_ns) * watts / 1000,
				  memory_order_relaxed);
	while (from_ns < to_ns) {
		uint64_t k = from_ns / SIM_POWER_BIN_NS + 1, end = k * SIM_POWER_BIN_NS;
		uint64_t to = end < to_ns ? end : to_ns;

		sim_numbered_add(&power->bin[k % SIM_POWER_BINS], k, (to - from_ns) * watts / 1000,
				 SIM_NUMBERED_MOST);
		from_ns = to;
	}
}

static inline uint64_t sim_power_bin_uj(const struct sim_power *power, uint64_t k)
{
	return sim_numbered_sum(&power->bin[k % SIM_POWER_BINS], k);
}

/* The sample of that instant, in milliwatts. */
static inline uint32_t sim_power_mw(const struct sim_power *power, uint64_t at_ns)
{
	static const unsigned int permille[] = {70, 285, 199, 139, 98, 68, 48, 33, 23, 16, 11, 10};
	uint64_t k = at_ns / SIM_POWER_BIN_NS, nj = 0;

	for (unsigned int i = 0; i < sizeof(permille) / sizeof(permille[0]); i++)
		nj += sim_power_bin_uj(power, k - i) * permille[i];
	return SIM_POWER_REST_MW + (uint32_t)(nj / (SIM_POWER_BIN_NS / 1000));
}

/* All energy until the counter last moved, in millijoules; at rest since the machine's start. */
static inline uint64_t sim_power_mj(const struct sim_power *power, uint64_t now_ns)
{
	uint64_t tick_ns = now_ns - now_ns % SIM_POWER_TICK_NS, k = tick_ns / SIM_POWER_BIN_NS;
	uint64_t uj = atomic_load_explicit(&power->all_uj, memory_order_relaxed);

	for (uint64_t i = 1; i <= SIM_POWER_TICK_NS / SIM_POWER_BIN_NS; i++) {
		uint64_t later_uj = sim_power_bin_uj(power, k + i);

		uj -= later_uj < uj ? later_uj : uj;
	}
	return uj / 1000 + tick_ns / 1000000 * SIM_POWER_REST_MW / 1000;
}

#endif
