/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVML's utilisation figures are made of: every 200 ms the driver looks back over 1/6 s and
 * keeps how much of it was busy, for the last 72 of these windows. Nobody samples here. The engine
 * says of busy time when it was, and it falls into the windows that it overlaps. So a reader finds
 * finished windows at any time, and they stay the same until the next 200 ms are over, as with the
 * real library.
 */
#ifndef ALLOT_SIM_WINDOW_H
#define ALLOT_SIM_WINDOW_H

#include <stdatomic.h>
#include <stdint.h>

#include "sim/numbered.h"

#define SIM_WINDOW_EVERY_NS 200000000ull
#define SIM_WINDOW_NS 166666667ull
#define SIM_WINDOW_KEPT 72

_Static_assert(SIM_WINDOW_NS <= SIM_NUMBERED_MOST, "a window's busy time fits its bits");

/* One process on one device: busy nanoseconds. Window k ends at k * EVERY. Zero is "never busy". */
struct sim_windows {
	_Atomic uint64_t word[SIM_WINDOW_KEPT];
};

/* The device worked from one instant of CLOCK_MONOTONIC to the other. Any thread. */
static inline void sim_windows_add(struct sim_windows *windows, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t first = from_ns / SIM_WINDOW_EVERY_NS + 1;
	uint64_t last = (to_ns + SIM_WINDOW_NS - 1) / SIM_WINDOW_EVERY_NS;

	if (last >= first + SIM_WINDOW_KEPT)
		first = last - SIM_WINDOW_KEPT + 1;
	for (uint64_t k = first; k <= last; k++) {
		uint64_t end = k * SIM_WINDOW_EVERY_NS, begin = end - SIM_WINDOW_NS;
		uint64_t from = from_ns > begin ? from_ns : begin, to = to_ns < end ? to_ns : end;

		/* Contexts that ran side by side are no longer than the window. */
		if (to > from)
			sim_numbered_add(&windows->word[k % SIM_WINDOW_KEPT], k, to - from,
					 SIM_WINDOW_NS);
	}
}

/* The newest window that is over. */
static inline uint64_t sim_window_at(uint64_t now_ns)
{
	return now_ns / SIM_WINDOW_EVERY_NS;
}

/* Busy nanoseconds of a window: 0 for one that is not kept any more. */
static inline uint64_t sim_windows_busy_ns(const struct sim_windows *windows, uint64_t window)
{
	return sim_numbered_sum(&windows->word[window % SIM_WINDOW_KEPT], window);
}

static inline void sim_windows_reset(struct sim_windows *windows)
{
	for (int i = 0; i < SIM_WINDOW_KEPT; i++)
		atomic_store_explicit(&windows->word[i], 0, memory_order_relaxed);
}

#endif
