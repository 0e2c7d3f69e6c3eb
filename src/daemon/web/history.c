/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "text/units.h"

#define HISTORY_VERSION 1

#define MIB_SHIFT 20

struct sample {
	uint32_t used_mib;
	uint32_t outside_mib;	 /* of a device */
	uint16_t share_permille; /* of a tenant; 0: none */
	uint16_t refusals;	 /* of a tenant, since the sample before */
	uint16_t achieved_bp;	 /* over the step */
	bool known;		 /* any of it, ... */
	bool measured, looked;	 /* ... achieved_bp, outside_mib */
};

/* Of a tenant on a device, or, with no name, of the device. */
struct series {
	char name[POLICY_NAME_BYTES];
	uint8_t uuid[16];
	bool seen; /* by this look */
	uint64_t refusals;
	struct sample sample[HISTORY_SAMPLES];
};

struct history {
	uint64_t noted_ns; /* when the newest sample was taken */
	unsigned int n;	   /* how many samples there are, */
	unsigned int at;   /* and the place of the newest */
	size_t nseries, next;
	struct series *series[HISTORY_SERIES + POLICY_DEVICES];
};

int history_open(struct history **ret)
{
	struct history *history = calloc(1, sizeof(*history));

	if (!history)
		return -ENOMEM;
	*ret = history;
	return 0;
}

void history_close(struct history *history)
{
	for (size_t i = 0; history && i < history->nseries; i++)
		free(history->series[i]);
	free(history);
}

/* --- Noting ---------------------------------------------------------------------------------- */

/* The next sample's place, blank. */
static void history_begin_sample(struct history *history)
{
	history->at = (history->at + 1) % HISTORY_SAMPLES;
	if (history->n < HISTORY_SAMPLES)
		history->n++;
	for (size_t i = 0; i < history->nseries; i++)
		history->series[i]->sample[history->at] = (struct sample){.known = false};
}

/* They come in the same order each time: the one that is looked for is the next, nearly always. */
static struct series *history_find(struct history *history, const char *name,
				   const uint8_t uuid[static 16])
{
	for (size_t i = 0; i < history->nseries; i++) {
		size_t at = (history->next + i) % history->nseries;
		struct series *s = history->series[at];

		if (!memcmp(s->uuid, uuid, sizeof(s->uuid)) && !strcmp(s->name, name)) {
			history->next = at + 1;
			return s;
		}
	}
	return NULL;
}

static struct series *history_add(struct history *history, const char *name,
				  const uint8_t uuid[static 16])
{
	struct series *s;

	if (history->nseries == sizeof(history->series) / sizeof(history->series[0]))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	snprintf(s->name, sizeof(s->name), "%s", name);
	memcpy(s->uuid, uuid, sizeof(s->uuid));
	history->series[history->nseries++] = s;
	return s;
}

/* The sample of now, or NULL: there is no room for it. */
static struct sample *history_sample(struct history *history, struct series *series)
{
	struct sample *sample;

	if (!series)
		return NULL;
	series->seen = true;
	sample = &series->sample[history->at];
	sample->known = true;
	return sample;
}

static uint32_t history_mib(uint64_t bytes)
{
	return bytes >> MIB_SHIFT > UINT32_MAX ? UINT32_MAX : (uint32_t)(bytes >> MIB_SHIFT);
}

static uint16_t history_small(uint64_t value)
{
	return value > UINT16_MAX ? UINT16_MAX : (uint16_t)value;
}

/* Over the step; the ledger's reader lets nobody have more than all of a second. */
static uint64_t history_achieved_bp(const struct snapshot_compute *compute)
{
	uint64_t sum = 0;

	for (int s = SNAPSHOT_SECONDS - HISTORY_STEP_S; s < SNAPSHOT_SECONDS; s++)
		sum += compute->history_bp[s];
	return sum / HISTORY_STEP_S;
}

static uint16_t history_refusals(struct series *series, uint64_t refusals)
{
	uint64_t before = series->refusals;

	series->refusals = refusals;
	return history_small(refusals < before ? refusals : refusals - before);
}

/* The requested share. A tenant with a weight has a part that depends on the others. */
static uint16_t history_share(const struct snapshot_compute *compute)
{
	return history_small(compute->share_permille ? compute->share_permille
						     : compute->target_permille);
}

/*
 * Users' tenants are called NAME@UID. Those apart have a place and a slash before it, and are all one
 * owner's: a user namespace has as many owners as one likes. NULL: root's.
 */
static const char *history_owner(const char *name)
{
	return strchr(name, '/') ? "/" : strchr(name, '@');
}

/* How many more series of the tenant's user may be kept; root's are limited by the room alone. */
static size_t history_room(const struct history *history, const char *name)
{
	const char *user = history_owner(name), *other;
	size_t n = 0;

	if (!user)
		return SIZE_MAX;
	for (size_t i = 0; i < history->nseries; i++) {
		other = history_owner(history->series[i]->name);
		n += other && !strcmp(other, user);
	}
	return n < HISTORY_OF_USER ? HISTORY_OF_USER - n : 0;
}

static void history_note_tenant(struct history *history, const char *name,
				const struct snapshot_device *device, size_t *room)
{
	struct series *series = history_find(history, name, device->uuid);
	struct sample *sample;

	if (!series && *room) {
		--*room;
		series = history_add(history, name, device->uuid);
		/* When those were refused that came before the first sample, nobody knows. */
		if (series && history->n == 1)
			series->refusals = device->refusals;
	}
	sample = history_sample(history, series);
	if (!sample)
		return;
	sample->used_mib = history_mib(device->used_bytes);
	sample->share_permille = history_share(&device->compute);
	sample->refusals = history_refusals(series, device->refusals);
	sample->measured = tenants_measured(device);
	sample->achieved_bp = history_small(history_achieved_bp(&device->compute));
}

static uint64_t history_device_bp(const struct tenants *tenants, const uint8_t uuid[static 16])
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tenants->n; i++) {
		const struct snapshot_device *device =
			snapshot_device_of(tenants->list[i].snapshot, uuid);

		sum += device ? history_achieved_bp(&device->compute) : 0;
	}
	return sum;
}

static void history_note_device(struct history *history, const uint8_t uuid[static 16],
				const struct tenants *tenants, const struct audit_report *audit)
{
	struct series *series = history_find(history, "", uuid);
	struct sample *sample =
		history_sample(history, series ? series : history_add(history, "", uuid));
	struct tenants_sum sum;

	if (!sample)
		return;
	sum = tenants_sum(tenants, uuid, 0);
	sample->used_mib = history_mib(sum.used_bytes);
	sample->looked = audit && audit->age_ns != UINT64_MAX;
	sample->outside_mib = sample->looked ? history_mib(audit_outside_bytes(audit, uuid)) : 0;
	sample->measured = sum.measured;
	sample->achieved_bp = history_small(history_device_bp(tenants, uuid));
}

static void history_forget_unseen(struct history *history)
{
	size_t kept = 0;

	for (size_t i = 0; i < history->nseries; i++) {
		struct series *s = history->series[i];

		if (s->seen)
			history->series[kept++] = s;
		else
			free(s);
	}
	history->nseries = kept;
}

void history_note(struct history *history, uint64_t now_ns, const struct devices *devices,
		  const struct tenants *tenants, const struct audit_report *audit)
{
	uint64_t steps = history->n ? (now_ns - history->noted_ns + HISTORY_STEP_NS / 2) /
					      HISTORY_STEP_NS
				    : 1;

	for (uint64_t i = 1; i < steps && i <= HISTORY_SAMPLES; i++)
		history_begin_sample(history);
	history_begin_sample(history);
	history->noted_ns = now_ns;
	for (size_t i = 0; i < history->nseries; i++)
		history->series[i]->seen = false;
	for (unsigned int i = 0; i < devices->n; i++)
		history_note_device(history, devices->list[i].uuid, tenants, audit);
	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];
		size_t room = history_room(history, e->name);

		for (int d = 0; e->snapshot && d < e->snapshot->ndevices; d++)
			history_note_tenant(history, e->name, &e->snapshot->device[d], &room);
	}
	history_forget_unseen(history);
}

/* --- As JSON --------------------------------------------------------------------------------- */

enum figure { FIGURE_USED, FIGURE_OUTSIDE, FIGURE_ACHIEVED, FIGURE_SHARE, FIGURE_REFUSALS };

static uint64_t history_figure(const struct sample *s, enum figure figure)
{
	if (!s->known || (figure == FIGURE_ACHIEVED && !s->measured) ||
	    (figure == FIGURE_OUTSIDE && !s->looked) ||
	    (figure == FIGURE_SHARE && !s->share_permille))
		return JSON_NONE;
	switch (figure) {
	case FIGURE_USED:
		return (uint64_t)s->used_mib << MIB_SHIFT;
	case FIGURE_OUTSIDE:
		return (uint64_t)s->outside_mib << MIB_SHIFT;
	case FIGURE_ACHIEVED:
		return s->achieved_bp;
	case FIGURE_SHARE:
		return s->share_permille;
	case FIGURE_REFUSALS:
		return s->refusals;
	}
	return JSON_NONE;
}

/* The oldest first. */
static void history_put(struct json *j, const char *key, const struct history *history,
			const struct series *series, enum figure figure)
{
	uint64_t value[HISTORY_SAMPLES];
	unsigned int first = history->at + HISTORY_SAMPLES + 1 - history->n;

	for (unsigned int i = 0; i < history->n; i++)
		value[i] = history_figure(&series->sample[(first + i) % HISTORY_SAMPLES], figure);
	json_u64_list(j, key, value, history->n);
}

static void history_put_series(struct json *j, const struct history *history,
			       const struct series *s)
{
	json_open(j, NULL, '{');
	if (*s->name)
		json_text(j, "name", s->name);
	json_text(j, "uuid", units_uuid(s->uuid).s);
	history_put(j, "used_bytes", history, s, FIGURE_USED);
	if (!*s->name)
		history_put(j, "outside_bytes", history, s, FIGURE_OUTSIDE);
	history_put(j, "achieved_bp", history, s, FIGURE_ACHIEVED);
	if (*s->name) {
		history_put(j, "share_permille", history, s, FIGURE_SHARE);
		history_put(j, "refusals", history, s, FIGURE_REFUSALS);
	}
	json_close(j, '}');
}

static void history_put_list(struct json *j, const char *key, const struct history *history,
			     bool tenants)
{
	json_open(j, key, '[');
	for (size_t i = 0; i < history->nseries; i++)
		if (tenants == !!*history->series[i]->name)
			history_put_series(j, history, history->series[i]);
	json_close(j, ']');
}

void history_write(const struct history *history, uint64_t now_ns, FILE *out)
{
	struct json j = {.out = out};

	json_open(&j, NULL, '{');
	json_u64(&j, "version", HISTORY_VERSION);
	json_u64(&j, "step_ns", HISTORY_STEP_NS);
	json_u64(&j, "samples", history->n);
	json_u64_if(&j, "age_ns", history->n, now_ns - history->noted_ns);
	history_put_list(&j, "devices", history, false);
	history_put_list(&j, "tenants", history, true);
	json_close(&j, '}');
}
