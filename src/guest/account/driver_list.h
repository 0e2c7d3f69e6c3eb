/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that use a device, and how much of it, as NVML lists them: by the pids that the driver knows. */
#ifndef ALLOT_GUEST_ACCOUNT_DRIVER_LIST_H
#define ALLOT_GUEST_ACCOUNT_DRIVER_LIST_H

#include <stdint.h>

#include "guest/core/guest.h"
#include "nvidia/nvml_api.h"

#define DRIVER_LIST_PROCESSES 2048

/* Too large for a stack that is not ours. */
struct driver_list {
	int n;
	nvmlProcessInfo_v2_t process[DRIVER_LIST_PROCESSES];
};

/* 0 or -EIO. */
int driver_list_read(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		     struct driver_list *ret);

#endif
