/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/accrual.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/now.h"
#include "base/number.h"
#include "ledger/tenant.h"
#include "node/ended.h"
#include "node/journal.h"
#include "node/process/pod.h"
#include "text/log.h"

#define BUCKETS 1024
#define HOUR_S	3600
/* A command removes the tenant's directory first, and notes its last figures then. */
#define LINGER_NS (300 * NS_PER_S)
/* A clock that was set by more than this jumped. */
#define JUMP_S 60
/* 10 MB of them; all that a user can have is 32 tenants on each device. Further ones are not counted. */
#define ROWS 16384
/* Times on disk are in seconds, so that work within one has no duration. */
#define ROUND_NS NS_PER_S
/* A living tenant has a line an hour. Of one that has none of the last two days nothing is known. */
#define RESTORE_S	 (2 * JOURNAL_DAY_S)
#define REFUSALS_A_SECOND 1000000 /* no process has more */
#define MOST_WATTS	  5000	  /* no device draws more */

/* A tenant on a device. */
struct accrual_row {
	struct accrual_row *next;
	struct ended e; /* sums from the beginning on, as they were last seen; parts, not written yet */
	uid_t uid;
	uint64_t done_busy_ns, done_refusals, done_energy_uj; /* of these sums, that are written */
	uint64_t used_bytes, peak_bytes;      /* now, and since its beginning; e has the part's peak */
	uint64_t seen_ns;		      /* CLOCK_BOOTTIME; 0: by this process not yet */
	uint64_t gone_ns;		      /* likewise: it was missed since; 0: it was not */
	int64_t end_s;			      /* of one that ends */
	dev_t dev;   /* the ledger's file, of one that is apart */
	ino_t ino;   /* likewise */
	bool fresh;  /* seen in this look */
	bool found;  /* the journal has a line of it */
	bool apart;  /* nobody notes its end */
	bool rest;   /* of a user's tenants together */
	bool ends;   /* its last figures are there */
	bool closed; /* and are written */
};

struct accrual {
	const char *runtime, *dir;
	struct accrual_row *bucket[BUCKETS];
	bool restored;
	bool full; /* said */
	struct stat notes; /* as they were when they were read */
	int64_t since_s;   /* older tenants are new to this process: what they had is written, or nobody's */
	int64_t now_s;	   /* at the last look, as is boot_ns */
	int64_t offset_s;  /* of the day's clock to CLOCK_BOOTTIME */
	int64_t pruned_day;
	uint64_t boot_ns, settled_ns; /* when the day's clock last jumped */
	uint64_t bytes, apart_bytes; /* of all users, and of tenants apart, on this day */
	size_t nrows;
	int error;	/* that was said; 0 */
};

int accrual_open(const char *runtime, const char *dir, struct accrual **ret)
{
	struct accrual *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->runtime = runtime;
	a->dir = dir;
	*ret = a;
	return 0;
}

/* --- Rows ------------------------------------------------------------------------------------- */

static struct accrual_row **accrual_bucket(struct accrual *a, const char *name)
{
	return &a->bucket[hash_mix(hash_string(HASH_SEED, name)) % BUCKETS];
}

static bool accrual_is_of(const struct accrual_row *row, const struct ended *e)
{
	return !strcmp(row->e.name, e->name) && row->e.began_s == e->began_s &&
	       row->e.used == e->used && !memcmp(row->e.uuid, e->uuid, sizeof(e->uuid));
}

/* `ended_s` is 0 for a living one: a name can be used twice in a second. NULL: there is none. */
static struct accrual_row *accrual_find(struct accrual *a, const struct ended *e, int64_t ended_s)
{
	for (struct accrual_row *row = *accrual_bucket(a, e->name); row; row = row->next)
		if (accrual_is_of(row, e) && (row->ends ? row->end_s == ended_s : !ended_s))
			return row;
	return NULL;
}

static struct accrual_row *accrual_add(struct accrual *a, const struct ended *e, uid_t uid)
{
	struct accrual_row **bucket = accrual_bucket(a, e->name);
	struct accrual_row *row = a->nrows < ROWS ? calloc(1, sizeof(*row)) : NULL;

	if (!row) {
		if (!a->full)
			log_line(LOG_WARN, "allot report does not count all tenants: %zu are counted "
				 "at a time", a->nrows);
		a->full = true;
		return NULL;
	}
	a->nrows++;
	row->e = *e;
	row->e.since_s = row->e.ended_s = e->began_s;
	row->e.alive_ns = row->e.byte_s = row->e.peak_bytes = 0;
	row->uid = uid;
	row->next = *bucket;
	*bucket = row;
	return row;
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* A row of all the user's tenants on that device, which holds what has no line of its own. */
static int accrual_join_rest(struct accrual *a, const struct accrual_row *row,
			     const struct ended *part)
{
	struct ended e = {.used = part->used, .since_s = part->since_s};
	struct accrual_row *rest;

	snprintf(e.name, sizeof(e.name), row->uid != geteuid() ? "*@%u" : "*",
		 (unsigned int)row->uid);
	memcpy(e.uuid, part->uuid, sizeof(e.uuid));
	rest = accrual_find(a, &e, 0);
	rest = rest ? rest : accrual_add(a, &e, row->uid);
	if (!rest)
		return -ENOMEM;
	if (!rest->e.alive_ns)
		rest->e.since_s = part->since_s;
	rest->rest = true;
	rest->e.ended_s = part->ended_s;
	rest->e.alive_ns += part->alive_ns;
	rest->e.byte_s += part->byte_s;
	rest->e.busy_ns += part->busy_ns;
	rest->e.refusals += part->refusals;
	rest->e.energy_uj += part->energy_uj;
	rest->e.peak_bytes = max_u64(rest->e.peak_bytes, part->peak_bytes);
	return 0;
}

static int accrual_write(struct accrual *a, struct accrual_row *row, const struct ended *part)
{
	/* Lines of tenants together are few: they have as much room again. */
	uint64_t times = row->rest ? 2 : 1;
	uint64_t of_user = row->uid != geteuid() ? ACCRUAL_OF_USER : ACCRUAL_OF_ALL;
	bool full = a->bytes >= times * ACCRUAL_OF_ALL;
	int r;

	/* A user may have them of many users' numbers, each with a folder. */
	if (row->apart && (full || a->apart_bytes >= ACCRUAL_OF_APART))
		return 0;
	r = full ? -EDQUOT : journal_append(a->dir, row->uid, a->now_s, part, times * of_user);
	if (r == -EDQUOT && row->apart)
		return 0;
	if (r == -EDQUOT && !row->rest)
		return accrual_join_rest(a, row, part);
	if (r < 0)
		return r;
	a->bytes += (uint64_t)r;
	a->apart_bytes += row->apart ? (uint64_t)r : 0;
	return 0;
}

static bool accrual_is_written(const struct accrual_row *row)
{
	if (row->rest)
		return !row->e.alive_ns && !row->e.busy_ns && !row->e.refusals && !row->e.energy_uj;
	return row->closed || (!row->ends && !row->e.alive_ns && row->e.busy_ns == row->done_busy_ns &&
			       row->e.refusals == row->done_refusals &&
			       row->e.energy_uj == row->done_energy_uj);
}

static int accrual_flush(struct accrual *a, struct accrual_row *row)
{
	struct ended part = row->e;
	int r;

	if (accrual_is_written(row))
		return 0;
	if (!row->rest) {
		part.busy_ns = min_u64(sat_sub_u64(row->e.busy_ns, row->done_busy_ns),
				       row->e.alive_ns + ROUND_NS);
		part.refusals = min_u64(sat_sub_u64(row->e.refusals, row->done_refusals),
					(row->e.alive_ns / NS_PER_S + 1) * REFUSALS_A_SECOND);
		part.energy_uj = min_u64(sat_sub_u64(row->e.energy_uj, row->done_energy_uj),
					 (row->e.alive_ns + ROUND_NS) / NS_PER_MS * MOST_WATTS * 1000);
		part.energy_all_uj = row->e.energy_uj;
		part.busy_all_ns = row->e.busy_ns;
		part.refusals_all = row->e.refusals;
	}
	part.last = row->ends;
	r = accrual_write(a, row, &part);
	if (r < 0)
		return r;
	row->done_busy_ns = row->e.busy_ns;
	row->done_refusals = row->e.refusals;
	row->done_energy_uj = row->e.energy_uj;
	row->e.since_s = row->e.ended_s;
	row->e.alive_ns = row->e.byte_s = 0;
	row->e.peak_bytes = row->used_bytes;
	if (row->rest)
		row->e.busy_ns = row->e.refusals = row->e.energy_uj = 0;
	row->closed = row->ends;
	return 0;
}

/* The others may still add to a row for the rest, so such rows are last. */
static int accrual_flush_all(struct accrual *a)
{
	int r = 0, one;

	for (int rest = 0; rest < 2; rest++)
		for (int b = 0; b < BUCKETS; b++)
			for (struct accrual_row *row = a->bucket[b]; row; row = row->next)
				if (row->rest == rest && (one = accrual_flush(a, row)) < 0)
					r = one;
	return r;
}

void accrual_close(struct accrual *a)
{
	if (!a)
		return;
	if (a->restored)
		accrual_flush_all(a);
	for (int b = 0; b < BUCKETS; b++)
		for (struct accrual_row *row = a->bucket[b], *next; row; row = next) {
			next = row->next;
			free(row);
		}
	free(a);
}

/* --- Looking ---------------------------------------------------------------------------------- */

static uint64_t accrual_byte_s(uint64_t bytes, uint64_t ns)
{
	double product = (double)bytes * (double)ns / (double)NS_PER_S;

	return product < (double)INT64_MAX ? (uint64_t)product : INT64_MAX;
}

/* Adds the time until `at_s`, since this process saw the tenant, or since its last line. */
static void accrual_advance(struct accrual *a, struct accrual_row *row, int64_t at_s)
{
	uint64_t until_ns = row->gone_ns ? row->gone_ns : a->boot_ns;
	uint64_t ns = sat_sub_u64(until_ns, row->seen_ns);

	if (!row->seen_ns || row->ends)
		ns = min_u64(ns, (uint64_t)max_i64(at_s - row->e.ended_s, 0) * NS_PER_S);
	row->e.alive_ns += ns;
	if (row->seen_ns)
		row->e.byte_s = sat_add_u64(row->e.byte_s, accrual_byte_s(row->used_bytes, ns));
	row->e.ended_s = at_s;
	row->seen_ns = a->boot_ns;
}

static void accrual_take_figures(struct accrual_row *row, const struct ended *e,
				 uint64_t most_bytes)
{
	row->e.limit_bytes = e->limit_bytes;
	if (e->peak_bytes > row->peak_bytes)
		row->e.peak_bytes = min_u64(e->peak_bytes, most_bytes);
	row->peak_bytes = e->peak_bytes;
	row->e.busy_ns = e->busy_ns;
	row->e.refusals = e->refusals;
	row->e.energy_uj = e->energy_uj;
	row->fresh = true;
	/* A ledger's sums only grow, so this is another one's. */
	if (row->e.busy_ns < row->done_busy_ns)
		row->done_busy_ns = 0;
	if (row->e.refusals < row->done_refusals)
		row->done_refusals = 0;
	if (row->e.energy_uj < row->done_energy_uj)
		row->done_energy_uj = 0;
}

/* The device's memory; 0: the machine has no such device, so a user has made it up. */
static uint64_t accrual_total(const struct devices *devices, const uint8_t uuid[static 16])
{
	const struct device *device = devices_find(devices, uuid);

	if (!device)
		return 0;
	return device->total_bytes ? device->total_bytes : UINT64_MAX;
}

/* Earlier use is written, or nobody's. */
static void accrual_begin_here(struct accrual_row *row, const struct ended *e)
{
	row->done_busy_ns = e->busy_ns;
	row->done_refusals = e->refusals;
	row->done_energy_uj = e->energy_uj;
	row->peak_bytes = e->peak_bytes;
}

static struct accrual_row *accrual_add_living(struct accrual *a, const struct ended *e, uid_t uid,
					      const struct tenant_entry *entry)
{
	struct accrual_row *row = accrual_add(a, e, uid);

	if (!row)
		return NULL;
	row->apart = entry->apart;
	row->dev = entry->ledger.st_dev;
	row->ino = entry->ledger.st_ino;
	if (row->apart) /* since when is not known */
		row->e.since_s = row->e.ended_s = a->now_s;
	if (row->apart || e->began_s < a->since_s)
		accrual_begin_here(row, e);
	pod_words(&entry->pod, row->e.pod);
	return row;
}

/* A tenant apart has a new ledger for each of its programs, under one name. */
static bool accrual_is_another(const struct accrual_row *row, const struct tenant_entry *entry)
{
	return row->apart &&
	       (row->dev != entry->ledger.st_dev || row->ino != entry->ledger.st_ino);
}

static void accrual_see_device(struct accrual *a, const struct tenant_entry *entry,
			       const struct snapshot_device *d, int64_t began_s, uint64_t total)
{
	struct ended e = {.began_s = began_s, .used = true, .limit_bytes = d->limit_bytes,
			  .peak_bytes = d->peak_bytes, .busy_ns = d->compute.busy_ns,
			  .refusals = d->refusals, .energy_uj = d->energy_uj};
	uid_t uid = entry->apart ? entry->ledger.st_uid : geteuid();
	struct accrual_row *row;

	memcpy(e.name, entry->name, sizeof(e.name));
	memcpy(e.uuid, d->uuid, sizeof(e.uuid));
	tenant_name_owner(e.name, &uid);
	row = accrual_find(a, &e, 0);
	if (row && accrual_is_another(row, entry)) {
		row->ends = true;
		row->end_s = row->e.ended_s;
		row = NULL;
	}
	row = row ? row : accrual_add_living(a, &e, uid, entry);
	if (!row)
		return;
	accrual_take_figures(row, &e, total);
	row->gone_ns = 0;
	row->used_bytes = min_u64(d->used_bytes, total);
	row->e.peak_bytes = max_u64(row->e.peak_bytes, row->used_bytes);
}

/* A tenant that cannot be read now has what it had. */
static void accrual_see_name(struct accrual *a, const char *name)
{
	for (struct accrual_row *row = *accrual_bucket(a, name); row; row = row->next)
		if (!row->ends && !strcmp(row->e.name, name))
			row->fresh = true;
}

static void accrual_see(struct accrual *a, const struct tenants *tenants,
			const struct devices *devices)
{
	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *entry = &tenants->list[i];
		const struct snapshot *s = entry->snapshot;
		int64_t began_s = entry->apart ? 0 : tenants_began(entry->dir);
		uint64_t total;

		if (!s || began_s < 0)
			accrual_see_name(a, entry->name);
		for (int d = 0; s && began_s >= 0 && d < s->ndevices; d++)
			if (s->device[d].index >= 0 &&
			    (total = accrual_total(devices, s->device[d].uuid)))
				accrual_see_device(a, entry, &s->device[d], began_s, total);
	}
}

static void accrual_see_end(struct accrual *a, const struct ended *e, uint64_t total)
{
	struct accrual_row *row = accrual_find(a, e, e->ended_s);
	uid_t uid = geteuid();

	if (row && row->closed) {
		row->fresh = true;
		return;
	}
	tenant_name_owner(e->name, &uid);
	row = row ? row : accrual_find(a, e, 0);
	if (!row && e->ended_s >= a->since_s && (total || !e->used))
		row = accrual_add(a, e, uid);
	if (!row)
		return;
	accrual_take_figures(row, e, total ? total : row->e.peak_bytes);
	row->ends = true;
	row->end_s = e->ended_s;
}

/* True if they were read: then those that are not there any more are forgotten. */
static bool accrual_see_ends(struct accrual *a, const struct devices *devices)
{
	struct ended *list;
	struct stat st;
	int n;

	if (ended_stat(a->runtime, &st) < 0 ||
	    (fd_is_same(&st, &a->notes) && st.st_size == a->notes.st_size &&
	     !memcmp(&st.st_mtim, &a->notes.st_mtim, sizeof(st.st_mtim))))
		return false;
	n = ended_read(a->runtime, &list);
	if (n < 0)
		return false;
	a->notes = st;
	for (int i = 0; i < n; i++)
		accrual_see_end(a, &list[i], accrual_total(devices, list[i].uuid));
	free(list);
	return true;
}

/* --- The journal's word ----------------------------------------------------------------------- */

static int accrual_restore_part(uid_t uid, const struct ended *e, void *arg)
{
	struct accrual *a = arg;
	struct accrual_row *row = accrual_find(a, e, e->ended_s);

	if (e->last && row && row->ends)
		row->closed = true;
	for (row = *accrual_bucket(a, e->name); row && !e->last; row = row->next) {
		if (!accrual_is_of(row, e))
			continue;
		if (!row->found)
			row->done_busy_ns = row->done_refusals = row->done_energy_uj = 0;
		/* A line may be before an older one, in the file of a day that a wrong clock named. */
		if (e->busy_all_ns <= row->e.busy_ns)
			row->done_busy_ns = max_u64(row->done_busy_ns, e->busy_all_ns);
		if (e->refusals_all <= row->e.refusals)
			row->done_refusals = max_u64(row->done_refusals, e->refusals_all);
		if (e->energy_all_uj <= row->e.energy_uj)
			row->done_energy_uj = max_u64(row->done_energy_uj, e->energy_all_uj);
		row->e.since_s = row->e.ended_s = e->ended_s;
		if (!row->ends)
			row->e.peak_bytes = row->used_bytes;
		row->found = true;
	}
	return 0;
}

/* The journal is read once. Tenants that began before this, and are seen later, count from then on. */
static int accrual_restore(struct accrual *a)
{
	int r;

	if (a->restored)
		return 0;
	r = journal_read(a->dir, JOURNAL_ALL, a->since_s, accrual_restore_part, a);
	if (r < 0)
		return r;
	a->restored = true;
	a->since_s = a->now_s;
	return 0;
}

/* --- A look ----------------------------------------------------------------------------------- */

static bool accrual_is_there(const struct accrual *a, const struct accrual_row *row)
{
	char dir[PATH_MAX];

	return tenant_path(a->runtime, row->e.name, dir, sizeof(dir)) == 0 && !access(dir, F_OK) &&
	       tenants_began(dir) == row->e.began_s;
}

/* A tenant that is not listed has ended, or could not be read: a note, or it, may come yet. */
static int accrual_miss(struct accrual *a, struct accrual_row *row)
{
	if (!row->gone_ns) {
		row->gone_ns = a->boot_ns;
		row->ends = row->apart;
		row->end_s = row->e.ended_s;
	}
	return accrual_flush(a, row);
}

static int accrual_settle(struct accrual *a, struct accrual_row *row)
{
	if (row->closed || row->rest)
		return 0;
	if (!row->ends && !row->fresh)
		return accrual_miss(a, row);
	accrual_advance(a, row, row->ends ? row->end_s : a->now_s);
	return row->ends ? accrual_flush(a, row) : 0;
}

static bool accrual_is_over(const struct accrual *a, const struct accrual_row *row, bool ends_read)
{
	if (row->rest)
		return accrual_is_written(row);
	if (row->ends)
		return row->closed && (row->apart || (ends_read && !row->fresh));
	return row->gone_ns && a->boot_ns - row->gone_ns > LINGER_NS && accrual_is_written(row) &&
	       !accrual_is_there(a, row);
}

/* A row that is settled may add one for the rest, so none is removed before all are settled. */
static int accrual_settle_all(struct accrual *a, bool ends_read)
{
	int r = 0, one;

	for (int b = 0; b < BUCKETS; b++)
		for (struct accrual_row *row = a->bucket[b]; row; row = row->next)
			if ((one = accrual_settle(a, row)) < 0)
				r = one;
	for (int b = 0; b < BUCKETS; b++)
		for (struct accrual_row **at = &a->bucket[b], *row; (row = *at);) {
			if (!accrual_is_over(a, row, ends_read)) {
				at = &row->next;
				continue;
			}
			*at = row->next;
			a->nrows--;
			free(row);
		}
	return r;
}

/* Figures that were seen before go into the file of the day on which they were. */
static int accrual_set_clock(struct accrual *a, int64_t now_s, uint64_t boot_ns)
{
	int64_t offset_s = now_s - (int64_t)(boot_ns / NS_PER_S), day = now_s / JOURNAL_DAY_S;
	bool first = !a->boot_ns;
	bool hour = first || now_s / HOUR_S != a->now_s / HOUR_S;
	int r = hour && a->restored ? accrual_flush_all(a) : 0;

	if (first)
		a->since_s = now_s - RESTORE_S;
	if (first || offset_s - a->offset_s > JUMP_S || a->offset_s - offset_s > JUMP_S) {
		a->settled_ns = boot_ns;
		a->since_s = now_s < a->since_s ? now_s : a->since_s;
	}
	if (day != a->now_s / JOURNAL_DAY_S)
		a->apart_bytes = 0;
	a->offset_s = offset_s;
	a->now_s = now_s;
	a->boot_ns = boot_ns;
	if (hour)
		a->bytes = journal_bytes(a->dir, now_s);
	if (hour && day != a->pruned_day && boot_ns - a->settled_ns >= HOUR_S * NS_PER_S) {
		journal_prune(a->dir, now_s);
		a->pruned_day = day;
	}
	return r;
}

/* Said once, until a line is written again. */
static void accrual_say(struct accrual *a, int r)
{
	if (r < 0 && r != a->error)
		log_line(LOG_WARN, "what tenants used cannot be written to %s: %s; it is kept in memory "
			 "and written when that is possible", a->dir, strerror(-r));
	a->error = r;
}

void accrual_note(struct accrual *a, const struct tenants *tenants, const struct devices *devices,
		  int64_t now_s, uint64_t boot_ns)
{
	bool ends_read;
	int r, one;

	/* A driver that comes later has devices of which the journal tells. */
	if (!devices->n)
		return;
	r = accrual_set_clock(a, now_s, boot_ns);
	for (int b = 0; b < BUCKETS; b++)
		for (struct accrual_row *row = a->bucket[b]; row; row = row->next)
			row->fresh = false;
	accrual_see(a, tenants, devices);
	ends_read = accrual_see_ends(a, devices);
	one = accrual_restore(a);
	if (one == 0)
		one = accrual_settle_all(a, ends_read);
	accrual_say(a, one < 0 ? one : r);
}
