/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/stream.h"

#include <string.h>
#include <time.h>

#include "node/tenants_json.h"
#include "text/units.h"

static void stream_put_gauge(struct json *j, const char *key, uint32_t value)
{
	json_u64_if(j, key, value != GAUGE_UNKNOWN, value);
}

static void stream_put_device(struct json *j, const struct view *view, const struct gauge *g)
{
	struct tenants_sum sum = tenants_sum(&view->tenants, g->uuid, g->total_bytes);

	json_open(j, NULL, '{');
	json_u64(j, "index", g->index);
	json_text(j, "uuid", units_uuid(g->uuid).s);
	json_text(j, "model", g->model);
	json_known_u64(j, "total_bytes", g->total_bytes);
	json_u64_if(j, "used_bytes", g->used_bytes != GAUGE_BYTES_UNKNOWN, g->used_bytes);
	json_u64(j, "promised_bytes", sum.promised_bytes);
	stream_put_gauge(j, "busy_percent", g->busy_percent);
	stream_put_gauge(j, "encoder_percent", g->encoder_percent);
	stream_put_gauge(j, "decoder_percent", g->decoder_percent);
	stream_put_gauge(j, "celsius", g->celsius);
	stream_put_gauge(j, "power_mw", g->milliwatt);
	stream_put_gauge(j, "power_limit_mw", g->limit_milliwatt);
	stream_put_gauge(j, "sm_mhz", g->sm_mhz);
	stream_put_gauge(j, "memory_mhz", g->memory_mhz);
	stream_put_gauge(j, "pcie_generation", g->pcie_generation);
	stream_put_gauge(j, "pcie_lanes", g->pcie_lanes);
	json_close(j, '}');
}

/* Tenants have a row for each of their devices: the first of them stands for all. */
static bool stream_is_first(const struct rows *rows, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (rows->list[i].tenant == rows->list[at].tenant)
			return false;
	return true;
}

/* A tenant that cannot be read has no row, and matches no filter. */
static void stream_put_tenants(struct json *j, const struct view *view, const struct rows *rows,
			       const struct rows_choice *choice)
{
	json_open(j, "tenants", '[');
	for (size_t i = 0; i < rows->n; i++)
		if (rows->list[i].tenant && stream_is_first(rows, i) &&
		    (!*choice->name || !strcmp(rows->list[i].tenant->name, choice->name)))
			tenants_json_tenant(j, rows->list[i].tenant);
	for (size_t i = 0; i < view->tenants.n && !*choice->filter; i++)
		if (view->tenants.list[i].error &&
		    (!*choice->name || !strcmp(view->tenants.list[i].name, choice->name)))
			tenants_json_tenant(j, &view->tenants.list[i]);
	json_close(j, ']');
}

int stream_put(const struct view *view, const struct rows_choice *choice, FILE *out)
{
	struct json j = {.out = out, .flat = true};
	struct rows rows = {.n = 0};
	int r = rows_collect(view, choice, &rows);
	struct timespec now;

	if (r < 0)
		return r;
	clock_gettime(CLOCK_REALTIME, &now);
	json_open(&j, NULL, '{');
	json_u64(&j, "version", TENANTS_JSON_VERSION);
	json_text(&j, "runtime_dir", view->tenants.runtime);
	json_u64(&j, "time_ms", (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
	json_open(&j, "devices", '[');
	for (unsigned int i = 0; i < view->gauges.n; i++)
		stream_put_device(&j, view, &view->gauges.list[i]);
	json_close(&j, ']');
	stream_put_tenants(&j, view, &rows, choice);
	json_open(&j, "outside", '[');
	for (size_t i = 0; i < rows.n && !*choice->name; i++)
		if (rows.list[i].outside)
			tenants_json_outsider(&j, rows.list[i].outside);
	json_close(&j, ']');
	json_close(&j, '}');
	rows_free(&rows);
	return 0;
}
