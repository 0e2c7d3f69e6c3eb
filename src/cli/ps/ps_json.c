/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps/ps_json.h"

#include "node/ended.h"
#include "node/tenants_json.h"
#include "text/units.h"

static void ps_json_put_ended(struct json *j, const struct ended *e)
{
	json_open(j, NULL, '{');
	json_text(j, "name", e->name);
	json_i64(j, "began_s", e->began_s);
	json_i64(j, "ended_s", e->ended_s);
	json_text(j, "uuid", e->used ? units_uuid(e->uuid).s : NULL);
	json_known_u64(j, "quota_bytes", e->limit_bytes);
	json_u64(j, "peak_bytes", e->peak_bytes);
	json_known_u64(j, "busy_ns", e->busy_ns);
	json_u64(j, "refusals", e->refusals);
	json_known_u64(j, "energy_uj", e->energy_uj);
	json_close(j, '}');
}

void ps_json_ended(const char *runtime, const struct ended *list, size_t n, FILE *out)
{
	struct json j = {.out = out};

	json_open(&j, NULL, '{');
	json_u64(&j, "version", TENANTS_JSON_VERSION);
	json_text(&j, "runtime_dir", runtime);
	json_open(&j, "ended", '[');
	for (size_t i = 0; i < n; i++)
		ps_json_put_ended(&j, &list[i]);
	json_close(&j, ']');
	json_close(&j, '}');
}

void ps_json(const struct tenants *tenants, const struct ps_outside *outside, FILE *out)
{
	struct json j = {.out = out};

	json_open(&j, NULL, '{');
	tenants_json_begin(&j, tenants);
	json_open(&j, "outside", '[');
	for (size_t i = 0; i < outside->n; i++)
		tenants_json_outsider(&j, &outside->found[i]);
	json_close(&j, ']');
	json_close(&j, '}');
}
