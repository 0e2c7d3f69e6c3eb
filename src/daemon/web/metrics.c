/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "daemon/web/exposition.h"
#include "text/units.h"

enum unit { UNIT_BYTES, UNIT_COUNT, UNIT_NS, UNIT_SIGNED_NS, UNIT_UJ, UNIT_MW, UNIT_PERMILLE, UNIT_BP };
enum when { WHEN_ALWAYS, WHEN_KNOWN, WHEN_MEASURED, WHEN_DRAWS, WHEN_OWES };

struct row {
	const char *name, *kind, *help;
	enum unit unit;
	enum when when;
	size_t at; /* in struct snapshot_device */
};

static const struct row rows[] = {
#define ROW(name, kind, unit, field, when, help)                                                   \
	{"allot_" #name, #kind,	      help,                                                        \
	 UNIT_##unit,	 WHEN_##when, offsetof(struct snapshot_device, field)},
#include "daemon/web/metrics.def"
#undef ROW
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const states[] = {"running",	   "idle",	"kept",
				     "suspending", "suspended", "resuming"};

#define NSTATES (sizeof(states) / sizeof(states[0]))

/* --- Tenants on devices ---------------------------------------------------------------------- */

static uint64_t metrics_u64(const struct snapshot_device *device, size_t at)
{
	uint64_t value;

	memcpy(&value, (const char *)device + at, sizeof(value));
	return value;
}

static uint32_t metrics_u32(const struct snapshot_device *device, size_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)device + at, sizeof(value));
	return value;
}

static bool metrics_is_small(enum unit unit)
{
	return unit == UNIT_PERMILLE || unit == UNIT_BP;
}

static bool metrics_has(const struct row *row, const struct snapshot_device *device)
{
	switch (row->when) {
	case WHEN_KNOWN:
		return metrics_is_small(row->unit) ? metrics_u32(device, row->at)
						   : metrics_u64(device, row->at);
	case WHEN_MEASURED:
		return tenants_measured(device);
	case WHEN_DRAWS:
		return device->milliwatt != DEVICE_TIME_NO_POWER;
	case WHEN_OWES:
		return tenants_measured(device) && device->compute.owes;
	default:
		return true;
	}
}

static void metrics_put_value(FILE *out, const struct row *row,
			      const struct snapshot_device *device)
{
	int64_t ns;

	switch (row->unit) {
	case UNIT_NS:
		exposition_put_ns(out, metrics_u64(device, row->at));
		break;
	case UNIT_SIGNED_NS:
		ns = (int64_t)metrics_u64(device, row->at);
		if (ns < 0)
			fputc('-', out);
		exposition_put_ns(out, ns < 0 ? -(uint64_t)ns : (uint64_t)ns);
		break;
	case UNIT_UJ:
		exposition_put_parts(out, metrics_u64(device, row->at), 6);
		break;
	case UNIT_MW:
	case UNIT_PERMILLE:
		exposition_put_parts(out, metrics_u32(device, row->at), 3);
		break;
	case UNIT_BP:
		exposition_put_parts(out, metrics_u32(device, row->at), 4);
		break;
	default:
		fprintf(out, "%" PRIu64, metrics_u64(device, row->at));
		break;
	}
	fputc('\n', out);
}

static void metrics_put_row(FILE *out, const struct row *row, const struct tenants *tenants)
{
	exposition_head(out, row->name, row->kind, row->help);
	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		for (int d = 0; e->snapshot && d < e->snapshot->ndevices; d++) {
			const struct snapshot_device *device = &e->snapshot->device[d];

			if (!metrics_has(row, device))
				continue;
			exposition_begin(
				out, row->name,
				LABELS("tenant", e->name, "device", units_uuid(device->uuid).s));
			metrics_put_value(out, row, device);
		}
	}
}

static void metrics_put_used(FILE *out, const struct tenant_entry *e,
			     const struct snapshot_device *device, const char *category,
			     uint64_t bytes)
{
	exposition_put(out, "allot_memory_used_bytes",
		       LABELS("tenant", e->name, "device", units_uuid(device->uuid).s, "category",
			      category),
		       bytes);
}

static void metrics_put_categories(FILE *out, const struct tenants *tenants)
{
	exposition_head(out, "allot_memory_used_bytes", "gauge",
			"What counts against the quota, by what it is; the sum is what is used.");
	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		for (int d = 0; e->snapshot && d < e->snapshot->ndevices; d++) {
			const struct snapshot_device *device = &e->snapshot->device[d];

			for (int c = 0; c < CAT_N; c++)
				metrics_put_used(out, e, device, category_name((enum category)c),
						 device->used[c]);
			metrics_put_used(out, e, device, "pending", device->pending);
		}
	}
}

/* --- Tenants --------------------------------------------------------------------------------- */

static void metrics_put_tenants(FILE *out, const struct tenants *tenants)
{
	exposition_head(out, "allot_tenant_readable", "gauge",
			"0: the tenant's files are damaged, or of another version.");
	for (size_t i = 0; i < tenants->n; i++)
		exposition_put(out, "allot_tenant_readable",
			       LABELS("tenant", tenants->list[i].name), !tenants->list[i].error);
	exposition_head(out, "allot_tenant_state", "gauge",
			"1 for the state that the tenant is in.");
	for (size_t i = 0; i < tenants->n; i++)
		for (size_t s = 0; s < NSTATES; s++) {
			const char *now = tenants_state_word(&tenants->list[i]);

			exposition_put(
				out, "allot_tenant_state",
				LABELS("tenant", tenants->list[i].name, "state", states[s]),
				!strcmp(now, states[s]));
		}
	exposition_head(out, "allot_tenant_processes", "gauge", "Its processes that use a device.");
	for (size_t i = 0; i < tenants->n; i++)
		if (tenants->list[i].snapshot)
			exposition_put(out, "allot_tenant_processes",
				       LABELS("tenant", tenants->list[i].name),
				       tenants_live(tenants->list[i].snapshot));
}

static void metrics_put_turns(FILE *out, const struct tenants *tenants)
{
	exposition_head(out, "allot_tenant_turns_total", "counter",
			"Turns of the tenant on its devices that began.");
	for (size_t i = 0; i < tenants->n; i++)
		if (tenants->list[i].snapshot)
			exposition_put(out, "allot_tenant_turns_total",
				       LABELS("tenant", tenants->list[i].name),
				       tenants->list[i].snapshot->turns);
}

/* A row each for memory of the machine that AMD's GPUs have pinned, of tenants that used such. */
static void metrics_put_gtt(FILE *out, const struct tenants *tenants)
{
	static const struct {
		const char *name, *kind, *help;
		size_t at;
		bool known; /* 0 is left out: there is no limit */
	} gtt[] = {
#define GTT(name, kind, field, known, help) {name, kind, help, offsetof(struct snapshot_host, field), known}
		GTT("allot_gtt_limit_bytes", "gauge", limit_bytes, true,
		    "Most memory of the machine that AMD GPUs may have pinned for it."),
		GTT("allot_gtt_used_bytes", "gauge", used_bytes, false,
		    "Memory of the machine that they have pinned: GTT, userptr and what is pending."),
		GTT("allot_gtt_userptr_bytes", "gauge", userptr_bytes, false,
		    "Of it: pages of the programs' own."),
		GTT("allot_gtt_denied_total", "counter", refusals, false,
		    "Allocations that were refused for that limit."),
#undef GTT
	};

	for (size_t r = 0; r < sizeof(gtt) / sizeof(gtt[0]); r++) {
		exposition_head(out, gtt[r].name, gtt[r].kind, gtt[r].help);
		for (size_t i = 0; i < tenants->n; i++) {
			const struct snapshot *s = tenants->list[i].snapshot;
			uint64_t value;

			if (!s || !s->host.known)
				continue;
			memcpy(&value, (const char *)&s->host + gtt[r].at, sizeof(value));
			if (value || !gtt[r].known)
				exposition_put(out, gtt[r].name,
					       LABELS("tenant", tenants->list[i].name), value);
		}
	}
}

static void metrics_put_containers(FILE *out, const struct tenants *tenants)
{
	exposition_head(out, "allot_tenant_container_info", "gauge",
			"1; the container that a process of the tenant is in.");
	for (size_t i = 0; i < tenants->n; i++)
		if (*tenants->list[i].container)
			exposition_put(out, "allot_tenant_container_info",
				       LABELS("tenant", tenants->list[i].name, "container",
					      tenants->list[i].container),
				       1);
}

static void metrics_put_pods(FILE *out, const struct tenants *tenants)
{
	exposition_head(out, "allot_tenant_pod_info", "gauge", "1; the Pod for which the tenant is.");
	for (size_t i = 0; i < tenants->n; i++) {
		const struct pod *pod = &tenants->list[i].pod;

		if (*pod->name)
			exposition_put(out, "allot_tenant_pod_info",
				       LABELS("tenant", tenants->list[i].name, "namespace",
					      pod->space, "pod", pod->name, "container",
					      pod->container, "uid", pod->uid),
				       1);
	}
}

/* --- The machine ----------------------------------------------------------------------------- */

static void metrics_put_of_device(FILE *out, const char *name, const struct device *device,
				  uint64_t value)
{
	exposition_put(out, name, LABELS("device", units_uuid(device->uuid).s), value);
}

static void metrics_put_devices(FILE *out, const struct devices *devices,
				const struct tenants *tenants)
{
	exposition_head(out, "allot_device_info", "gauge", "1; what the device is.");
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->list[i];
		char index[16];

		snprintf(index, sizeof(index), "%u", i);
		exposition_put(out, "allot_device_info",
			       LABELS("device", units_uuid(d->uuid).s, "index", index, "vendor",
				      d->vendor == DEVICE_AMD ? "amd" : "nvidia", "model", d->model,
				      "pci", d->pci),
			       1);
	}
	exposition_head(out, "allot_device_memory_bytes", "gauge", "What the device has.");
	for (unsigned int i = 0; i < devices->n; i++)
		metrics_put_of_device(out, "allot_device_memory_bytes", &devices->list[i],
				      devices->list[i].total_bytes);
	exposition_head(out, "allot_device_promised_bytes", "gauge",
			"The sum of the quotas of those tenants whose policies have it.");
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->list[i];

		metrics_put_of_device(
			out, "allot_device_promised_bytes", d,
			tenants_sum(tenants, d->uuid, d->total_bytes).promised_bytes);
	}
}

/* --- Processes without a limit --------------------------------------------------------------- */

static void metrics_put_busy(FILE *out, const struct devices *devices,
			     const struct audit_report *audit)
{
	static const char name[] = "allot_device_busy_ratio";
	uint32_t percent;

	exposition_head(out, name, "gauge",
			"The part of the driver's last window in which the device worked.");
	for (unsigned int i = 0; i < devices->n; i++) {
		if (!audit_busy_percent(audit, devices->list[i].uuid, &percent))
			continue;
		exposition_begin(out, name, LABELS("device", units_uuid(devices->list[i].uuid).s));
		fprintf(out, "%u.%02u\n", (unsigned int)percent / 100, (unsigned int)percent % 100);
	}
}

static size_t metrics_count(const struct audit_report *audit, enum outsider_standing standing)
{
	size_t n = 0;

	for (size_t i = 0; i < audit->n; i++)
		n += audit->finding[i].found.outsider.standing == standing;
	return n;
}

/* Before the first audit there are no metrics, since the number is not known to be 0. */
static void metrics_put_audit(FILE *out, const struct devices *devices,
			      const struct audit_report *audit)
{
	exposition_head(out, "allot_audit_age_seconds", "gauge",
			"Since when nobody saw who uses the devices.");
	if (audit->age_ns == UINT64_MAX)
		return;
	fputs("allot_audit_age_seconds ", out);
	exposition_put_ns(out, audit->age_ns);
	fputc('\n', out);
	exposition_head(out, "allot_device_lost", "gauge",
			"1: the device was there when allotd began, and does not answer.");
	for (unsigned int i = 0; i < devices->n; i++)
		metrics_put_of_device(out, "allot_device_lost", &devices->list[i],
				      audit_is_lost(audit, devices->list[i].uuid));
	metrics_put_busy(out, devices, audit);
	exposition_head(
		out, "allot_outside_processes", "gauge",
		"Processes on a device that are in no tenant, or have more than it knows of.");
	fprintf(out, "allot_outside_processes %zu\n", metrics_count(audit, OUTSIDER_UNLIMITED));
	exposition_head(out, "allot_unread_processes", "gauge",
			"Processes on a device that keep to a ledger that cannot be read.");
	fprintf(out, "allot_unread_processes %zu\n", metrics_count(audit, OUTSIDER_UNREAD));
	exposition_head(out, "allot_outside_memory_bytes", "gauge",
			"What such a process has of the device; 0 where the driver does not tell.");
	for (size_t i = 0; i < audit->n; i++) {
		const struct outsider_found *f = &audit->finding[i].found;
		char pid[16];

		if (f->outsider.standing != OUTSIDER_UNLIMITED)
			continue;
		snprintf(pid, sizeof(pid), "%d", f->outsider.pid);
		exposition_put(out, "allot_outside_memory_bytes",
			       LABELS("device", units_uuid(f->outsider.uuid).s, "pid", pid,
				      "command", f->process.command, "user", f->process.user,
				      "container", f->process.container, "tenant",
				      f->outsider.tenant),
			       f->outsider.bytes == UINT64_MAX ? 0 : f->outsider.bytes);
	}
}

void metrics_write_roles(bool turns, bool memory, FILE *out)
{
	exposition_head(out, "allot_arbiter", "gauge", "1: allotd decides whose turn it is.");
	fprintf(out, "allot_arbiter %d\n", turns);
	exposition_head(out, "allot_residency", "gauge",
			"1: allotd has claimed to decide whose memory is on the devices.");
	fprintf(out, "allot_residency %d\n", memory);
}

void metrics_write(const struct devices *devices, const struct tenants *tenants,
		   const struct audit_report *audit, FILE *out)
{
	exposition_head(out, "allot_build_info", "gauge", "1; the version of allotd.");
	exposition_put(out, "allot_build_info", LABELS("version", ALLOT_VERSION), 1);
	metrics_put_devices(out, devices, tenants);
	if (audit)
		metrics_put_audit(out, devices, audit);
	metrics_put_tenants(out, tenants);
	metrics_put_turns(out, tenants);
	metrics_put_gtt(out, tenants);
	metrics_put_containers(out, tenants);
	metrics_put_pods(out, tenants);
	metrics_put_categories(out, tenants);
	for (size_t i = 0; i < NROWS; i++)
		metrics_put_row(out, &rows[i], tenants);
}
