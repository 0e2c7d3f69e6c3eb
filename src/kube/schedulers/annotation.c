/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/annotation.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/schedulers/decision.h"
#include "text/units.h"

#define MODEL_BYTES 96

static const struct annotation_keys keys[] = {
	[KUBE_VOLCANO] = {.registered = "volcano.sh/node-vgpu-register",
			  .handshake = "volcano.sh/node-vgpu-handshake",
			  .lock = "hamivgpu",
			  .node = "volcano.sh/vgpu-node",
			  .devices = "volcano.sh/vgpu-ids-new",
			  .left = "volcano.sh/devices-to-allocate",
			  .phase = "volcano.sh/bind-phase"},
	[KUBE_HAMI] = {.registered = "hami.io/node-nvidia-register",
		       .handshake = "hami.io/node-handshake",
		       .lock = "hami.io/mutex.lock",
		       .node = "hami.io/vgpu-node",
		       .devices = "hami.io/vgpu-devices-allocated",
		       .left = "hami.io/vgpu-devices-to-allocate",
		       .phase = "hami.io/bind-phase"},
	[KUBE_XPU] = {.registered = "huawei.com/node-vgpu-register",
		      .handshake = "huawei.com/node-vgpu-handshake",
		      .lock = "vxpu",
		      .topology = "huawei.com/node-gpu-topology",
		      .used = "huawei.com/node-vgpu-used",
		      .node = "huawei.com/vgpu-node",
		      .devices = "huawei.com/vgpu-ids-new",
		      .left = "huawei.com/vgpu-devices-to-allocate",
		      .phase = "huawei.com/bind-phase"},
};

const struct annotation_keys *annotation_keys(enum kube_scheduler scheduler)
{
	if ((size_t)scheduler >= sizeof(keys) / sizeof(keys[0]) || !keys[scheduler].registered)
		return NULL;
	return &keys[scheduler];
}

/* How a device is offered: in how many parts, and what its memory is counted in. */
struct terms {
	unsigned int slots;
	uint64_t unit; /* bytes */
};

/* Without the bytes that end fields, devices and lists. */
static void annotation_model(const char *model, char ret[static MODEL_BYTES])
{
	snprintf(ret, MODEL_BYTES, "%s", model);
	for (char *c = ret; *c; c++)
		if (strchr(",:;", *c))
			*c = '-';
}

/* Capital letters, digits, then letters or none: "H200", "A100". */
static bool annotation_is_series(const char *word, size_t len)
{
	size_t i = 0, letters, digits;

	while (i < len && isupper((unsigned char)word[i]))
		i++;
	letters = i;
	while (i < len && isdigit((unsigned char)word[i]))
		i++;
	digits = i - letters;
	while (i < len && isupper((unsigned char)word[i]))
		i++;
	return letters && digits && i == len;
}

/* As XPU's plugin makes "H200" of "NVIDIA H200": the first word of that form, else all without
 * blanks. */
static void annotation_series(const char *model, char ret[static MODEL_BYTES])
{
	char clean[MODEL_BYTES], *to = ret;

	annotation_model(model, clean);
	for (const char *word = clean; *word;) {
		size_t len = strcspn(word, " -");

		if (annotation_is_series(word, len)) {
			memcpy(ret, word, len);
			ret[len] = '\0';
			return;
		}
		word += len + (word[len] != '\0');
	}
	for (const char *c = clean; *c; c++)
		if (*c != ' ')
			*to++ = *c;
	*to = '\0';
}

/* These schedulers' own plugins say 0 where it is not known. */
static int annotation_numa(const struct node_device *d)
{
	return d->numa < 0 ? 0 : d->numa;
}

/* In whole units, so that no more is given than there is; 0 where the driver does not say. */
static uint64_t annotation_memory(const struct node_device *d, const struct terms *terms)
{
	return d->device.total_bytes == NVML_BYTES_UNKNOWN ? 0
							   : d->device.total_bytes / terms->unit;
}

/* None of a sick one: not all of these schedulers look at a device's health. */
static unsigned int annotation_slots(const struct node_device *d, const struct terms *terms)
{
	return d->sick ? 0 : terms->slots;
}

static void annotation_write_volcano(FILE *out, const struct node_device *d,
				     const struct terms *terms)
{
	char model[MODEL_BYTES];

	annotation_model(d->device.model, model);
	fprintf(out, "%s,%u,%" PRIu64 ",NVIDIA-%s,%s,hami-core:", units_uuid(d->device.uuid).s,
		annotation_slots(d, terms), annotation_memory(d, terms), model,
		d->sick ? "false" : "true");
}

static void annotation_write_xpu(FILE *out, const struct node_device *d, const struct terms *terms)
{
	char series[MODEL_BYTES];

	annotation_series(d->device.model, series);
	fprintf(out, "%u,%s,%u,%" PRIu64 ",GPU-%s,%s,%d:", d->device.number,
		units_uuid(d->device.uuid).s, annotation_slots(d, terms),
		annotation_memory(d, terms), series, d->sick ? "false" : "true",
		annotation_numa(d));
}

static void annotation_write_unused(FILE *out, const struct node_device *d,
				    const struct terms *terms)
{
	(void)terms;
	fprintf(out, "%u,%s,0,0,0:", d->device.number, units_uuid(d->device.uuid).s);
}

/* One text for each of NVIDIA's devices, one behind the other. */
static char *annotation_list(const struct node_devices *devices, const struct terms *terms,
			     void (*write)(FILE *out, const struct node_device *d,
					   const struct terms *terms))
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (unsigned int i = 0; i < devices->n; i++)
		if (devices->list[i].device.vendor == DEVICE_NVIDIA)
			write(out, &devices->list[i], terms);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

static json_t *annotation_hami_device(const struct node_device *d, const struct terms *terms)
{
	char type[sizeof("NVIDIA-") + MODEL_BYTES], model[MODEL_BYTES];

	annotation_model(d->device.model, model);
	snprintf(type, sizeof(type), "NVIDIA-%s", model);
	return json_pack("{s:s, s:i, s:i, s:I, s:i, s:s, s:i, s:s, s:b}", "id",
			 units_uuid(d->device.uuid).s, "index", (int)d->device.number, "count",
			 (int)annotation_slots(d, terms), "devmem",
			 (json_int_t)annotation_memory(d, terms), "devcore", 100, "type", type,
			 "numa", annotation_numa(d), "mode", "hami-core", "health", !d->sick);
}

static char *annotation_hami(const struct node_devices *devices, const struct terms *terms)
{
	json_t *list = json_array();
	char *text = NULL;
	int r = list ? 0 : -1;

	for (unsigned int i = 0; i < devices->n && !r; i++)
		if (devices->list[i].device.vendor == DEVICE_NVIDIA)
			r = json_array_append_new(list,
						  annotation_hami_device(&devices->list[i], terms));
	if (!r)
		text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return text;
}

char *annotation_registered(const struct kube_conf *conf, const struct node_devices *devices)
{
	struct terms terms = {.slots = 1, .unit = decision_unit(conf)};

	for (size_t i = 0; i < conf->nresources; i++)
		if (conf->resource[i].unit == KUBE_SLOTS)
			terms.slots = (unsigned int)conf->resource[i].amount;
	switch (conf->scheduler) {
	case KUBE_VOLCANO:
		return annotation_list(devices, &terms, annotation_write_volcano);
	case KUBE_HAMI:
		return annotation_hami(devices, &terms);
	case KUBE_XPU:
		return annotation_list(devices, &terms, annotation_write_xpu);
	case KUBE_STOCK:
		break;
	}
	return NULL;
}

char *annotation_unused(const struct node_devices *devices)
{
	return annotation_list(devices, NULL, annotation_write_unused);
}

/* The figures of XPU's own plugin, of what "nvidia-smi topo --matrix" has: SYS, NODE, NV<n>. */
static unsigned int annotation_rate(const struct node_device *a, const struct node_device *b,
				    unsigned int links)
{
	enum { ACROSS = 10, NODE = 20, LINKED = 50, LINK = 10 };

	if (links)
		return LINKED + LINK * links;
	return a->numa >= 0 && a->numa == b->numa ? NODE : ACROSS;
}

static void annotation_write_row(FILE *out, const struct node_devices *devices, unsigned int row)
{
	const struct node_device *a = &devices->list[row];
	const char *before = "";

	for (unsigned int i = 0; i < devices->n; i++) {
		const struct node_device *b = &devices->list[i];

		if (b->device.vendor != DEVICE_NVIDIA)
			continue;
		fprintf(out, "%s%u", before, i == row ? 0 : annotation_rate(a, b, devices->nvlinks[row][i]));
		before = ",";
	}
}

char *annotation_topology(const struct node_devices *devices)
{
	const char *before = "";
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (unsigned int i = 0; i < devices->n; i++) {
		if (devices->list[i].device.vendor != DEVICE_NVIDIA)
			continue;
		fputs(before, out);
		annotation_write_row(out, devices, i);
		before = ";";
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

void annotation_reported(enum kube_scheduler scheduler, time_t now,
			 char ret[static ANNOTATION_TIME_BYTES])
{
	struct tm utc;

	gmtime_r(&now, &utc);
	if (scheduler == KUBE_HAMI)
		strftime(ret, ANNOTATION_TIME_BYTES, "Reported_%Y-%m-%d %H:%M:%S", &utc);
	else
		strftime(ret, ANNOTATION_TIME_BYTES, "Reported_%Y.%m.%d %H:%M:%S", &utc);
}

char *annotation_patch(const struct annotation *list, size_t n)
{
	json_t *values = json_object(), *body;
	char *text = NULL;
	int r = values ? 0 : -1;

	for (size_t i = 0; i < n && !r; i++)
		r = json_object_set_new(values, list[i].key,
					list[i].value ? json_string(list[i].value) : json_null());
	if (r) {
		json_decref(values);
		return NULL;
	}
	body = json_pack("{s:{s:o}}", "metadata", "annotations", values);
	if (body)
		text = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	return text;
}
