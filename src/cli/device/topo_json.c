/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "cli/device/topo.h"
#include "text/json.h"
#include "text/units.h"

static void topo_json_put_device(struct json *j, const struct topo *topo, size_t at)
{
	static const char *const vendors[] = {"nvidia", "amd"};
	const struct topo_device *d = &topo->device[at];
	char hive[24];

	json_open(j, NULL, '{');
	json_text(j, "name", d->name);
	json_text(j, "vendor", vendors[d->device.vendor]);
	json_u64(j, "index", d->index);
	json_text(j, "id", units_uuid(d->device.uuid).s);
	json_text(j, "model", d->device.model);
	json_text(j, "pci", d->device.pci);
	json_u64(j, "memory_bytes", d->device.total_bytes);
	json_known_u64(j, "gpu_id", d->gpu_id);
	/* 64 bits without meaning as a number: as text, so that no reader rounds it. */
	snprintf(hive, sizeof(hive), "0x%016" PRIx64, d->hive_id);
	json_text(j, "hive_id", d->hive_id ? hive : NULL);
	json_open(j, "reaches", '[');
	for (size_t i = 0; i < topo->n; i++)
		if (i != at && topo_link(topo, at, i)->reach)
			json_text(j, NULL, topo->device[i].name);
	json_close(j, ']');
	json_close(j, '}');
}

static void topo_json_put_link(struct json *j, const struct topo *topo, size_t from, size_t to)
{
	const struct topo_link *l = topo_link(topo, from, to);

	json_open(j, NULL, '{');
	json_text(j, "from", topo->device[from].name);
	json_text(j, "to", topo->device[to].name);
	json_text(j, "type", l->type);
	json_known_u64(j, "count", l->count);
	json_text(j, "path", l->path);
	json_known_u64(j, "weight", l->weight);
	json_known_u64(j, "min_mb_per_s", l->min_mb_per_s);
	json_known_u64(j, "max_mb_per_s", l->max_mb_per_s);
	json_known_u64(j, "measured_mb_per_s", l->measured_mb_per_s);
	json_close(j, '}');
}

void topo_json(const struct topo *topo, FILE *out)
{
	struct json j = {.out = out};

	json_open(&j, NULL, '{');
	json_u64(&j, "version", TOPO_JSON_VERSION);
	json_open(&j, "devices", '[');
	for (size_t i = 0; i < topo->n; i++)
		topo_json_put_device(&j, topo, i);
	json_close(&j, ']');
	json_open(&j, "links", '[');
	for (size_t i = 0; i < topo->n; i++)
		for (size_t k = 0; k < topo->n; k++)
			if (i != k && topo_link(topo, i, k)->reach)
				topo_json_put_link(&j, topo, i, k);
	json_close(&j, ']');
	json_text(&j, "nvidia_error", topo_nvidia_trouble(topo));
	json_text(&j, "amd_error", topo_amd_trouble(topo));
	json_u64(&j, "amd_hidden", topo->amd_hidden);
	json_u64(&j, "amd_without_render_node", topo->amd_without_render_node);
	json_close(&j, '}');
}
