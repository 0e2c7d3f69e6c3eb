/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/v1.h"

#include "node/tenants_json.h"
#include "text/json.h"
#include "text/units.h"

/* Where nobody looked yet, nothing is said, which is not the same as nobody. */
static bool v1_has_looked(const struct audit_report *audit)
{
	return audit && audit->age_ns != UINT64_MAX;
}

static void v1_put_device(struct json *j, unsigned int index, const struct device *d,
			  const struct tenants *tenants, const struct audit_report *audit)
{
	struct tenants_sum sum = tenants_sum(tenants, d->uuid, d->total_bytes);

	json_open(j, NULL, '{');
	json_u64(j, "index", index);
	json_text(j, "uuid", units_uuid(d->uuid).s);
	json_text(j, "vendor", d->vendor == DEVICE_AMD ? "amd" : "nvidia");
	json_text(j, "model", d->model);
	json_text(j, "pci", d->pci);
	json_known_u64(j, "total_bytes", d->total_bytes);
	json_u64(j, "promised_bytes", sum.promised_bytes);
	json_u64(j, "used_bytes", sum.used_bytes);
	if (v1_has_looked(audit))
		json_bool(j, "lost", audit_is_lost(audit, d->uuid));
	else
		json_none(j, "lost");
	json_close(j, '}');
}

static void v1_put_outside(struct json *j, const struct audit_report *audit)
{
	if (!v1_has_looked(audit)) {
		json_none(j, "outside");
		json_none(j, "audit_age_ns");
		return;
	}
	json_open(j, "outside", '[');
	for (size_t i = 0; i < audit->n; i++)
		tenants_json_outsider(j, &audit->finding[i].found);
	json_close(j, ']');
	json_u64(j, "audit_age_ns", audit->age_ns);
}

void v1_write_node(const struct devices *devices, const struct tenants *tenants,
		   const struct audit_report *audit, FILE *out)
{
	struct json j = {.out = out};

	json_open(&j, NULL, '{');
	tenants_json_begin(&j, tenants);
	v1_put_outside(&j, audit);
	json_open(&j, "devices", '[');
	for (unsigned int i = 0; i < devices->n; i++)
		v1_put_device(&j, i, &devices->list[i], tenants, audit);
	json_close(&j, ']');
	json_text(&j, "allotd", ALLOT_VERSION);
	json_close(&j, '}');
}

void v1_write_index(FILE *out)
{
	static const struct {
		const char *path, *about;
	} pages[] = {
		{"/", "for people: devices, tenants and the last ten minutes"},
		{"/healthz", "\"ok\" while the runtime directory can be read"},
		{"/metrics", "for Prometheus"},
		{"/v1/node", "devices, tenants and programs outside of them"},
		{"/v1/history", "the last ten minutes of devices and tenants"},
	};
	struct json j = {.out = out};

	json_open(&j, NULL, '{');
	json_u64(&j, "version", TENANTS_JSON_VERSION);
	json_text(&j, "allotd", ALLOT_VERSION);
	json_open(&j, "pages", '[');
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		json_open(&j, NULL, '{');
		json_text(&j, "path", pages[i].path);
		json_text(&j, "about", pages[i].about);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
}
