/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the simulated driver and device take for what they do, from the environment;
 * sim/config.h lists the variables. Each process reads them once. A malformed one counts as unset.
 */
#ifndef ALLOT_SIM_CUDA_SETTINGS_H
#define ALLOT_SIM_CUDA_SETTINGS_H

#include <stdint.h>

struct sim_settings {
	uint64_t load_ns;	  /* a function's first launch in a context, before it returns */
	uint64_t launch_ns;	  /* from the return of a launch until the device may begin it */
	uint64_t event_ns;	  /* of the processor, to record an event */
	uint64_t figure_late_ns;  /* NVML's figure has what was given back so long, at most */
	uint64_t event_device_ns; /* of the device, likewise */
};

const struct sim_settings *sim_settings(void);
/* One variable, at most `most`. */
uint32_t sim_setting(const char *name, uint32_t most, uint32_t unset);

#endif
