/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/decision.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "amd/identity.h"
#include "base/parse.h"
#include "nvidia/uuid.h"
#include "text/text.h"
#include "text/units.h"

#define MIB	    (UINT64_C(1) << 20)
#define FIELDS_MOST 6
#define FIELD_BYTES 64
#define SHOWN	    48 /* of a field in words */

struct grammar {
	const char *device; /* its fields, in words */
	bool units;	    /* memory is not in MiB, see decision_unit() */
	unsigned int fields;
	unsigned int uuid, memory, cores; /* which of them */
	bool comma;			  /* containers may be joined by ',' */
};

static const struct grammar grammars[] = {
	[KUBE_VOLCANO] = {"uuid,type,memory,cores", true, 4, 0, 2, 3, false},
	[KUBE_HAMI] = {"uuid,type,memory,cores", false, 4, 0, 2, 3, false},
	[KUBE_XPU] = {"index,uuid,type,memory,cores,vid", false, 6, 1, 3, 4, true},
};

/* The text that is being read. Places are counted from 1 in words. */
struct reader {
	const struct grammar *grammar;
	uint64_t unit; /* bytes */
	unsigned int container, device;
	char *why;
};

/* Text between two bytes of the annotation. */
struct piece {
	const char *begin, *end;
};

static const struct grammar *decision_grammar(enum kube_scheduler scheduler)
{
	if ((size_t)scheduler >= sizeof(grammars) / sizeof(grammars[0]) ||
	    !grammars[scheduler].fields)
		return NULL;
	return &grammars[scheduler];
}

__attribute__((format(printf, 2, 3))) static int decision_refuse(const struct reader *reader,
								 const char *fmt, ...)
{
	char what[DECISION_WHY - 64];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof(what), fmt, args);
	va_end(args);
	text_make_printable(what);
	snprintf(reader->why, DECISION_WHY, "container %u, device %u: %s", reader->container,
		 reader->device, what);
	return -EINVAL;
}

/* The piece up to the byte that ends it, or to the end. */
static struct piece decision_cut(const char *begin, const char *end, char separator)
{
	const char *at = memchr(begin, separator, (size_t)(end - begin));

	return (struct piece){begin, at ? at : end};
}

/* A container's devices. Where ',' may join containers, it does in the place of a device's
 * beginning. */
static struct piece decision_entry(const struct grammar *grammar, const char *begin,
				   const char *end)
{
	struct piece entry = decision_cut(begin, end, ';');

	if (!grammar->comma)
		return entry;
	for (const char *at = begin; at < entry.end; at++)
		if (*at == ',' && (at == begin || at[-1] == ':'))
			return (struct piece){begin, at};
	return entry;
}

static int decision_uuid(const struct reader *reader, const char *field, uint8_t ret[static 16])
{
	if (!uuid_parse(field, ret) || !amd_identity_parse(field, ret))
		return 0;
	if (strchr(field, '['))
		return decision_refuse(
			reader, "\"%.*s\" is a part of a GPU by MIG, which allot does not share",
			SHOWN, field);
	return decision_refuse(reader, "\"%.*s\" is not the UUID of a GPU", SHOWN, field);
}

/* The fields as texts of their own; their number, or -EINVAL. */
static int decision_split(const struct reader *reader, struct piece device,
			  char fields[static FIELDS_MOST][FIELD_BYTES])
{
	unsigned int n = 0;

	for (const char *at = device.begin;; n++) {
		struct piece field = decision_cut(at, device.end, ',');
		size_t len = (size_t)(field.end - field.begin);

		if (n == reader->grammar->fields)
			return decision_refuse(reader, "it has more fields than %s",
					       reader->grammar->device);
		if (!len || len >= FIELD_BYTES || memchr(field.begin, '\0', len))
			return decision_refuse(reader, "field %u of %s is %s", n + 1,
					       reader->grammar->device,
					       len >= FIELD_BYTES ? "too long"
					       : len		  ? "not text"
								  : "empty");
		memcpy(fields[n], field.begin, len);
		fields[n][len] = '\0';
		if (field.end == device.end)
			break;
		at = field.end + 1;
	}
	if (n + 1 != reader->grammar->fields)
		return decision_refuse(reader, "it has fewer fields than %s",
				       reader->grammar->device);
	return 0;
}

/* XPU's index has no use here, but a text that has no number there is another one. */
static int decision_check_numbers(const struct reader *reader,
				  char fields[static FIELDS_MOST][FIELD_BYTES], uint32_t *ret_part)
{
	uint64_t number = 0;

	*ret_part = 0;
	if (!reader->grammar->comma)
		return 0;
	for (unsigned int i = 0; i < FIELDS_MOST; i += FIELDS_MOST - 1)
		if (parse_u64(fields[i], 0, INT32_MAX, &number))
			return decision_refuse(reader, "\"%.*s\" is not the number of a %s", SHOWN,
					       fields[i], i ? "part" : "GPU");
	*ret_part = (uint32_t)number;
	return 0;
}

static int decision_device(const struct reader *reader, struct piece text,
			   struct decision_device *ret)
{
	char fields[FIELDS_MOST][FIELD_BYTES];
	const char *memory = fields[reader->grammar->memory],
		   *cores = fields[reader->grammar->cores];
	uint64_t units, percent;
	int r;

	r = decision_split(reader, text, fields);
	if (!r)
		r = decision_check_numbers(reader, fields, &ret->part);
	if (!r)
		r = decision_uuid(reader, fields[reader->grammar->uuid], ret->uuid);
	if (r)
		return r;
	if (parse_u64(memory, 0, SIZE_MAX_BYTES / reader->unit, &units))
		return decision_refuse(reader, "\"%.*s\" is not a number of %s", SHOWN, memory,
				       units_bytes(reader->unit).s);
	if (parse_u64(cores, 0, 100, &percent))
		return decision_refuse(reader, "\"%.*s\" is not a percentage of cores, 0 to 100",
				       SHOWN, cores);
	ret->memory_bytes = units * reader->unit;
	ret->cores = (uint32_t)percent;
	return 0;
}

static bool decision_has(const struct decision_container *container, const uint8_t uuid[static 16])
{
	for (unsigned int i = 0; i < container->n; i++)
		if (!memcmp(container->device[i].uuid, uuid, 16))
			return true;
	return false;
}

static int decision_container(struct reader *reader, struct piece entry,
			      struct decision_container *ret)
{
	ret->n = 0;
	for (const char *at = entry.begin; at < entry.end;) {
		struct piece text = decision_cut(at, entry.end, ':');
		struct decision_device device;
		int r;

		reader->device = ret->n + 1;
		if (ret->n == POLICY_DEVICES)
			return decision_refuse(reader, "a container has at most %d",
					       POLICY_DEVICES);
		r = decision_device(reader, text, &device);
		if (r)
			return r;
		if (decision_has(ret, device.uuid))
			return decision_refuse(reader, "the container has this GPU already");
		ret->device[ret->n++] = device;
		at = text.end + (text.end < entry.end);
	}
	return 0;
}

static int decision_read_entries(struct reader *reader, const char *text, const char *end,
				 struct decision *ret)
{
	ret->n = 0;
	for (const char *at = text; at < end;) {
		struct piece entry = decision_entry(reader->grammar, at, end);
		int r;

		reader->container = ret->n + 1;
		reader->device = 1;
		if (ret->n == DECISION_CONTAINERS)
			return decision_refuse(reader, "a Pod has at most %d containers here",
					       DECISION_CONTAINERS);
		r = decision_container(reader, entry, &ret->container[ret->n]);
		if (r)
			return r;
		ret->n++;
		at = entry.end + (entry.end < end);
	}
	return 0;
}

uint64_t decision_unit(const struct kube_conf *conf)
{
	const struct grammar *grammar = decision_grammar(conf->scheduler);

	for (size_t i = 0; grammar && grammar->units && i < conf->nresources; i++)
		if (conf->resource[i].unit == KUBE_MEMORY && conf->resource[i].amount >= MIB)
			return conf->resource[i].amount;
	return MIB;
}

int decision_read_bytes(const struct kube_conf *conf, const char *text, size_t len,
			struct decision *ret, char why[static DECISION_WHY])
{
	struct reader reader = {.grammar = decision_grammar(conf->scheduler),
				.unit = decision_unit(conf),
				.why = why};
	struct decision *read;
	int r;

	if (!reader.grammar) {
		snprintf(why, DECISION_WHY,
			 "the scheduler that is configured writes no devices into "
			 "annotations");
		return -EINVAL;
	}
	if (len > DECISION_BYTES) {
		snprintf(why, DECISION_WHY, "it has %zu bytes; Kubernetes takes at most %zu", len,
			 DECISION_BYTES);
		return -EINVAL;
	}
	read = malloc(sizeof(*read));
	if (!read) {
		snprintf(why, DECISION_WHY, "there is no memory to read it");
		return -ENOMEM;
	}
	r = decision_read_entries(&reader, text, text + len, read);
	if (!r)
		*ret = *read;
	free(read);
	return r;
}

int decision_find(const struct decision *decision, unsigned int nth)
{
	for (unsigned int i = 0; i < decision->n; i++)
		if (decision->container[i].n && !nth--)
			return (int)i;
	return -1;
}
