/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/tenants.h"

const char *const rows_sorts[ROWS_SORTS] = {"memory", "share", "name", "user", "refusals"};

bool rows_has_share(const struct row *row)
{
	return row->device && tenants_measured(row->device);
}

uint32_t rows_target_permille(const struct row *row)
{
	uint32_t target = row->device->compute.target_permille;

	/* Without a limit all of the time is there to be had. */
	return row->tenant->snapshot->policy.mode == POLICY_MODE_SPACE || !target ? 1000 : target;
}

uint64_t rows_memory_whole(const struct row *row, const struct view *view)
{
	if (row->limit_bytes)
		return row->limit_bytes;
	for (unsigned int i = 0; row->uuid && i < view->gauges.n; i++)
		if (!memcmp(view->gauges.list[i].uuid, row->uuid, 16))
			return view->gauges.list[i].total_bytes;
	return row->device ? row->device->total_bytes : 0;
}

int rows_memory_permille(const struct row *row, const struct view *view)
{
	uint64_t whole = rows_memory_whole(row, view);
	double x;

	if (!whole || row->used_bytes == UINT64_MAX)
		return -1;
	x = (double)row->used_bytes * 1000 / (double)whole;
	return x > 1000 ? 1000 : (int)x;
}

static uint64_t rows_figure_of(const struct row *row, enum rows_sort sort)
{
	switch (sort) {
	case ROWS_BY_MEMORY:
		return row->used_bytes == UINT64_MAX ? 0 : row->used_bytes;
	case ROWS_BY_SHARE: /* over a minute, so that the order holds still */
		return rows_has_share(row) ? row->device->compute.achieved_60s_bp : 0;
	case ROWS_BY_REFUSALS:
		return row->device ? row->device->refusals : 0;
	default:
		return 0;
	}
}

/* The largest first, but names and users by the alphabet. */
static int rows_compare_by(const struct row *x, const struct row *y, enum rows_sort sort)
{
	uint64_t u = rows_figure_of(x, sort), v = rows_figure_of(y, sort);

	if (sort == ROWS_BY_USER)
		return strcmp(x->user, y->user);
	if (sort == ROWS_BY_NAME)
		return strcmp(x->name, y->name);
	return u < v ? 1 : u > v ? -1 : 0;
}

static int rows_compare(const void *a, const void *b, void *arg)
{
	const struct rows_choice *choice = arg;
	const struct row *x = a, *y = b;
	int r = rows_compare_by(x, y, choice->sort);

	if (r)
		return choice->reverse ? -r : r;
	r = strcmp(x->name, y->name);
	return r || !x->uuid || !y->uuid ? r : memcmp(x->uuid, y->uuid, 16);
}

static bool rows_matches(const struct row *row, const char *filter)
{
	return !*filter || strcasestr(row->name, filter) || strcasestr(row->user, filter) ||
	       strcasestr(row->command, filter);
}

static int rows_add(struct rows *rows, const struct row *row, const char *filter)
{
	struct row *more;

	if (!rows_matches(row, filter))
		return 0;
	more = reallocarray(rows->list, rows->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->list = more;
	more[rows->n++] = *row;
	return 0;
}

/* Of its first process that lives. */
static const char *rows_command_of(const struct snapshot *s)
{
	for (int p = 0; p < s->nprocesses; p++)
		if (s->process[p].live)
			return *s->process[p].info.command ? s->process[p].info.command
							   : s->process[p].info.comm;
	return "";
}

static int rows_add_tenant(const struct view *view, size_t i, const char *filter, struct rows *rows)
{
	const struct tenant_entry *tenant = &view->tenants.list[i];
	struct row row = {.user = view->users[i].name, .tenant = tenant};
	int r = 0;

	if (tenant->error)
		return 0;
	snprintf(row.name, sizeof(row.name), "%s", tenant->name);
	row.command = rows_command_of(tenant->snapshot);
	if (!tenant->snapshot->ndevices)
		return rows_add(rows, &row, filter);
	for (int d = 0; !r && d < tenant->snapshot->ndevices; d++) {
		row.device = &tenant->snapshot->device[d];
		row.uuid = row.device->uuid;
		row.used_bytes = row.device->used_bytes;
		row.limit_bytes = row.device->limit_bytes;
		r = rows_add(rows, &row, filter);
	}
	return r;
}

static int rows_add_outsider(const struct outsider_found *found, const char *filter,
			     struct rows *rows)
{
	struct row row = {.user = found->process.user,
			  .command = found->process.command,
			  .outside = found,
			  .uuid = found->outsider.uuid,
			  .used_bytes = found->outsider.bytes};

	snprintf(row.name, sizeof(row.name), "%s", view_outsider_name(found).s);
	return rows_add(rows, &row, filter);
}

int rows_collect(const struct view *view, const struct rows_choice *choice, struct rows *ret)
{
	struct rows rows = {.n = 0};
	int r = 0;

	for (size_t i = 0; !r && i < view->tenants.n; i++)
		r = rows_add_tenant(view, i, choice->filter, &rows);
	for (size_t i = 0; !r && i < view->noutside; i++)
		r = rows_add_outsider(&view->outside[i], choice->filter, &rows);
	if (r < 0) {
		rows_free(&rows);
		return r;
	}
	if (rows.n)
		qsort_r(rows.list, rows.n, sizeof(*rows.list), rows_compare, (void *)choice);
	*ret = rows;
	return 0;
}

void rows_free(struct rows *rows)
{
	free(rows->list);
	*rows = (struct rows){.n = 0};
}

size_t rows_select(const struct rows *rows, struct rows_choice *choice)
{
	const struct row *row;
	long at = -1;

	if (!rows->n)
		return 0;
	for (size_t i = 0; i < rows->n; i++) {
		bool same = rows->list[i].uuid && !memcmp(rows->list[i].uuid, choice->uuid, 16);

		if (!strcmp(rows->list[i].name, choice->name) && (at < 0 || same))
			at = (long)i;
	}
	at = (at < 0 ? 0 : at) + choice->move;
	choice->move = 0;
	at = at < 0 ? 0 : at >= (long)rows->n ? (long)rows->n - 1 : at;
	row = &rows->list[at];
	snprintf(choice->name, sizeof(choice->name), "%s", row->name);
	if (row->uuid)
		memcpy(choice->uuid, row->uuid, 16);
	return (size_t)at;
}
