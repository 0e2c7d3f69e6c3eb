/* SPDX-License-Identifier: Apache-2.0 */
/* Busy time falls into the windows that it overlaps: 1/6 s before each multiple of 200 ms. */
#include "sim/window.h"

#include "base/now.h"
#include "tests/check.h"

#define MS NS_PER_MS

static uint64_t busy(const struct sim_windows *w, uint64_t window)
{
	return sim_windows_busy_ns(w, window);
}

int main(void)
{
	struct sim_windows w = {0};

	CHECK_EQ(sim_window_at(1999 * MS), 9);
	CHECK_EQ(sim_window_at(2000 * MS), 10);

	/* Window 10 is 1833.3 to 2000 ms: time in the gap before it counts nowhere. */
	sim_windows_add(&w, 1800 * MS, 1830 * MS);
	CHECK_EQ(busy(&w, 9), 0);
	CHECK_EQ(busy(&w, 10), 0);
	sim_windows_add(&w, 1900 * MS, 1910 * MS);
	sim_windows_add(&w, 1910 * MS, 1930 * MS);
	CHECK_EQ(busy(&w, 10), 30 * MS);

	/* Over the end: what is before it, and after the next gap. */
	sim_windows_add(&w, 1990 * MS, 2040 * MS);
	CHECK_EQ(busy(&w, 10), 40 * MS);
	CHECK_EQ(busy(&w, 11), 2040 * MS - (2200 * MS - SIM_WINDOW_NS));

	/* Side by side is busy once at most. */
	sim_windows_add(&w, 2200 * MS, 2400 * MS);
	sim_windows_add(&w, 2200 * MS, 2400 * MS);
	CHECK_EQ(busy(&w, 12), SIM_WINDOW_NS);

	/* An hour at once fills the windows that are kept, no more and no less. */
	sim_windows_add(&w, 2400 * MS, 3600000 * MS);
	for (uint64_t k = 18000; k > 18000 - SIM_WINDOW_KEPT; k--)
		CHECK_EQ(busy(&w, k), SIM_WINDOW_NS);
	CHECK_EQ(busy(&w, 18000 - SIM_WINDOW_KEPT), 0);
	CHECK_EQ(busy(&w, 12), 0);
	CHECK_EQ(busy(&w, 18001), 0);

	/* A late report does not disturb a newer window in its place. */
	sim_windows_add(&w, 1900 * MS, 1910 * MS);
	CHECK_EQ(busy(&w, 18000 - (18000 - 10) % SIM_WINDOW_KEPT), SIM_WINDOW_NS);
	CHECK_EQ(busy(&w, 10), 0);

	/* Nothing, backwards, at the beginning of time. */
	sim_windows_reset(&w);
	sim_windows_add(&w, 0, 0);
	sim_windows_add(&w, 1910 * MS, 1900 * MS);
	CHECK_EQ(busy(&w, 10), 0);
	sim_windows_add(&w, 0, 200 * MS);
	CHECK_EQ(busy(&w, 1), SIM_WINDOW_NS);
	return 0;
}
