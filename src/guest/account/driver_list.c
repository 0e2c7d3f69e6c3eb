/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/driver_list.h"

#include <errno.h>

#include "base/cancel.h"
#include "guest/core/own_nvml.h"

static nvmlReturn_t driver_list_ask(const struct nvml_library *nvml, nvmlDevice_t device,
				    unsigned int *n, nvmlProcessInfo_v2_t *out)
{
	nvmlReturn_t r = nvml->nvmlDeviceGetComputeRunningProcesses_v3(device, n, out);

	if (r == NVML_ERROR_FUNCTION_NOT_FOUND)
		r = nvml->nvmlDeviceGetComputeRunningProcesses_v2(device, n, out);
	return r;
}

int driver_list_read(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		     struct driver_list *ret)
{
	unsigned int n = DRIVER_LIST_PROCESSES;
	int cancel = cancel_hold();
	nvmlDevice_t device;
	const struct nvml_library *nvml = own_nvml_get(guest, uuid, ledger_device, &device);
	nvmlReturn_t r = NVML_ERROR_UNINITIALIZED;

	guest_depth++;
	if (nvml)
		r = driver_list_ask(nvml, device, &n, ret->process);
	guest_depth--;
	cancel_release(cancel);
	ret->n = n < DRIVER_LIST_PROCESSES ? (int)n : DRIVER_LIST_PROCESSES;
	return r == NVML_SUCCESS ? 0 : -EIO;
}
