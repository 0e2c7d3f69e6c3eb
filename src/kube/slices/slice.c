/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slices/slice.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "kube/slices/islands.h"
#include "text/text.h"
#include "text/units.h"

#define MIB		((uint64_t)1 << 20)
#define ATTRIBUTE_BYTES 65 /* of a text, with its end: Kubernetes takes 64 */
#define CORES		100
/* Devices are objects of known names: whoever has nested deeper than that writes no slice. */
#define DEPTH_MOST 32

/* --- Words of sysfs ------------------------------------------------------------------------ */

void slice_version(const char *text, char ret[static SLICE_VERSION_BYTES])
{
	unsigned long number[3] = {0};
	const char *c = text;

	ret[0] = '\0';
	if (!isdigit((unsigned char)*c))
		return;
	for (int i = 0; i < 3 && isdigit((unsigned char)*c); i++) {
		char *end;

		number[i] = strtoul(c, &end, 10);
		c = *end == '.' ? end + 1 : end;
	}
	snprintf(ret, SLICE_VERSION_BYTES, "%lu.%lu.%lu", number[0], number[1], number[2]);
}

static size_t slice_count_hex(const char *text)
{
	return strspn(text, "0123456789abcdef");
}

void slice_pcie_root(const char *link, char ret[static SLICE_ROOT_BYTES])
{
	ret[0] = '\0';
	for (const char *c = strstr(link, "/pci"); c; c = strstr(c + 1, "/pci")) {
		size_t domain = slice_count_hex(c + 4);
		size_t len = 4 + domain + 1 + 2; /* "/pci0000:16" */

		if (domain < 4 || c[4 + domain] != ':' || slice_count_hex(c + 5 + domain) != 2 ||
		    (c[len] && c[len] != '/') || len > SLICE_ROOT_BYTES)
			continue;
		snprintf(ret, SLICE_ROOT_BYTES, "%.*s", (int)len - 1, c + 1);
		return;
	}
}

/* --- Devices ------------------------------------------------------------------------------- */

/* Kubernetes' own form: the largest unit that divides it, so that what comes back is the same text. */
static json_t *slice_quantity(uint64_t mib)
{
	static const char *const unit[] = {"Mi", "Gi", "Ti", "Pi"};
	char text[32];
	int i = 0;

	while (mib && mib % 1024 == 0 && i < 3) {
		mib /= 1024;
		i++;
	}
	snprintf(text, sizeof(text), "%" PRIu64 "%s", mib, mib ? unit[i] : "");
	return json_string(text);
}

static json_t *slice_count(uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	return json_string(text);
}

/* Amounts from one unit up to all, in whole units. */
static json_t *slice_capacity(json_t *(*quantity)(uint64_t), uint64_t all, bool divided)
{
	uint64_t part = all / SLICE_DEFAULT_PART;

	if (!divided)
		return json_pack("{s:o}", "value", quantity(all));
	return json_pack("{s:o, s:{s:o, s:{s:o, s:o, s:o}}}", "value", quantity(all), "requestPolicy",
			 "default", quantity(part ? part : 1), "validRange", "min", quantity(1), "max",
			 quantity(all), "step", quantity(1));
}

static uint64_t slice_mib(const struct device *device)
{
	return device->total_bytes == NVML_BYTES_UNKNOWN ? 0 : device->total_bytes / MIB;
}

/*
 * Where the driver does not tell the size there is no memory to have a part of: such a device goes to one
 * claim as a whole.
 */
static bool slice_is_divided(const struct device *device, unsigned int without)
{
	/* Kubernetes wants room for a step beyond the least. */
	return !(without & SLICE_NO_SHARING) && slice_mib(device) >= 2;
}

static json_t *slice_capacities(const struct device *device, unsigned int without)
{
	bool divided = slice_is_divided(device, without);
	uint64_t mib = slice_mib(device);
	json_t *all = json_pack("{s:o}", "cores", slice_capacity(slice_count, CORES, divided));

	if (mib)
		json_object_set_new(all, "memory", slice_capacity(slice_quantity, mib, divided));
	return all;
}

/* At most `most` bytes of whole characters. */
static void slice_cut(char *text, size_t most)
{
	size_t len = 0, n;

	while (text[len] && (n = text_utf8_length(text + len)) && len + n <= most)
		len += n;
	text[len] = '\0';
}

static void slice_add_text(json_t *attributes, const char *name, const char *value)
{
	char text[ATTRIBUTE_BYTES * 2];

	snprintf(text, sizeof(text), "%s", value);
	text_make_printable(text);
	slice_cut(text, ATTRIBUTE_BYTES - 1);
	if (*text)
		json_object_set_new(attributes, name, json_pack("{s:s}", "string", text));
}

static void slice_add_number(json_t *attributes, const char *name, json_int_t value)
{
	json_object_set_new(attributes, name, json_pack("{s:I}", "int", value));
}

/*
 * Names with a domain are Kubernetes' own, by which requests are matched with another driver's devices. `island`: the
 * first device of its NVLink island, or NULL.
 */
static json_t *slice_attributes(const struct node_device *d, const struct slice_facts *facts,
				const struct node_device *island)
{
	json_t *all = json_object();

	slice_add_text(all, "vendor", d->device.vendor == DEVICE_AMD ? "amd" : "nvidia");
	slice_add_text(all, "model", d->device.model);
	slice_add_text(all, "architecture", d->device.architecture);
	slice_add_text(all, "uuid", units_uuid(d->device.uuid).s);
	slice_add_number(all, "index", d->device.number);
	if (island)
		slice_add_text(all, "nvlinkIsland", units_uuid(island->device.uuid).s);
	slice_add_text(all, "resource.kubernetes.io/pciBusID", d->device.pci);
	slice_add_text(all, "resource.kubernetes.io/pcieRoot", facts->pcie_root);
	if (*facts->version)
		json_object_set_new(all, "driverVersion",
				    json_pack("{s:s}", "version", facts->version));
	if (d->numa >= 0) {
		slice_add_number(all, "numa", d->numa);
		slice_add_number(all, "resource.kubernetes.io/numaNode", d->numa);
	}
	return all;
}

/*
 * NoSchedule: nothing new goes there, and what runs stays. NoExecute would have Kubernetes delete the Pods,
 * which cannot be taken back, for what may be a driver that restarts; a program on a device that is really
 * gone fails by itself. An administrator who wants more makes a DeviceTaintRule.
 */
static json_t *slice_taints(const struct kube_conf *conf)
{
	char key[KUBE_NAME_BYTES + 16];

	snprintf(key, sizeof(key), "%s/unhealthy", conf->driver);
	return json_pack("[{s:s, s:s}]", "key", key, "effect", "NoSchedule");
}

static json_t *slice_device(const struct kube_conf *conf, const struct node_device *d,
			    const struct slice_facts *facts, const struct node_device *island, unsigned int without)
{
	char name[NODE_NAME_BYTES];
	json_t *device;

	node_device_name(d->device.uuid, name);
	device = json_pack("{s:s, s:o, s:o}", "name", name, "attributes", slice_attributes(d, facts, island),
			   "capacity", slice_capacities(&d->device, without));
	if (slice_is_divided(&d->device, without))
		json_object_set_new(device, "allowMultipleAllocations", json_true());
	if (d->sick)
		json_object_set_new(device, "taints", slice_taints(conf));
	return device;
}

/* In the order of their UUIDs, whichever came first: the order is part of what is compared. */
static int slice_by_uuid(const void *a, const void *b, void *arg)
{
	const struct node_devices *devices = arg;
	const unsigned int *i = a, *j = b;

	return memcmp(devices->list[*i].device.uuid, devices->list[*j].device.uuid, 16);
}

static json_t *slice_devices(const struct kube_conf *conf, const struct node_devices *devices,
			     const struct slice_facts *facts, unsigned int without)
{
	unsigned int order[POLICY_DEVICES];
	int island[POLICY_DEVICES];
	json_t *all = json_array();

	islands_find(devices, island);
	for (unsigned int i = 0; i < devices->n; i++)
		order[i] = i;
	qsort_r(order, devices->n, sizeof(*order), slice_by_uuid, (void *)devices);
	for (unsigned int i = 0; i < devices->n; i++) {
		unsigned int at = order[i];
		const struct node_device *d = &devices->list[at];

		if (!d->sick || !(without & SLICE_NO_TAINTS))
			json_array_append_new(all, slice_device(conf, d, &facts[at],
								island[at] == ISLAND_NONE ? NULL : &devices->list[island[at]],
								without));
	}
	return all;
}

json_t *slice_spec(const struct kube_conf *conf, const struct node_devices *devices,
		   const struct slice_facts *facts, unsigned int without)
{
	return json_pack("{s:s, s:s, s:{s:s, s:i, s:i}, s:o}", "driver", conf->driver, "nodeName",
			 conf->node, "pool", "name", conf->node, "generation", 0,
			 "resourceSliceCount", 1, "devices",
			 slice_devices(conf, devices, facts, without));
}

/* --- Objects ------------------------------------------------------------------------------- */

void slice_name(const struct kube_conf *conf, char ret[static KUBE_NAME_BYTES])
{
	uint64_t hash = hash_string(hash_string(HASH_SEED, conf->node), conf->driver);
	int n = snprintf(ret, KUBE_NAME_BYTES, "%s-%s", conf->node, conf->driver);

	if (n >= KUBE_NAME_BYTES) /* two long names that begin alike are still two */
		snprintf(ret + KUBE_NAME_BYTES - 18, 18, "-%016" PRIx64, hash);
}

/* It may begin anew, as Kubernetes has it, where one slice is the whole pool. */
static json_int_t slice_next_generation(const json_t *was)
{
	json_int_t last = json_integer_value(json_object_get(
		json_object_get(json_object_get(was, "spec"), "pool"), "generation"));

	return last >= 0 && last < INT64_MAX ? last + 1 : 1;
}

static json_t *slice_metadata(const struct kube_conf *conf, const char *node_uid, const json_t *was)
{
	json_t *metadata = json_deep_copy(json_object_get(was, "metadata"));
	char name[KUBE_NAME_BYTES];

	if (!json_is_object(metadata)) {
		json_decref(metadata);
		slice_name(conf, name);
		metadata = json_pack("{s:s}", "name", name);
	}
	json_object_set_new(metadata, "ownerReferences",
			    json_pack("[{s:s, s:s, s:s, s:s, s:b}]", "apiVersion", "v1", "kind",
				      "Node", "name", conf->node, "uid", node_uid, "controller", 1));
	return metadata;
}

json_t *slice_object(const struct kube_conf *conf, const json_t *spec, const char *node_uid,
		     const json_t *was)
{
	json_t *copy = json_deep_copy(spec);

	json_object_set_new(json_object_get(copy, "pool"), "generation",
			    json_integer(slice_next_generation(was)));
	return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "resource.k8s.io/v1", "kind",
			 "ResourceSlice", "metadata", slice_metadata(conf, node_uid, was), "spec", copy);
}

/* A copy without what no one writes for its own sake. */
static json_t *slice_bare(const json_t *spec)
{
	json_t *copy = json_deep_copy(spec), *device, *taint;
	size_t i, j;

	json_object_del(json_object_get(copy, "pool"), "generation");
	json_array_foreach (json_object_get(copy, "devices"), i, device) {
		json_array_foreach (json_object_get(device, "taints"), j, taint) {
			json_object_del(taint, "timeAdded");
		}
	}
	/* An API server leaves out a list without entries. */
	if (!json_array_size(json_object_get(copy, "devices")))
		json_object_del(copy, "devices");
	return copy;
}

bool slice_same(const json_t *a, const json_t *b)
{
	json_t *bare_a = slice_bare(a), *bare_b = slice_bare(b);
	bool same = bare_a && bare_b && json_equal(bare_a, bare_b);

	json_decref(bare_a);
	json_decref(bare_b);
	return same;
}

static bool slice_has(const json_t *object, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && !strcmp(text, value);
}

bool slice_is_owned(const json_t *object, const char *node_uid)
{
	const json_t *owners =
		json_object_get(json_object_get(object, "metadata"), "ownerReferences");
	json_t *owner;
	size_t i;

	json_array_foreach (owners, i, owner) {
		if (slice_has(owner, "uid", node_uid) && slice_has(owner, "kind", "Node"))
			return true;
	}
	return false;
}

bool slice_is_ours(const struct kube_conf *conf, const json_t *object)
{
	const json_t *spec = json_object_get(object, "spec");

	return slice_has(spec, "driver", conf->driver) && slice_has(spec, "nodeName", conf->node);
}

static bool slice_lacks(const json_t *wrote, const json_t *kept, const char *key)
{
	json_t *devices = json_object_get(kept, "devices"), *device;
	size_t i;

	json_array_foreach (json_object_get(wrote, "devices"), i, device) {
		if (json_object_get(device, key) &&
		    !json_object_get(json_array_get(devices, i), key))
			return true;
	}
	return false;
}

unsigned int slice_dropped(const json_t *wrote, const json_t *kept)
{
	return (slice_lacks(wrote, kept, "allowMultipleAllocations") ? SLICE_NO_SHARING : 0) |
	       (slice_lacks(wrote, kept, "taints") ? SLICE_NO_TAINTS : 0);
}

/* jansson has a limit of depth of its own, of 2048, and each level is a call of it. */
static bool slice_is_flat(const char *bytes, size_t len)
{
	bool quoted = false;
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		if (quoted && bytes[i] == '\\')
			i++;
		else if (bytes[i] == '"')
			quoted = !quoted;
		else if (!quoted && (bytes[i] == '{' || bytes[i] == '['))
			depth++;
		else if (!quoted && (bytes[i] == '}' || bytes[i] == ']'))
			depth--;
		if (depth > DEPTH_MOST)
			return false;
	}
	return true;
}

json_t *slice_parse(const char *bytes, size_t len)
{
	json_t *root = slice_is_flat(bytes, len) ? json_loadb(bytes, len, 0, NULL) : NULL;

	if (root && !json_is_object(root)) {
		json_decref(root);
		root = NULL;
	}
	return root;
}
