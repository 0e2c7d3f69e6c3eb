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
 *   ALLOT_SIM_VULKAN_CONTEXT  memory that a Vulkan device takes while it lives (default 0)
 *   ALLOT_SIM_CHECKPOINT    what becomes of cuCheckpointProcess*: "unsupported", as before driver
 *                           570; "denied", for want of privilege; "lost", by its restore
 *   ALLOT_SIM_NVML_INIT_MS  how long nvmlInit takes (default: no time)
 *   ALLOT_SIM_NVML_STARTS   a file that gets two lines for each nvmlInit, "begins" and "done", with
 *                           the numbers of the process and the thread
 *
 * and what things take, as whole numbers; 0 where no default is named:
 *
 *   ALLOT_SIM_LOAD_US          a function's first launch in a context: the caller waits so long
 *                              for its code, and the device is not told before
 *   ALLOT_SIM_LAUNCH_US        from when a launch, copy or record was called until the device may
 *                              begin it, which is hidden while there is work before it
 *   ALLOT_SIM_FIGURE_LATE_US   so long, at most, NVML's figure of a process has what that gave back
 *   ALLOT_SIM_EVENT_NS         processor time of the caller for each record of an event
 *   ALLOT_SIM_EVENT_DEVICE_NS  time that the record takes in its stream
 *
 * The first process that uses a device decides for all of them:
 *
 *   ALLOT_SIM_SLICE_US         a context's turn while others wait (2000)
 *   ALLOT_SIM_SWITCH_US        from one context to another in the middle of its work (188)
 *   ALLOT_SIM_DRY_SWITCH_US    ... and from one that ran out of work (138)
 */
#ifndef ALLOT_SIM_CONFIG_H
#define ALLOT_SIM_CONFIG_H

#include <stdint.h>

#define SIM_MAX_DEVICES 16
#define SIM_NAME_MAX 64

/* All devices of a region are alike. */
struct sim_config {
	uint32_t ndevices;
	uint64_t memory_bytes;
	uint64_t context_bytes; /* what an idle context takes */
	char name[SIM_NAME_MAX];
};

/* -EINVAL, with a line on stderr, for a malformed variable. */
int sim_config_read(struct sim_config *ret);

#endif
