/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers decide when a tenant may launch: pure functions from numbers to numbers, no clock, no
 * I/O. The state is one hot word, which the tenant's processes change by compare-and-swap, and a
 * few cold ones, which one process at a time writes when it steers. A zeroed state is a fresh one,
 * and no state, however damaged, makes a function fail or wait forever: it decides as if fresh.
 *
 *	deficit	pays for measured device time; exact for any kernel length (the default)
 *	bucket	tokens are grid blocks; NVML utilisation sets how many each tick brings
 *	pid	NVML utilisation sets the time between launches
 */
#ifndef ALLOT_SCHED_CONTROLLER_H
#define ALLOT_SCHED_CONTROLLER_H

#include <stdint.h>

#include "base/now.h"

#define CONTROLLER_COLD 6

/* How long a tenant works between pauses; see admission_slice_ns. */
#define CONTROLLER_SLICE_NS	 (8 * NS_PER_MS)
#define CONTROLLER_LONG_SLICE_NS (4 * CONTROLLER_SLICE_NS)

struct share_params {
	uint32_t share_permille; /* 1 to 1000 of the device's time */
	uint64_t slice_ns;	 /* how long a tenant works before it pauses, about */
	uint64_t blocks;	 /* that the device holds at once; 0 unknown */
};

enum controller_id {
	CONTROLLER_DEFICIT,
	CONTROLLER_BUCKET,
	CONTROLLER_PID,
	CONTROLLERS,
};

struct controller {
	enum controller_id id;
	const char *name;
	uint64_t tick_ns; /* how often `steer` wants to be called; 0: never */

	/* The device worked for the tenant from one instant to the other: the new hot word. */
	uint64_t (*bill)(uint64_t hot, const struct share_params *params, uint64_t from_ns,
			 uint64_t to_ns);
	/*
	 * May a launch of `blocks` blocks go now? 0, or the instant until which to wait before
	 * asking again, which is after now. *ret_hot is the new hot word in both cases, and the old
	 * one if nothing but time has changed.
	 */
	uint64_t (*admit)(uint64_t hot, const struct share_params *params, uint64_t now_ns,
			  uint64_t blocks, uint64_t *ret_hot);
	/* Every tick_ns: NVML's utilisation by the tenant in percent. Changes the cold words ... */
	void (*steer)(uint64_t cold[CONTROLLER_COLD], const struct share_params *params,
		      uint64_t now_ns, unsigned int utilisation_percent);
	/* ... and then, with these, the hot one. */
	uint64_t (*refill)(uint64_t hot, const uint64_t cold[CONTROLLER_COLD],
			   const struct share_params *params, uint64_t now_ns);
	/*
	 * Device time that the tenant owes, in ns; negative: credit that it may use at once. NULL:
	 * the controller does not count time.
	 */
	int64_t (*debt_ns)(uint64_t hot, const struct share_params *params, uint64_t now_ns);
	/*
	 * The tenant's credit in the controller's unit: ns of the device's time, or blocks of
	 * grids. NULL: the controller saves nothing up.
	 */
	uint64_t (*tokens)(uint64_t hot, const struct share_params *params, uint64_t now_ns);
};

extern const struct controller controller_deficit, controller_bucket, controller_pid;

/* For controllers that do not reckon in device time: nothing is paid. */
uint64_t controller_bill_nothing(uint64_t hot, const struct share_params *params,
				 uint64_t from_ns, uint64_t to_ns);

/* Never NULL: deficit for an id that does not exist. */
const struct controller *controller_by_id(uint32_t id);

/* -EINVAL for a name that no controller has. */
int controller_parse(const char *name, enum controller_id *ret);

#endif
