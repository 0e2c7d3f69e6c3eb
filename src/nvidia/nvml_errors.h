/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of devices (Xids), as NVML tells them, and what is to be done about one. Errors of nvml.h. */
#ifndef ALLOT_NVIDIA_NVML_ERRORS_H
#define ALLOT_NVIDIA_NVML_ERRORS_H

#include "nvidia/nvml.h"

struct nvml_errors;

/*
 * Collects the errors of all devices from now on. -ENOTSUP: no device tells its errors. Close it
 * before NVML.
 */
int nvml_errors_open(struct nvml *nvml, struct nvml_errors **ret);
void nvml_errors_close(struct nvml_errors *errors); /* takes NULL */

/* Takes the next one: 1; 0: there is none, which is answered at once. */
int nvml_errors_next(struct nvml_errors *errors, uint8_t ret_uuid[static 16], uint64_t *ret_xid);

enum nvml_recovery {
	NVML_RECOVERY_NONE,
	NVML_RECOVERY_RESET,
	NVML_RECOVERY_REBOOT,
	NVML_RECOVERY_DRAIN_P2P,
	NVML_RECOVERY_DRAIN_AND_RESET,
	NVML_RECOVERY_UNKNOWN, /* the driver does not tell, as before 570, or it is a new one */
};

/* The recovery action that the device asks for. */
enum nvml_recovery nvml_device_recovery(struct nvml *nvml, const uint8_t uuid[static 16]);

#endif
