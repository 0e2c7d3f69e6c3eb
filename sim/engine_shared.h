/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which context runs on a simulated device: one struct a device, in the region and zeroed with it.
 * sim/cuda/engine.c alone writes it, except for the two inline functions below, for those that
 * create the region and claim its rows.
 *
 * A process is known by its row in the region; a context that has work holds a seat.
 *
 * Processes trust each other here, but any may be killed at any instruction. `lock` is robust.
 * After a death every field that it guards may hold any mixture of old and new values, which
 * sim/cuda/engine.c repairs.
 */
#ifndef ALLOT_SIM_ENGINE_SHARED_H
#define ALLOT_SIM_ENGINE_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

#include "sim/device_time.h"
#include "sim/mutex.h"
#include "sim/power.h"
#include "sim/window.h"

#define SIM_ENGINE_ROWS 1024 /* at least as many as the region has rows for processes */
#define SIM_ENGINE_SEATS 2048
#define SIM_ENGINE_ACCOUNTS 2048 /* as many as the region has */

/* One context that has, or had, work. A cache line, as its owner sleeps on it. */
struct sim_engine_seat {
	_Atomic uint32_t taken;	 /* 0 is free, else 1 + the row of the process */
	_Atomic uint32_t bell;	 /* futex: its executor sleeps here and looks around at each ring */
	_Atomic uint32_t asleep; /* a ring has to wake it */
	uint32_t waits;		 /* has work and is not the owner */
	uint64_t ready_ns;	 /* since when, while it waits */
	uint32_t account;	 /* of its process */
	uint32_t reserved[9];
};

struct sim_engine_shared {
	struct sim_mutex lock;
	uint32_t slice_us;    /* 0 until the engine first uses the device */
	uint32_t switch_us;
	uint32_t owner;		  /* 1 + seat, 0 when the device is idle */
	uint32_t high;		  /* seats at or beyond it were never taken */
	uint32_t waiting;	  /* how many seats wait; recounted after a death */
	uint32_t last;		  /* 1 + the seat that owned it last, while it is idle */
	uint32_t dry_switch_us;
	_Atomic uint32_t ran; /* 1 + the account whose work the device ran last */
	uint64_t slice_from_ns;	  /* CLOCK_MONOTONIC: the owner runs from here ... */
	uint64_t slice_to_ns;	  /* ... to here when somebody waits */
	uint64_t idle_from_ns;	  /* the last owner's work ended here */
	_Atomic uint64_t busy_ns; /* of all contexts, dead ones included; never falls */
	struct sim_device_time time[SIM_ENGINE_ACCOUNTS]; /* what each process had */
	struct sim_engine_seat seats[SIM_ENGINE_SEATS];
	struct sim_windows windows[SIM_ENGINE_ROWS]; /* when a row worked, for NVML */
	struct sim_power power;
};

/* Once a device, when the region is made. 0 or -errno. */
static inline int sim_engine_shared_init(struct sim_engine_shared *shared)
{
	return sim_mutex_init(&shared->lock);
}

/*
 * A process that claims a row and an account calls this on every device. It clears the figures of
 * the process that had them before.
 */
static inline void sim_engine_row_reset(struct sim_engine_shared *shared, unsigned int row,
					unsigned int account)
{
	sim_device_time_reset(&shared->time[account]);
	sim_windows_reset(&shared->windows[row]);
}

static inline const struct sim_device_time *
sim_engine_time(const struct sim_engine_shared *shared, unsigned int account)
{
	return &shared->time[account];
}

static inline const struct sim_windows *
sim_engine_row_windows(const struct sim_engine_shared *shared, unsigned int row)
{
	return &shared->windows[row];
}

#endif
