/* SPDX-License-Identifier: Apache-2.0 */
#include "node/figures.h"

#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "amd/topology_read.h"
#include "base/number.h"
#include "node/amd_usage.h"
#include "node/devices.h"
#include "nvidia/nvml.h"

/* Opened once, for as long as `allot top` runs: opening takes milliseconds. */
static struct nvml *figures_nvml(void)
{
	static struct nvml *nvml;
	static bool tried;

	if (!tried && nvml_open(NULL, &nvml))
		nvml = NULL;
	tried = true;
	return nvml;
}

bool figures_decide(const struct policy *policy, const uint8_t uuid[16])
{
	return policy->flags & POLICY_ACCOUNTING_DRIVER && !amd_identity_is(uuid);
}

int figures_index(const uint8_t uuid[16])
{
	static struct devices devices;
	static bool read;
	const struct device *found;

	if (!read)
		devices_read(&devices);
	read = true;
	found = devices_find(&devices, uuid);
	return found ? (int)(found - devices.list) : -1;
}

static const struct nvml_process *figures_find_process(const struct nvml_process *list, size_t n,
						       uint32_t pid)
{
	for (size_t i = 0; pid && i < n; i++)
		if (list[i].pid == (pid_t)pid && list[i].used_bytes != NVML_BYTES_UNKNOWN)
			return &list[i];
	return NULL;
}

/* The part of the driver's figure of a process that is no context. Memory that others lent to it is in theirs. */
static uint64_t figures_beside_contexts(const struct snapshot_process_device *use)
{
	uint64_t not_shown = use->used[CAT_CONTEXT] + use->used[CAT_IMPORTED] + use->pending;

	return sat_sub_u64(use->used_bytes, not_shown);
}

/* Replaces a guess by the driver's new figure. */
static void figures_replace_guess(struct snapshot_device *device, struct snapshot_process_device *use)
{
	uint64_t guess = use->used[CAT_CONTEXT];
	uint64_t is = sat_sub_u64(use->driver_bytes, figures_beside_contexts(use));

	use->used[CAT_CONTEXT] = is;
	use->used_bytes = sat_sub_u64(use->used_bytes, guess) + is;
	device->used[CAT_CONTEXT] = sat_sub_u64(device->used[CAT_CONTEXT], guess) + is;
	device->used_bytes = sat_sub_u64(device->used_bytes, guess) + is;
	device->guessed_bytes = sat_sub_u64(device->guessed_bytes, guess);
}

static void figures_apply_device(struct snapshot *snapshot, int d, const struct nvml_process *list,
				 size_t n)
{
	struct snapshot_device *device = &snapshot->device[d];
	bool is_use = snapshot->policy.flags & POLICY_ACCOUNTING_DRIVER;
	uint64_t sum = 0;

	for (int p = 0; p < snapshot->nprocesses; p++) {
		struct snapshot_process_device *use = &snapshot->process[p].device[d];
		const struct nvml_process *now =
			figures_find_process(list, n, snapshot->process[p].host_pid);

		if (!snapshot->process[p].live)
			continue;
		/* The driver lists a process as long as it has a context. */
		if (now || snapshot->process[p].host_pid) {
			use->driver_bytes = now ? now->used_bytes : 0;
			use->driver_ns = snapshot->now_ns;
		}
		if (now && device->guessed_bytes && use->used[CAT_CONTEXT])
			figures_replace_guess(device, use);
		/* The ledger has memory that is in no figure of the driver's. */
		if (is_use)
			use->used_bytes += use->driver_bytes;
		sum += use->driver_bytes;
	}
	device->driver_bytes = sum;
	if (is_use)
		device->used_bytes += sum;
}

static bool figures_is_wanted(const struct tenants *tenants, const uint8_t uuid[16])
{
	for (size_t t = 0; t < tenants->n; t++) {
		const struct snapshot *snapshot = tenants->list[t].snapshot;

		if (snapshot && tenants_live(snapshot) && snapshot_device_of(snapshot, uuid))
			return true;
	}
	return false;
}

static void figures_apply_nvidia(struct tenants *tenants)
{
	struct nvml_process *list = NULL;
	struct nvml_device device;
	unsigned int count = 0;
	size_t n = 0;

	if (!figures_nvml() || nvml_device_count(figures_nvml(), &count))
		return;
	for (unsigned int i = 0; i < count; i++) {
		if (nvml_device_get(figures_nvml(), i, &device) ||
		    !figures_is_wanted(tenants, device.uuid) ||
		    nvml_device_processes(figures_nvml(), i, &list, &n))
			continue;
		for (size_t t = 0; t < tenants->n; t++) {
			struct snapshot *snapshot = tenants->list[t].snapshot;
			const struct snapshot_device *of = snapshot_device_of(snapshot, device.uuid);

			if (of)
				figures_apply_device(snapshot, (int)(of - snapshot->device), list, n);
		}
		free(list);
	}
}

/* Read once, too. NULL: no AMD GPU. */
static const struct topology *figures_topology(void)
{
	static struct topology_complaint complaint;
	static struct topology *amd;
	static bool tried;

	if (!tried && topology_read(NULL, &amd, &complaint))
		amd = NULL;
	tried = true;
	return amd;
}

/* Returns false where nothing is told of that device. */
static bool figures_find_gpu(const struct topology *amd, const struct amd_usage *told,
			     const uint8_t uuid[16], uint64_t *ret_bytes)
{
	uint8_t gpu[16];

	for (uint32_t i = 0; i < told->n; i++) {
		amd_identity(&amd->nodes[told->gpu[i].node], gpu);
		if (memcmp(gpu, uuid, sizeof(gpu)) != 0)
			continue;
		*ret_bytes = told->gpu[i].bytes;
		return true;
	}
	return false;
}

/*
 * The kernel does not tell it of processes that are not seen from here, or are another user's. A
 * guard notes the figure of all its processes, which is more than its own process has.
 */
static void figures_apply_process(const struct topology *amd, struct snapshot *snapshot, int p)
{
	struct snapshot_process *process = &snapshot->process[p];
	struct amd_usage told;
	int r = amd_usage_read(amd, (pid_t)process->host_pid, &told);

	if (r < 0 && r != -EAGAIN)
		return;
	for (int d = 0; d < snapshot->ndevices; d++) {
		struct snapshot_process_device *use = &process->device[d];
		uint64_t bytes;

		if (!figures_find_gpu(amd, &told, snapshot->device[d].uuid, &bytes) ||
		    bytes < use->driver_bytes)
			continue;
		use->driver_bytes = bytes;
		use->driver_ns = snapshot->now_ns;
	}
}

static void figures_apply_kernels(const struct topology *amd, struct snapshot *snapshot)
{
	for (int p = 0; p < snapshot->nprocesses; p++)
		if (snapshot->process[p].live && snapshot->process[p].host_pid)
			figures_apply_process(amd, snapshot, p);
	for (int d = 0; d < snapshot->ndevices; d++) {
		uint64_t sum = 0;

		for (int p = 0; p < snapshot->nprocesses; p++)
			if (snapshot->process[p].live)
				sum += snapshot->process[p].device[d].driver_bytes;
		if (amd_identity_is(snapshot->device[d].uuid))
			snapshot->device[d].driver_bytes = sum;
	}
}

static bool figures_has_amd(const struct snapshot *snapshot)
{
	for (int d = 0; snapshot && d < snapshot->ndevices; d++)
		if (amd_identity_is(snapshot->device[d].uuid))
			return true;
	return false;
}

static void figures_apply_amd(struct tenants *tenants)
{
	const struct topology *amd = figures_topology();

	for (size_t t = 0; amd && t < tenants->n; t++)
		if (figures_has_amd(tenants->list[t].snapshot))
			figures_apply_kernels(amd, tenants->list[t].snapshot);
}

void figures_apply(struct tenants *tenants)
{
	bool nvidia = false, amd = false;

	for (size_t t = 0; t < tenants->n; t++) {
		const struct snapshot *snapshot = tenants->list[t].snapshot;

		for (int d = 0; snapshot && tenants_live(snapshot) && d < snapshot->ndevices; d++) {
			amd = amd || amd_identity_is(snapshot->device[d].uuid);
			nvidia = nvidia || !amd_identity_is(snapshot->device[d].uuid);
		}
	}
	if (nvidia)
		figures_apply_nvidia(tenants);
	if (amd)
		figures_apply_amd(tenants);
}
