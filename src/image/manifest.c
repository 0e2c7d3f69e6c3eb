/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "image/image_id.h"
#include "ledger/policy.h"
#include "nvidia/uuid.h"

#define FILE_NAME "manifest.json"
#define NUMBER_MOST ((uint64_t)INT64_MAX) /* the limit of JSON's readers, and of jansson */

_Static_assert(UUID_TEXT_SIZE >= AMD_IDENTITY_BYTES, "either vendor's name fits");

void manifest_done(struct manifest *m)
{
	free(m->devices);
	free(m->processes);
	m->devices = NULL;
	m->processes = NULL;
	m->ndevices = m->nprocesses = 0;
}

struct object_limits manifest_limits(const struct manifest *m)
{
	return (struct object_limits){.ndevices = m->ndevices, .nprocesses = m->nprocesses};
}

static int manifest_fail(struct damage *damage, int r, const char *why)
{
	return damage_say(damage, r, FILE_NAME, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT, "%s", why);
}

/* ---- Fields: the first that is wrong is said, and those after it are not looked at ---- */

struct fields {
	int error;
	struct damage *damage;
};

static void manifest_wrong(struct fields *f, const char *key, const char *why)
{
	if (!f->error)
		f->error = damage_say(f->damage, -EBADMSG, FILE_NAME, DAMAGE_NOWHERE,
				      DAMAGE_NO_OBJECT, "\"%s\" %s", key, why);
}

static uint64_t manifest_u64(struct fields *f, const json_t *in, const char *key, uint64_t most)
{
	const json_t *value = json_object_get(in, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > most) {
		manifest_wrong(f, key, "is missing, or no number that it may be");
		return 0;
	}
	return (uint64_t)json_integer_value(value);
}

static uint32_t manifest_u32(struct fields *f, const json_t *in, const char *key)
{
	return (uint32_t)manifest_u64(f, in, key, UINT32_MAX);
}

static void manifest_text(struct fields *f, const json_t *in, const char *key, char *ret,
			  size_t size)
{
	const char *text = json_string_value(json_object_get(in, key));

	if (!text || strlen(text) >= size)
		manifest_wrong(f, key, "is missing, or no text, or too long");
	else
		memcpy(ret, text, strlen(text) + 1);
}

static void manifest_uuid(struct fields *f, const json_t *in, const char *key, uint8_t ret[16])
{
	char text[UUID_TEXT_SIZE] = "";

	manifest_text(f, in, key, text, sizeof(text));
	if (!f->error && amd_identity_parse(text, ret) < 0 && uuid_parse(text, ret) < 0)
		manifest_wrong(f, key, "names no device");
}

static void manifest_put_uuid(json_t *to, const char *key, const uint8_t uuid[16])
{
	char text[UUID_TEXT_SIZE];

	if (amd_identity_is(uuid))
		amd_identity_text(uuid, text);
	else
		uuid_format(uuid, text);
	json_object_set_new(to, key, json_string(text));
}

static json_t *manifest_list(struct fields *f, const json_t *in, const char *key, size_t most)
{
	json_t *list = json_object_get(in, key);

	if (!json_is_array(list) || json_array_size(list) > most) {
		manifest_wrong(f, key, "is missing, or no list, or too long");
		return NULL;
	}
	return list;
}

static void manifest_id(struct fields *f, const json_t *in, uint8_t ret[16])
{
	char text[33] = "", byte[3] = "";

	manifest_text(f, in, "id", text, sizeof(text));
	if (!f->error && (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32))
		manifest_wrong(f, "id", "is not 32 hexadecimal digits");
	for (int i = 0; i < 16 && !f->error; i++) {
		memcpy(byte, text + 2 * i, 2);
		ret[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
}

/* ---- The policy: each number by its name ---- */

#define POLICY_NUMBERS(X)                                                                      \
	X(flags) X(compute) X(mode) X(controller) X(priority) X(weight) X(inflight_us)         \
	X(slice_us) X(floor_permille)

static json_t *manifest_put_policy(const struct policy *policy)
{
	json_t *to = json_object(), *list = json_array(), *dir;

	json_object_set_new(to, "name", json_stringn(policy->name,
						     strnlen(policy->name, POLICY_NAME_BYTES)));
#define X(field) json_object_set_new(to, #field, json_integer(policy->field));
	POLICY_NUMBERS(X)
#undef X
	for (uint32_t i = 0; i < policy->ndevices && i < POLICY_DEVICES; i++) {
		const struct policy_device *d = &policy->device[i];
		json_t *device = json_object();

		manifest_put_uuid(device, "uuid", d->uuid);
		json_object_set_new(device, "limit_bytes", json_integer((json_int_t)d->limit_bytes));
		json_object_set_new(device, "total_bytes", json_integer((json_int_t)d->total_bytes));
		json_object_set_new(device, "limit_permille", json_integer(d->limit_permille));
		json_object_set_new(device, "share_permille", json_integer(d->share_permille));
		json_array_append_new(list, device);
	}
	json_object_set_new(to, "devices", list);
	if (policy->latency_us)
		json_object_set_new(to, "latency_us", json_integer(policy->latency_us));
	if (policy->gtt_mib)
		json_object_set_new(to, "gtt_mib", json_integer(policy->gtt_mib));
	if (policy->idle_s)
		json_object_set_new(to, "idle_s", json_integer(policy->idle_s));
	json_object_set_new(to, "host_bytes", json_integer((json_int_t)policy->host_bytes));
	dir = json_stringn(policy->swap_dir, strnlen(policy->swap_dir, POLICY_DIR_BYTES));
	json_object_set_new(to, "swap_dir", dir ? dir : json_null()); /* no UTF-8: refused below */
	return to;
}

/* Images of before this was kept have none of it. */
static void manifest_places(struct fields *f, const json_t *in, struct policy *ret)
{
	if (json_object_get(in, "latency_us"))
		ret->latency_us = manifest_u32(f, in, "latency_us");
	if (json_object_get(in, "gtt_mib"))
		ret->gtt_mib = manifest_u32(f, in, "gtt_mib");
	if (json_object_get(in, "idle_s"))
		ret->idle_s = (uint16_t)manifest_u64(f, in, "idle_s", UINT16_MAX);
	if (json_object_get(in, "host_bytes"))
		ret->host_bytes = manifest_u64(f, in, "host_bytes", NUMBER_MOST);
	if (json_object_get(in, "swap_dir"))
		manifest_text(f, in, "swap_dir", ret->swap_dir, sizeof(ret->swap_dir));
}

static void manifest_policy(struct fields *f, const json_t *in, struct policy *ret)
{
	const json_t *list = manifest_list(f, in, "devices", POLICY_DEVICES);

	manifest_text(f, in, "name", ret->name, sizeof(ret->name));
#define X(field) ret->field = manifest_u32(f, in, #field);
	POLICY_NUMBERS(X)
#undef X
	manifest_places(f, in, ret);
	ret->ndevices = (uint32_t)json_array_size(list);
	for (uint32_t i = 0; i < ret->ndevices && !f->error; i++) {
		const json_t *device = json_array_get(list, i);
		struct policy_device *d = &ret->device[i];

		manifest_uuid(f, device, "uuid", d->uuid);
		d->limit_bytes = manifest_u64(f, device, "limit_bytes", NUMBER_MOST);
		d->total_bytes = manifest_u64(f, device, "total_bytes", NUMBER_MOST);
		d->limit_permille = manifest_u32(f, device, "limit_permille");
		d->share_permille = manifest_u32(f, device, "share_permille");
	}
	if (!f->error && policy_check(ret) < 0)
		manifest_wrong(f, "policy", "is none that a tenant can have");
}

/* ---- Devices and processes ---- */

static json_t *manifest_put_device(const struct manifest_device *d)
{
	json_t *to = json_object(), *properties = json_object();

	manifest_put_uuid(to, "uuid", d->uuid);
	json_object_set_new(to, "model", json_string(d->model));
	json_object_set_new(to, "memory_bytes", json_integer((json_int_t)d->memory_bytes));
	for (uint32_t i = 0; i < d->nproperties && i < MANIFEST_PROPERTIES; i++)
		json_object_set_new(properties, d->properties[i].name,
				    json_integer((json_int_t)d->properties[i].value));
	json_object_set_new(to, "properties", properties);
	return to;
}

static void manifest_device(struct fields *f, const json_t *in, struct manifest_device *ret)
{
	json_t *properties = json_object_get(in, "properties"), *value;
	const char *name;

	manifest_uuid(f, in, "uuid", ret->uuid);
	manifest_text(f, in, "model", ret->model, sizeof(ret->model));
	ret->memory_bytes = manifest_u64(f, in, "memory_bytes", NUMBER_MOST);
	if (!json_is_object(properties) || json_object_size(properties) > MANIFEST_PROPERTIES) {
		manifest_wrong(f, "properties", "is missing, or has too many");
		return;
	}
	json_object_foreach(properties, name, value) {
		struct manifest_property *p = &ret->properties[ret->nproperties];

		if (strlen(name) >= sizeof(p->name)) {
			manifest_wrong(f, "properties", "has a name that is too long");
			return;
		}
		memcpy(p->name, name, strlen(name) + 1);
		p->value = manifest_u64(f, properties, name, NUMBER_MOST);
		ret->nproperties++;
	}
}

/* A command line is bytes; JSON is UTF-8. */
static json_t *manifest_command(const char *command)
{
	char text[MANIFEST_TEXT];
	json_t *string = json_string(command);

	if (string)
		return string;
	snprintf(text, sizeof(text), "%s", command);
	for (char *p = text; *p; p++)
		if (*p & 0x80)
			*p = '?';
	return json_string(text);
}

static json_t *manifest_put_process(const struct manifest_process *p)
{
	json_t *to = json_object();

	json_object_set_new(to, "pid", json_integer(p->pid));
	json_object_set_new(to, "command", manifest_command(p->command));
	return to;
}

static void manifest_process(struct fields *f, const json_t *in, struct manifest_process *ret)
{
	ret->pid = (int32_t)manifest_u64(f, in, "pid", INT32_MAX);
	manifest_text(f, in, "command", ret->command, sizeof(ret->command));
}

/* ---- The whole ---- */

int manifest_write(const struct manifest *m, char **ret_text, size_t *ret_len)
{
	json_t *root = json_object(), *devices = json_array(), *processes = json_array();
	struct manifest again = {0};
	char id[IMAGE_ID_DIGITS + 1], *text;
	int r;

	image_id_text(m->id, id);
	json_object_set_new(root, "allot_image", json_integer(MANIFEST_VERSION));
	json_object_set_new(root, "id", json_string(id));
	json_object_set_new(root, "created_s", json_integer((json_int_t)m->created_s));
	json_object_set_new(root, "policy", manifest_put_policy(&m->policy));
	for (uint32_t i = 0; i < m->ndevices; i++)
		json_array_append_new(devices, manifest_put_device(&m->devices[i]));
	for (uint32_t i = 0; i < m->nprocesses; i++)
		json_array_append_new(processes, manifest_put_process(&m->processes[i]));
	json_object_set_new(root, "devices", devices);
	json_object_set_new(root, "processes", processes);
	text = json_dumps(root, JSON_INDENT(2));
	json_decref(root);
	if (!text)
		return -ENOMEM;
	/*
	 * A value that could not be stored (jansson takes no NULL for an answer) is missing from
	 * the text.
	 */
	r = manifest_read(text, strlen(text), &again, NULL);
	manifest_done(&again);
	if (r < 0) {
		free(text);
		return r == -ENOMEM ? r : -EINVAL;
	}
	*ret_text = text;
	*ret_len = strlen(text);
	return 0;
}

static int manifest_lists(struct fields *f, const json_t *root, struct manifest *m)
{
	const json_t *devices = manifest_list(f, root, "devices", MANIFEST_DEVICES);
	const json_t *processes = manifest_list(f, root, "processes", MANIFEST_PROCESSES);

	if (f->error)
		return f->error;
	m->devices = calloc(json_array_size(devices) + 1, sizeof(*m->devices));
	m->processes = calloc(json_array_size(processes) + 1, sizeof(*m->processes));
	if (!m->devices || !m->processes)
		return manifest_fail(f->damage, -ENOMEM, "no memory");
	for (size_t i = 0; i < json_array_size(devices) && !f->error; i++)
		manifest_device(f, json_array_get(devices, i), &m->devices[m->ndevices++]);
	for (size_t i = 0; i < json_array_size(processes) && !f->error; i++)
		manifest_process(f, json_array_get(processes, i), &m->processes[m->nprocesses++]);
	return f->error;
}

static int manifest_root(const json_t *root, struct manifest *m, struct damage *damage)
{
	struct fields f = {.damage = damage};
	uint64_t version = manifest_u64(&f, root, "allot_image", UINT32_MAX);

	if (!f.error && version != MANIFEST_VERSION)
		return damage_say(damage, -EPROTONOSUPPORT, FILE_NAME, DAMAGE_NOWHERE,
				  DAMAGE_NO_OBJECT,
				  "it is of version %" PRIu64 "; this allot reads version %u",
				  version, MANIFEST_VERSION);
	manifest_id(&f, root, m->id);
	m->created_s = manifest_u64(&f, root, "created_s", NUMBER_MOST);
	manifest_policy(&f, json_object_get(root, "policy"), &m->policy);
	return f.error ? f.error : manifest_lists(&f, root, m);
}

int manifest_read(const char *text, size_t len, struct manifest *ret, struct damage *damage)
{
	struct manifest m = {0};
	json_error_t error;
	json_t *root;
	int r;

	if (len > MANIFEST_MAX_BYTES)
		return manifest_fail(damage, -EBADMSG, "it is too long for a manifest");
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		return damage_say(damage, -EBADMSG, FILE_NAME, (uint64_t)error.position,
				  DAMAGE_NO_OBJECT, "line %d: %s", error.line, error.text);
	r = manifest_root(root, &m, damage);
	json_decref(root);
	if (r < 0)
		manifest_done(&m);
	else
		*ret = m;
	return r;
}
