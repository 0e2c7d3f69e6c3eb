/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/driver_list.h"

#include <errno.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "guest/account/state.h"
#include "guest/core/own_nvml.h"

typedef nvmlReturn_t driver_list_fn(nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_v2_t *out);

/* By the newer form, or the older one where the driver has no other. */
static nvmlReturn_t driver_list_ask(driver_list_fn *newer, driver_list_fn *older, nvmlDevice_t device,
				    unsigned int *n, nvmlProcessInfo_v2_t *out)
{
	nvmlReturn_t r = newer(device, n, out);

	return r == NVML_ERROR_FUNCTION_NOT_FOUND ? older(device, n, out) : r;
}

static bool driver_list_has(const nvmlProcessInfo_v2_t *process, int n, unsigned int pid)
{
	for (int i = 0; i < n; i++)
		if (process[i].pid == pid)
			return true;
	return false;
}

/*
 * One more question makes a look longer, in which no other thread may be in the way. A process of CUDA's
 * alone is in the first list, and one that draws charges itself what its driver takes.
 */
static bool driver_list_needs_graphics(const struct guest *guest)
{
	return guest_by_driver(guest) || atomic_load(&guest->account->others);
}

/* Processes that draw are in a list of their own, and those that do both in both, with all they have. */
static void driver_list_add_graphics(const struct nvml_library *nvml, nvmlDevice_t device,
				     struct driver_list *list)
{
	unsigned int more = (unsigned int)(DRIVER_LIST_PROCESSES - list->n);
	nvmlProcessInfo_v2_t *from = list->process + list->n;
	int compute = list->n;

	if (driver_list_ask(nvml->nvmlDeviceGetGraphicsRunningProcesses_v3,
			    nvml->nvmlDeviceGetGraphicsRunningProcesses_v2, device, &more, from) != NVML_SUCCESS)
		return;
	for (unsigned int i = 0; i < more; i++)
		if (!driver_list_has(list->process, compute, from[i].pid))
			list->process[list->n++] = from[i];
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
		r = driver_list_ask(nvml->nvmlDeviceGetComputeRunningProcesses_v3,
				    nvml->nvmlDeviceGetComputeRunningProcesses_v2, device, &n, ret->process);
	ret->n = n < DRIVER_LIST_PROCESSES ? (int)n : DRIVER_LIST_PROCESSES;
	if (r == NVML_SUCCESS && driver_list_needs_graphics(guest))
		driver_list_add_graphics(nvml, device, ret);
	guest_depth--;
	cancel_release(cancel);
	return r == NVML_SUCCESS ? 0 : -EIO;
}
