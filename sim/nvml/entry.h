/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of the simulated libnvidia-ml.so.1 and what they share. Every row of the list
 * has one: a strong definition in this folder, or the weak one of stubs.c.
 */
#ifndef ALLOT_SIM_NVML_ENTRY_H
#define ALLOT_SIM_NVML_ENTRY_H

#include "nvidia/nvml_api.h"
#include "sim/region.h"

/* A definition with another prototype than the list's does not compile. */
#define ENTRY __attribute__((visibility("default")))
#define NVML_HOOK(name, kind, params, args) ENTRY nvmlReturn_t name params;
#define NVML_CALL(name, kind, params, args) ENTRY nvmlReturn_t name params;
#define NVML_TEXT(name, kind, params, args) ENTRY const char *name params;
#include "nvidia/nvml_api.def"

/*
 * The region, while the library is initialised in this process; a forked child of such a process
 * maps it anew. NULL before nvmlInit and after the last nvmlShutdown.
 */
struct sim_region *sim_nvml_region(void);

/* A device of the region by handle: ret_region and ret_index are written on success. */
nvmlReturn_t sim_nvml_device(nvmlDevice_t handle, struct sim_region **ret_region, int *ret_index);

/* The recovery action that a device asks for, by NVML's number of it. */
nvmlReturn_t sim_nvml_recovery(int index, unsigned int *ret);

/* Copy a text to a caller's buffer: INSUFFICIENT_SIZE when it does not fit with its end. */
nvmlReturn_t sim_nvml_text(char *out, unsigned int length, const char *text);

#endif
