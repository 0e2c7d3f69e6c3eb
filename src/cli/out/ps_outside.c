/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out/ps_outside.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/out/table.h"
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

int ps_outside_print(const struct ps_outside *outside, const char *runtime, FILE *out)
{
	struct table *t;
	int r;

	if (!outside->n)
		return 0;
	t = table_new("NOT LIMITED|>PID|USER|CONTAINER|GPU|>DRIVER|>LEDGER|COMMAND");
	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < outside->n; i++) {
		const struct outsider_found *f = &outside->found[i];
		const struct outsider *o = &f->outsider;

		table_cell(t, "%s", *o->tenant ? o->tenant : "-");
		table_cell(t, "%d", o->pid);
		table_cell(t, "%s", f->process.user);
		table_cell(t, "%.12s", f->process.container);
		table_cell(t, "%s", units_uuid_short(o->uuid).s);
		table_cell(t, "%s", o->bytes == UINT64_MAX ? "?" : units_bytes(o->bytes).s);
		table_cell(t, "%s", *o->tenant ? units_bytes(o->ledger_bytes).s : "");
		table_cell(t, "%s", f->process.command);
		table_style(t, TABLE_ALERT);
	}
	fprintf(out, "\nin no tenant of %s, or with more than its ledger knows of:\n", runtime);
	r = table_print(t, out);
	table_free(t);
	return r;
}
