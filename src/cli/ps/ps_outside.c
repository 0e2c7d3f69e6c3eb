/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps/ps_outside.h"

#include <stdlib.h>

#include "cli/say/table.h"
#include "text/units.h"

void ps_outside_look(struct ps_outside *ret)
{
	struct usage_reader *reader = NULL;

	*ret = (struct ps_outside){.n = 0};
	if (!usage_open(&reader) && usage_read(reader, &ret->usage))
		ret->usage = (struct usage_list){.n = 0};
	usage_close(reader);
}

int ps_outside_compare(struct ps_outside *outside, const struct tenants *tenants)
{
	return outsiders_list(&outside->usage, tenants, user_name, &outside->found, &outside->n);
}

void ps_outside_free(struct ps_outside *outside)
{
	usage_free(&outside->usage);
	free(outside->found);
	*outside = (struct ps_outside){.n = 0};
}

/* The title is that of the first column. */
static int ps_outside_print_those(const struct ps_outside *outside, bool unlimited,
				  const char *title, FILE *out)
{
	char columns[96];
	struct table *t;

	snprintf(columns, sizeof(columns), "%s|>PID|USER|CONTAINER|GPU|>DRIVER|>LEDGER|COMMAND",
		 title);
	t = table_new(columns);
	for (size_t i = 0; i < outside->n; i++) {
		const struct outsider_found *f = &outside->found[i];
		const struct outsider *o = &f->outsider;

		if ((o->standing == OUTSIDER_UNLIMITED) != unlimited)
			continue;
		table_cell(t, "%s", *o->tenant ? o->tenant : "-");
		table_cell(t, "%d", o->pid);
		table_cell(t, "%s", f->process.user);
		table_cell(t, "%.12s", f->process.container);
		table_cell(t, "%s", units_uuid_short(o->uuid).s);
		table_cell(t, "%s", o->bytes == UINT64_MAX ? "?" : units_bytes(o->bytes).s);
		table_cell(t, "%s", *o->tenant ? units_bytes(o->ledger_bytes).s : "");
		table_cell(t, "%s", f->process.command);
		if (unlimited)
			table_style(t, TABLE_ALERT);
	}
	return table_end(t, "", out);
}

static size_t ps_outside_unlimited(const struct ps_outside *outside)
{
	size_t n = 0;

	for (size_t i = 0; i < outside->n; i++)
		n += outside->found[i].outsider.standing == OUTSIDER_UNLIMITED;
	return n;
}

int ps_outside_print(const struct ps_outside *outside, const char *runtime, FILE *out)
{
	size_t n = ps_outside_unlimited(outside);
	int r = 0;

	if (n) {
		fprintf(out, "\nin no tenant of %s, or with more than its ledger knows of:\n",
			runtime);
		r = ps_outside_print_those(outside, true, "NOT LIMITED", out);
	}
	if (!r && n < outside->n) {
		fprintf(out, "\nanother user's, with a ledger that cannot be read, or measured by allot:\n");
		r = ps_outside_print_those(outside, false, "NOT SEEN", out);
	}
	return r;
}
