/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device time of one process on one device: the truth that a bill is compared with. The engine adds
 * each stretch of the device's time when it is over. Anybody who maps the region may read. The
 * words are counters that only grow, so a kill between two stores loses one stretch of one of them.
 *
 * `busy` is the union of the intervals in which a kernel, a copy on the device or a memset ran.
 *
 * `closed` is `busy` and the gaps that count as busy, as people's profilers have it: gaps shorter
 * than 100 us in which nobody else had the device. Two instants 100 us apart may be told a little
 * nearer or farther. So there is also the least and the most that it may be, with gaps of 50 and of
 * 150 us closed.
 *
 * Copies from and to the host are in neither: they are not charged for.
 */
#ifndef ALLOT_SIM_DEVICE_TIME_H
#define ALLOT_SIM_DEVICE_TIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/numbered.h"

#define SIM_TIME_GAP_NS 100000u
#define SIM_TIME_LEAST_GAP_NS 50000u
#define SIM_TIME_MOST_GAP_NS 150000u
/* When it was busy: `closed` by bins, enough of them for the last 25 s. */
#define SIM_TIME_BIN_NS 50000000ull
#define SIM_TIME_BINS 512

enum sim_time_kind {
	SIM_TIME_KERNEL,
	SIM_TIME_DEVICE_COPY,
	SIM_TIME_HOST_COPY,
	SIM_TIME_SET,
	SIM_TIME_KINDS,
};

#define SIM_TIME_CHARGED \
	(1u << SIM_TIME_KERNEL | 1u << SIM_TIME_DEVICE_COPY | 1u << SIM_TIME_SET)

/* Nanoseconds of each bin: bin k begins at k * BIN_NS. */
_Static_assert(SIM_TIME_BIN_NS <= SIM_NUMBERED_MOST, "a bin's time fits its bits");

struct sim_device_time {
	_Alignas(64) _Atomic uint64_t kind_ns[SIM_TIME_KINDS]; /* at least one of the kind ran */
	_Atomic uint64_t busy_ns;
	_Atomic uint64_t closed_ns;
	_Atomic uint64_t closed_least_ns;
	_Atomic uint64_t closed_most_ns;
	_Atomic uint64_t end_ns; /* of the last charged interval: CLOCK_MONOTONIC */
	/* The device stood still on its way to the process; of that, from a context of its own. */
	_Atomic uint64_t switch_ns;
	_Atomic uint64_t own_switch_ns;
	_Atomic uint64_t bin[SIM_TIME_BINS];
};

static inline void sim_device_time_grow(_Atomic uint64_t *counter, uint64_t ns)
{
	atomic_fetch_add_explicit(counter, ns, memory_order_relaxed);
}

static inline void sim_device_time_add_bins(struct sim_device_time *time, uint64_t from_ns,
					    uint64_t to_ns)
{
	while (from_ns < to_ns) {
		uint64_t k = from_ns / SIM_TIME_BIN_NS, end = (k + 1) * SIM_TIME_BIN_NS;
		_Atomic uint64_t *word = &time->bin[k % SIM_TIME_BINS];
		uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

		if (end > to_ns)
			end = to_ns;
		if (old >> SIM_NUMBERED_SHIFT != k)
			old = k << SIM_NUMBERED_SHIFT;
		atomic_store_explicit(word, old + (end - from_ns), memory_order_relaxed);
		from_ns = end;
	}
}

/*
 * The device ran works of these kinds from one instant to the other. `alone`: since the process's
 * last stretch nobody else had it. One caller at a time: whoever of the process has the device.
 */
static inline void sim_device_time_add(struct sim_device_time *time, uint64_t from_ns,
				       uint64_t to_ns, uint32_t kinds, bool alone)
{
	uint64_t end_ns = atomic_load_explicit(&time->end_ns, memory_order_relaxed), gap_ns;

	if (to_ns <= from_ns)
		return;
	for (int i = 0; i < SIM_TIME_KINDS; i++)
		if (kinds & 1u << i)
			sim_device_time_grow(&time->kind_ns[i], to_ns - from_ns);
	if (!(kinds & SIM_TIME_CHARGED) || to_ns <= end_ns)
		return;
	if (from_ns < end_ns)
		from_ns = end_ns;
	atomic_store_explicit(&time->end_ns, to_ns, memory_order_relaxed);
	gap_ns = alone && end_ns ? from_ns - end_ns : UINT64_MAX;
	sim_device_time_grow(&time->busy_ns, to_ns - from_ns);
	sim_device_time_grow(&time->closed_least_ns,
			     to_ns - (gap_ns < SIM_TIME_LEAST_GAP_NS ? end_ns : from_ns));
	sim_device_time_grow(&time->closed_most_ns,
			     to_ns - (gap_ns < SIM_TIME_MOST_GAP_NS ? end_ns : from_ns));
	if (gap_ns < SIM_TIME_GAP_NS)
		from_ns = end_ns;
	sim_device_time_grow(&time->closed_ns, to_ns - from_ns);
	sim_device_time_add_bins(time, from_ns, to_ns);
}

/* Nanoseconds of a bin: 0 for one that is not kept any more. */
static inline uint64_t sim_device_time_bin_ns(const struct sim_device_time *time, uint64_t bin)
{
	return sim_numbered_sum(&time->bin[bin % SIM_TIME_BINS], bin);
}

static inline void sim_device_time_reset(struct sim_device_time *time)
{
	for (int i = 0; i < SIM_TIME_KINDS; i++)
		atomic_store_explicit(&time->kind_ns[i], 0, memory_order_relaxed);
	atomic_store_explicit(&time->busy_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&time->closed_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&time->closed_least_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&time->closed_most_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&time->end_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&time->switch_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&time->own_switch_ns, 0, memory_order_relaxed);
	for (int i = 0; i < SIM_TIME_BINS; i++)
		atomic_store_explicit(&time->bin[i], 0, memory_order_relaxed);
}

#endif
