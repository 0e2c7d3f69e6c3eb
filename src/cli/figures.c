/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/figures.h"

#include <stdlib.h>
#include <string.h>

#include "cli/devices.h"

/* Opened once, for as long as `allot top` runs: opening takes milliseconds. */
static struct nvml *library(void)
{
	static struct nvml *nvml;
	static bool tried;

	if (!tried && nvml_open(NULL, &nvml))
		nvml = NULL;
	tried = true;
	return nvml;
}

static const struct nvml_process *find(const struct nvml_process *list, size_t n, uint32_t pid)
{
	for (size_t i = 0; pid && i < n; i++)
		if (list[i].pid == (pid_t)pid && list[i].used_bytes != NVML_BYTES_UNKNOWN)
			return &list[i];
	return NULL;
}

static void apply(struct tenant_view *view, int d, const struct nvml_process *list, size_t n)
{
	struct view_device *device = &view->device[d];
	bool is_use = view->policy.flags & POLICY_ACCOUNTING_DRIVER;
	uint64_t sum = 0;

	for (int p = 0; p < view->nprocesses; p++) {
		struct view_process_device *use = &view->process[p].device[d];
		const struct nvml_process *now = find(list, n, view->process[p].host_pid);

		if (!view->process[p].live)
			continue;
		if (now) {
			use->driver_bytes = now->used_bytes;
			use->driver_ns = view->now_ns;
		}
		if (is_use)
			use->used_bytes = use->driver_bytes + use->pending;
		sum += use->driver_bytes;
	}
	device->driver_bytes = sum;
	if (is_use)
		device->used_bytes = sum + device->pending;
}

static bool wanted(const struct tenants *tenants, const uint8_t uuid[16])
{
	for (size_t t = 0; t < tenants->n; t++) {
		const struct tenant_view *view = tenants->list[t].view;

		for (int d = 0; view && tenants_live(view) && d < view->ndevices; d++)
			if (!memcmp(view->device[d].uuid, uuid, 16))
				return true;
	}
	return false;
}

void figures_apply(struct tenants *tenants)
{
	struct nvml_process *list = NULL;
	struct nvml_device device;
	unsigned int count = 0;
	bool live = false;
	size_t n = 0;

	for (size_t t = 0; t < tenants->n; t++)
		live = live || (tenants->list[t].view && tenants_live(tenants->list[t].view));
	if (!live || !library() || nvml_device_count(library(), &count))
		return;
	for (unsigned int i = 0; i < count; i++) {
		if (nvml_device_get(library(), i, &device) || !wanted(tenants, device.uuid) ||
		    nvml_device_processes(library(), i, &list, &n))
			continue;
		for (size_t t = 0; t < tenants->n; t++) {
			struct tenant_view *view = tenants->list[t].view;

			for (int d = 0; view && d < view->ndevices; d++)
				if (!memcmp(view->device[d].uuid, device.uuid, 16))
					apply(view, d, list, n);
		}
		free(list);
	}
}
