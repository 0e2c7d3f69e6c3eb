/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/claims/claim_config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ledger/policy.h"
#include "node/compute_words.h"

/* A value is true or false, one of the words, or the text. */
struct field {
	const char *name;
	const char *text;
	const char *const *words;
	unsigned int nwords;
	size_t at; /* in struct claim_config */
};

static const struct field fields[] = {
	{"apiVersion", CLAIM_CONFIG, NULL, 0, 0},
	{"kind", CLAIM_CONFIG_KIND, NULL, 0, 0},
	{"limit", NULL, NULL, 0, offsetof(struct claim_config, limit)},
	{"priority", NULL, compute_priorities, POLICY_PRIORITIES,
	 offsetof(struct claim_config, priority)},
	{"mode", NULL, compute_modes, POLICY_MODES, offsetof(struct claim_config, mode)},
	{"swappable", NULL, NULL, 0, offsetof(struct claim_config, swappable)},
	{"overcommit", NULL, NULL, 0, offsetof(struct claim_config, overcommit)},
};
#define FIELDS	  (sizeof(fields) / sizeof(*fields))
#define FIELDS_ID 2 /* the first ones, without which no other is read */

/* Where an entry's words of error go. */
struct entry {
	size_t i;
	struct claim_config *ret;
	char *why;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static int entry_fail(const struct entry *e, const char *fmt, ...)
{
	int n = snprintf(e->why, e->size, "config[%zu].opaque.parameters", e->i);
	va_list args;

	va_start(args, fmt);
	if (n > 0 && (size_t)n < e->size)
		vsnprintf(e->why + n, e->size - (size_t)n, fmt, args);
	va_end(args);
	return -EINVAL;
}

static int entry_take_word(const struct entry *e, const struct field *field, const char *word)
{
	char all[64] = "";

	for (unsigned int i = 0; i < field->nwords; i++) {
		size_t n = strlen(all);

		if (word && !strcmp(word, field->words[i])) {
			*(unsigned int *)((char *)e->ret + field->at) = i;
			return 0;
		}
		snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "", field->words[i]);
	}
	return entry_fail(e, ".%s: it is one of %s", field->name, all);
}

static int entry_take(const struct entry *e, const struct field *field, const json_t *value)
{
	const char *text = json_string_value(value);

	if (field->text)
		return text && !strcmp(text, field->text)
			       ? 0
			       : entry_fail(e, ".%s: it is \"%s\" here", field->name, field->text);
	if (field->words)
		return entry_take_word(e, field, text);
	if (!json_is_boolean(value))
		return entry_fail(e, ".%s: it is true or false", field->name);
	*(bool *)((char *)e->ret + field->at) = json_is_true(value);
	return 0;
}

static const struct field *field_find(const char *name)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

static int entry_take_all(const struct entry *e, json_t *parameters)
{
	const char *name;
	json_t *value;
	int r = 0;

	if (!json_is_object(parameters))
		return entry_fail(e, ": no object");
	for (size_t i = 0; i < FIELDS_ID && !r; i++)
		r = entry_take(e, &fields[i], json_object_get(parameters, fields[i].name));
	json_object_foreach (parameters, name, value) {
		const struct field *field = field_find(name);

		if (!r && !field)
			return entry_fail(e, ": there is no field \"%.60s\" in " CLAIM_CONFIG_KIND " of " CLAIM_CONFIG,
					  name);
		if (!r)
			r = entry_take(e, field, value);
	}
	return r;
}

/* The request's own name, or that of the request whose subrequest it is. No list: it is for all. */
static bool entry_is_for(const json_t *entry, const char *request)
{
	const json_t *requests = json_object_get(entry, "requests"), *one;
	size_t i;

	if (!json_array_size(requests))
		return true;
	json_array_foreach (requests, i, one) {
		const char *name = json_string_value(one);
		size_t n = name ? strlen(name) : 0;

		if (n && !strncmp(request, name, n) && (!request[n] || request[n] == '/'))
			return true;
	}
	return false;
}

/* Users write claims; who runs the cluster writes classes. */
static int entry_check_priority(const struct entry *e, const json_t *entry, const struct kube_conf *conf)
{
	const char *source = json_string_value(json_object_get(entry, "source"));
	const json_t *parameters = json_object_get(json_object_get(entry, "opaque"), "parameters");
	const char *asked = json_string_value(json_object_get(parameters, "priority"));

	if (conf->claims_high || (source && !strcmp(source, "FromClass")) || !asked ||
	    strcmp(asked, compute_priorities[POLICY_PRIORITY_HIGH]) != 0)
		return 0;
	entry_fail(e, ".priority: %s is not a claim's to ask for on node %s; have a DeviceClass with it, or "
		   "priority-max = high in [kubernetes] of its allotd.conf", asked, conf->node);
	return -EPERM;
}

int claim_config_read(const json_t *config, const struct kube_conf *conf, const char *request,
		      struct claim_config *ret, char *why, size_t size)
{
	struct entry e = {0, ret, why, size};
	const json_t *entry;
	int r = 0;

	json_array_foreach (config, e.i, entry) {
		const json_t *opaque = json_object_get(entry, "opaque");
		const char *whose = json_string_value(json_object_get(opaque, "driver"));

		if (r || !whose || strcmp(whose, conf->driver) != 0 || !entry_is_for(entry, request))
			continue;
		r = entry_take_all(&e, json_object_get(opaque, "parameters"));
		if (!r)
			r = entry_check_priority(&e, entry, conf);
	}
	return r;
}
