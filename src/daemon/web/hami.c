/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/hami.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/web/exposition.h"
#include "text/units.h"

#define NONE UINT64_MAX /* not known, or not limited: nothing is said */

/* WHOLE is said as it is; hundredths of a percent as a PERCENTAGE, or as a PART of 1. */
enum unit { WHOLE, PERCENTAGE, PART };

static void hami_put_value(FILE *out, enum unit unit, uint64_t value)
{
	if (unit == WHOLE)
		fprintf(out, "%" PRIu64, value);
	else
		exposition_put_parts(out, value, unit == PART ? 4 : 2);
	fputc('\n', out);
}

/* --- Tenants on devices ---------------------------------------------------------------------- */

static uint64_t hami_used(const struct snapshot_device *d)
{
	return d->used_bytes;
}

static uint64_t hami_limit(const struct snapshot_device *d)
{
	return d->limit_bytes ? d->limit_bytes : NONE;
}

static uint64_t hami_context(const struct snapshot_device *d)
{
	return d->used[CAT_CONTEXT];
}

static uint64_t hami_module(const struct snapshot_device *d)
{
	return d->used[CAT_MODULE];
}

/* HAMi knows no pools, arrays, graphs or imports apart. */
static uint64_t hami_buffer(const struct snapshot_device *d)
{
	uint64_t others = d->used[CAT_CONTEXT] + d->used[CAT_MODULE];

	return d->used_bytes > others ? d->used_bytes - others : 0;
}

static uint64_t hami_achieved_bp(const struct snapshot_device *d)
{
	return tenants_measured(d) ? d->compute.achieved_1s_bp : NONE;
}

static uint64_t hami_target_bp(const struct snapshot_device *d)
{
	return d->compute.target_permille ? (uint64_t)d->compute.target_permille * 10 : NONE;
}

/* As in HAMi blocks of grids with the same controller; nanoseconds with allot's own. */
static uint64_t hami_tokens(const struct snapshot_device *d)
{
	return tenants_measured(d) ? d->compute.tokens : NONE;
}

_Static_assert(NONE == SNAPSHOT_NO_TOKENS, "nothing is said");

static uint64_t hami_launches(const struct snapshot_device *d)
{
	return tenants_measured(d) ? d->compute.launches : NONE;
}

static uint64_t hami_throttles(const struct snapshot_device *d)
{
	return tenants_measured(d) ? d->compute.throttles : NONE;
}

/*
 * The older name of each, as HAMi had it before 2026 and has it with --legacy-metrics, goes with
 * older labels; NULL: it had none.
 */
static const struct {
	const char *name, *older, *kind, *help;
	enum unit unit;
	uint64_t (*value)(const struct snapshot_device *device);
} of_tenants[] = {
	{"hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes", "gauge",
	 "What the tenant has of the device.", WHOLE, hami_used},
	{"hami_vgpu_memory_limit_bytes", "vGPU_device_memory_limit_in_bytes", "gauge",
	 "Most that it may have.", WHOLE, hami_limit},
	{"hami_container_device_memory_bytes", "Device_memory_desc_of_container", "gauge",
	 "The same as what it has.", WHOLE, hami_used},
	{"hami_vgpu_memory_context_bytes", NULL, "gauge", "Of that, for contexts.", WHOLE,
	 hami_context},
	{"hami_vgpu_memory_module_bytes", NULL, "gauge", "Of that, for code.", WHOLE, hami_module},
	{"hami_vgpu_memory_buffer_bytes", NULL, "gauge", "Of that, all else.", WHOLE, hami_buffer},
	{"hami_container_device_utilization_ratio", "Device_utilization_desc_of_container", "gauge",
	 "Percentage of the device's time that it had in the last second.", PERCENTAGE,
	 hami_achieved_bp},
	{"target_sm_utilization", NULL, "gauge",
	 "Percentage of the device's time that it may count on now.", PERCENTAGE, hami_target_bp},
	{"actual_sm_utilization", NULL, "gauge", "Percentage that it had in the last second.",
	 PERCENTAGE, hami_achieved_bp},
	{"available_tokens", NULL, "gauge",
	 "What it may use at once: blocks of grids (bucket), nanoseconds of the device (deficit).",
	 WHOLE, hami_tokens},
	{"kernel_launch_total", NULL, "counter", "Launches of kernels.", WHOLE, hami_launches},
	{"kernel_throttle_total", NULL, "counter", "Launches that were held.", WHOLE,
	 hami_throttles},
};

static const char *hami_pod(const struct tenant_entry *e)
{
	return *e->pod.name ? e->pod.name : e->name;
}

static const char *hami_container_of(const struct tenant_entry *e)
{
	return *e->pod.name ? e->pod.container : e->container;
}

/* Tenants are alike where HAMi's labels are: two Pods of one name while the first one ends. */
static bool hami_is_alike(const struct tenant_entry *a, const struct tenant_entry *b, int d)
{
	return a->snapshot && b->snapshot && d < a->snapshot->ndevices && d < b->snapshot->ndevices &&
	       !memcmp(a->snapshot->device[d].uuid, b->snapshot->device[d].uuid, 16) &&
	       !strcmp(a->pod.space, b->pod.space) && !strcmp(hami_pod(a), hami_pod(b)) &&
	       !strcmp(hami_container_of(a), hami_container_of(b));
}

/* The sum over tenants that are alike, for the first one of them: a series may be there once. */
static uint64_t hami_sum(const struct tenants *tenants, size_t row, size_t tenant, int d)
{
	uint64_t sum = 0, value;

	for (size_t i = 0; i < tenants->n; i++) {
		if (!hami_is_alike(&tenants->list[i], &tenants->list[tenant], d))
			continue;
		if (i < tenant)
			return NONE;
		value = of_tenants[row].value(&tenants->list[i].snapshot->device[d]);
		if (value >= NONE - sum)
			return NONE;
		sum += value;
	}
	return sum;
}

static void hami_put_tenant(FILE *out, size_t row, bool older, const struct tenants *tenants,
			    size_t tenant, int d)
{
	const struct tenant_entry *e = &tenants->list[tenant];
	uint64_t value = hami_sum(tenants, row, tenant, d);
	char index[16];

	if (value == NONE)
		return;
	snprintf(index, sizeof(index), "%d", d);
	exposition_begin(out, older ? of_tenants[row].older : of_tenants[row].name,
			 LABELS(older ? "podnamespace" : "namespace", e->pod.space,
				older ? "podname" : "pod", hami_pod(e),
				older ? "ctrname" : "container", hami_container_of(e),
				older ? "vdeviceid" : "vdevice_index", index,
				older ? "deviceuuid" : "device_uuid",
				units_uuid(e->snapshot->device[d].uuid).s));
	hami_put_value(out, of_tenants[row].unit, value);
}

static void hami_put_tenants(FILE *out, size_t row, bool older, const struct tenants *tenants)
{
	exposition_head(out, older ? of_tenants[row].older : of_tenants[row].name,
			of_tenants[row].kind, of_tenants[row].help);
	for (size_t i = 0; i < tenants->n; i++) {
		const struct snapshot *s = tenants->list[i].snapshot;

		for (int d = 0; s && d < s->ndevices; d++)
			hami_put_tenant(out, row, older, tenants, i, d);
	}
}

/* --- Devices --------------------------------------------------------------------------------- */

struct hami_device {
	const struct device *device;
	struct tenants_sum sum;
	uint64_t tenants, outside_bytes, asked_permille, achieved_bp;
};

static struct hami_device hami_look(const struct device *device, const struct tenants *tenants,
				    const struct audit_report *audit)
{
	struct hami_device ret = {.device = device,
				  .sum = tenants_sum(tenants, device->uuid, device->total_bytes)};

	if (audit)
		ret.outside_bytes = audit_outside_bytes(audit, device->uuid);
	for (size_t i = 0; i < tenants->n; i++) {
		const struct snapshot_device *d =
			snapshot_device_of(tenants->list[i].snapshot, device->uuid);

		if (!d)
			continue;
		ret.tenants++;
		ret.asked_permille += d->compute.share_permille;
		ret.achieved_bp += d->compute.achieved_1s_bp;
	}
	return ret;
}

static uint64_t hami_device_limit(const struct hami_device *d)
{
	return d->device->total_bytes;
}

static uint64_t hami_device_cores(const struct hami_device *d)
{
	return 100;
}

static uint64_t hami_device_allocated(const struct hami_device *d)
{
	return d->sum.promised_bytes;
}

static uint64_t hami_device_shared(const struct hami_device *d)
{
	return d->tenants;
}

static uint64_t hami_device_cores_bp(const struct hami_device *d)
{
	return d->asked_permille * 10;
}

static uint64_t hami_device_memory_part(const struct hami_device *d)
{
	if (!d->device->total_bytes)
		return NONE;
	return (uint64_t)((double)d->sum.promised_bytes / (double)d->device->total_bytes * 10000);
}

static uint64_t hami_device_used(const struct hami_device *d)
{
	return d->sum.used_bytes > NONE - 1 - d->outside_bytes
		       ? NONE
		       : d->sum.used_bytes + d->outside_bytes;
}

static uint64_t hami_device_achieved(const struct hami_device *d)
{
	return d->sum.measured ? d->achieved_bp : NONE;
}

static const struct {
	const char *name, *older, *help;
	enum unit unit;
	bool has_cores; /* a label more */
	uint64_t (*value)(const struct hami_device *device);
} of_devices[] = {
	{"hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit", "What the device has.", WHOLE,
	 false, hami_device_limit},
	{"hami_gpu_core_limit_ratio", "GPUDeviceCoreLimit",
	 "Percentage of its time that can be given.", WHOLE, false, hami_device_cores},
	{"hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated",
	 "The sum of its tenants' quotas.", WHOLE, true, hami_device_allocated},
	{"hami_gpu_shared_count", "GPUDeviceSharedNum", "Tenants on it.", WHOLE, false,
	 hami_device_shared},
	{"hami_gpu_core_allocated_ratio", "GPUDeviceCoreAllocated",
	 "The sum of the shares that they asked for, in percent.", PERCENTAGE, false,
	 hami_device_cores_bp},
	{"hami_node_gpu_memory_allocated_ratio", "nodeGPUMemoryPercentage",
	 "The part of its memory that is promised.", PART, false, hami_device_memory_part},
	{"hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage",
	 "What tenants have of it, and who is seen outside of them.", WHOLE, false,
	 hami_device_used},
	{"hami_host_gpu_utilization_ratio", "HostCoreUtilization",
	 "Percentage of its time that tenants had in the last second.", PERCENTAGE, false,
	 hami_device_achieved},
};

static void hami_put_device(FILE *out, size_t row, bool older, const char *node,
			    const struct hami_device *d, unsigned int number)
{
	const char *cores = older ? "devicecores" : "device_cores";
	uint64_t value = of_devices[row].value(d);
	char index[16];

	if (value == NONE)
		return;
	snprintf(index, sizeof(index), "%u", number);
	exposition_begin(out, older ? of_devices[row].older : of_devices[row].name,
			 LABELS(older ? "nodeid" : "node", node,
				older ? "deviceuuid" : "device_uuid", units_uuid(d->device->uuid).s,
				older ? "deviceidx" : "device_index", index,
				older ? "devicetype" : "device_type", d->device->model,
				of_devices[row].has_cores ? cores : NULL, "100"));
	hami_put_value(out, of_devices[row].unit, value);
}

static void hami_put_devices(FILE *out, size_t row, bool older, const char *node,
			     const struct devices *devices, const struct hami_device *figures)
{
	exposition_head(out, older ? of_devices[row].older : of_devices[row].name, "gauge",
			of_devices[row].help);
	for (unsigned int i = 0; i < devices->n; i++)
		hami_put_device(out, row, older, node, &figures[i], i);
}

void hami_write(const char *node, const struct devices *devices, const struct tenants *tenants,
		const struct audit_report *audit, FILE *out)
{
	struct hami_device figures[POLICY_DEVICES];

	for (unsigned int i = 0; i < devices->n; i++)
		figures[i] = hami_look(&devices->list[i], tenants, audit);
	for (size_t row = 0; row < sizeof(of_devices) / sizeof(of_devices[0]); row++) {
		hami_put_devices(out, row, false, node, devices, figures);
		hami_put_devices(out, row, true, node, devices, figures);
	}
	for (size_t row = 0; row < sizeof(of_tenants) / sizeof(of_tenants[0]); row++) {
		hami_put_tenants(out, row, false, tenants);
		if (of_tenants[row].older)
			hami_put_tenants(out, row, true, tenants);
	}
}
