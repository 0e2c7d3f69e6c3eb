/* SPDX-License-Identifier: Apache-2.0 */
/* NVML, as this program loads it, and the devices that the command line chose. */
#ifndef ALLOT_SIM_SMI_DRIVER_H
#define ALLOT_SIM_SMI_DRIVER_H

#include <stdbool.h>

#include "nvidia/nvml_api.h"
#include "sim/config.h"

/* Exit statuses of the real program that scripts look at. */
enum { EXIT_BAD_ARGUMENT = 2, EXIT_NO_DEVICE = 6, EXIT_NO_DRIVER = 9 };

#define DRIVER_TEXT 96

struct driver_device {
	unsigned int index;
	nvmlDevice_t handle;
};

struct driver {
	struct nvml_library nvml;
	unsigned int count; /* of all devices */
	unsigned int n;	    /* of the chosen ones */
	struct driver_device device[SIM_MAX_DEVICES];
};

/*
 * Loads NVML and finds devices. `chosen`: indices, UUIDs or bus ids, separated by commas; NULL: all.
 * 0, or an exit status, with a message on stdout as the real program has it.
 */
int driver_open(struct driver *driver, const char *chosen);
void driver_close(struct driver *driver);

/* "580.159.04", and "13.0". */
void driver_version(struct driver *driver, char ret[static DRIVER_TEXT]);
void driver_cuda_version(struct driver *driver, char ret[static DRIVER_TEXT]);

/* "[N/A]" where NVML does not tell. */
void driver_name(struct driver *driver, const struct driver_device *device, char ret[static DRIVER_TEXT]);
void driver_uuid(struct driver *driver, const struct driver_device *device, char ret[static DRIVER_TEXT]);
void driver_bus_id(struct driver *driver, const struct driver_device *device, char ret[static DRIVER_TEXT]);
void driver_process_name(struct driver *driver, unsigned int pid, char ret[static DRIVER_TEXT]);

/* `used` leaves out the driver's own memory, which is `reserved`. False: NVML does not tell. */
bool driver_memory(struct driver *driver, const struct driver_device *device, nvmlMemory_v2_t *ret);

#define DRIVER_PROCESSES 1024
/* The processes that compute on the device: how many were written. */
unsigned int driver_processes(struct driver *driver, const struct driver_device *device,
			      nvmlProcessInfo_t ret[static DRIVER_PROCESSES]);
/* Likewise, those that draw. A process may be in both lists. */
unsigned int driver_graphics(struct driver *driver, const struct driver_device *device,
			     nvmlProcessInfo_t ret[static DRIVER_PROCESSES]);

#endif
