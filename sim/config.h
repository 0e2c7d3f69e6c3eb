/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a new region holds, from the environment of the process that makes it:
 *
 *   ALLOT_SIM_GPUS     how many devices (default 1, at most 16)
 *   ALLOT_SIM_MEMORY   memory of each (default 24GiB)
 *   ALLOT_SIM_CONTEXT  what a context takes (default 520MiB; 0 is allowed)
 *   ALLOT_SIM_NAME     the devices' name
 *
 * Each process reads for itself:
 *
 *   ALLOT_SIM_HANDLES       "reuse": a new context may have the handle of one that was destroyed
 *   ALLOT_SIM_NVML_INIT_MS  how long nvmlInit takes (default: no time)
 *   ALLOT_SIM_NVML_STARTS   a file that gets two lines for each nvmlInit, "begins" and "done", with
 *                           the numbers of the process and the thread
 */
#ifndef ALLOT_SIM_CONFIG_H
#define ALLOT_SIM_CONFIG_H

struct sim_region;

/* Fill a zeroed region's devices. -EINVAL, with a line on stderr, for a malformed variable. */
int sim_config_apply(struct sim_region *region);

#endif
