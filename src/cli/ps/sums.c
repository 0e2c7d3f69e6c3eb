/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps/sums.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "base/number.h"
#include "node/journal.h"

void sums_begin(struct sums *sums, enum sums_by by, int64_t since_s, int64_t until_s)
{
	*sums = (struct sums){.by = by, .since_s = since_s, .until_s = until_s};
}

static int sums_order(const void *a, const void *b)
{
	const struct sums_part *x = a, *y = b;
	int r = strcmp(x->key, y->key);

	if (r == 0)
		r = strcmp(x->name, y->name);
	return r ? r : (x->began_s > y->began_s) - (x->began_s < y->began_s);
}

static void sums_join(struct sums_part *to, const struct sums_part *from)
{
	to->busy_ns = sat_add_u64(to->busy_ns, from->busy_ns);
	to->allotted_ns = sat_add_u64(to->allotted_ns, from->allotted_ns);
	to->byte_s += from->byte_s;
	to->peak_bytes = max_u64(to->peak_bytes, from->peak_bytes);
	to->refusals = sat_add_u64(to->refusals, from->refusals);
	to->energy_uj = sat_add_u64(to->energy_uj, from->energy_uj);
	if (*from->pod)
		memcpy(to->pod, from->pod, sizeof(to->pod));
}

/* Joins parts of one tenant under one key, or in the end all under one key. */
static void sums_compact(struct sums *sums, bool all)
{
	size_t n = 0;

	if (sums->n)
		qsort(sums->list, sums->n, sizeof(*sums->list), sums_order);
	for (size_t i = 0; i < sums->n; i++) {
		struct sums_part *part = &sums->list[i], *last = n ? &sums->list[n - 1] : NULL;

		if (last && (all ? !strcmp(last->key, part->key) : !sums_order(last, part))) {
			sums_join(last, part);
			last->tenants += all;
		} else {
			sums->list[n++] = *part;
		}
	}
	sums->n = n;
}

/* Where joining leaves less than half of the room free there is more, so that it is seldom tried. */
static int sums_make_room(struct sums *sums)
{
	size_t room = sums->room ? 2 * sums->room : 256;
	struct sums_part *list;

	sums_compact(sums, false);
	if (sums->room && sums->n <= sums->room / 2)
		return 0;
	list = reallocarray(sums->list, room, sizeof(*list));
	if (!list)
		return -ENOMEM;
	sums->list = list;
	sums->room = room;
	return 0;
}

static int sums_put(struct sums *sums, const struct sums_part *part)
{
	int r = sums->n == sums->room ? sums_make_room(sums) : 0;

	if (r == 0)
		sums->list[sums->n++] = *part;
	return r;
}

/* The first second of the next day here; days of a change of clocks have 23 or 25 hours. */
static int64_t sums_next_day(int64_t at_s, char *key, size_t len)
{
	time_t at = (time_t)at_s, next;
	struct tm tm;

	if (!localtime_r(&at, &tm))
		return INT64_MAX;
	strftime(key, len, "%Y-%m-%d", &tm);
	tm.tm_mday++;
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	tm.tm_isdst = -1;
	next = mktime(&tm);
	return next > at ? next : INT64_MAX;
}

static uint64_t sums_share(uint64_t value, double share)
{
	return share < 1 ? (uint64_t)((double)value * share) : value;
}

/* A share of the part; the last one if the part `ends` with it. */
static int sums_put_share(struct sums *sums, uid_t uid, const struct ended *e, const char *key,
			  double share, bool ends)
{
	struct sums_part part = {.uid = uid, .began_s = e->began_s, .tenants = 1};

	snprintf(part.key, sizeof(part.key), "%s", key);
	memcpy(part.name, e->name, sizeof(part.name));
	if (sums->by == SUMS_NAME)
		memcpy(part.pod, e->pod, sizeof(part.pod));
	if (e->used) {
		part.busy_ns = sums_share(e->busy_ns, share);
		part.allotted_ns = sums_share(e->alive_ns, share);
		part.byte_s = (double)e->byte_s * share;
		part.peak_bytes = e->peak_bytes;
		part.energy_uj = sums_share(e->energy_uj, share);
	}
	part.refusals = ends ? e->refusals : 0;
	return sums_put(sums, &part);
}

/* A clock that was set has a part begin behind its end, or long before it. */
static int64_t sums_from(const struct ended *e)
{
	int64_t alive_s = (int64_t)min_u64(e->alive_ns / NS_PER_S + 1, INT32_MAX);

	return clamp_i64(e->since_s, e->ended_s - max_i64(alive_s, 2 * JOURNAL_DAY_S), e->ended_s);
}

int sums_add(struct sums *sums, uid_t uid, const struct ended *e)
{
	int64_t from_s = sums_from(e);
	int64_t length_s = e->ended_s - from_s, at_s = max_i64(from_s, sums->since_s), next_s;
	char key[POLICY_NAME_BYTES];
	int r = 0;

	/* Later than now is what was written while the clock was wrong. */
	if (e->ended_s < sums->since_s || e->ended_s > sums->until_s + 60)
		return 0;
	do {
		next_s = e->ended_s;
		if (sums->by == SUMS_USER)
			snprintf(key, sizeof(key), "%010u", (unsigned int)uid);
		else if (sums->by == SUMS_NAME)
			memcpy(key, e->name, sizeof(key));
		else
			next_s = sums_next_day(at_s, key, sizeof(key));
		if (next_s > e->ended_s)
			next_s = e->ended_s;
		r = sums_put_share(sums, uid, e, key,
				   length_s ? (double)(next_s - at_s) / (double)length_s : 1,
				   next_s == e->ended_s);
		at_s = next_s;
	} while (r == 0 && at_s < e->ended_s);
	return r;
}

void sums_end(struct sums *sums)
{
	sums_compact(sums, false);
	sums_compact(sums, true);
}

void sums_free(struct sums *sums)
{
	free(sums->list);
}
