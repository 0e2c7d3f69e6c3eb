/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out/ps_swap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "cli/out/table.h"
#include "text/units.h"

static bool ps_swap_is_one(const struct tenant_entry *e)
{
	return !e->error && (e->snapshot->policy.flags & POLICY_SWAPPABLE);
}

struct ps_swap ps_swap_of(const struct tenant_entry *tenant)
{
	const struct snapshot *s = tenant->snapshot;
	struct ps_swap swap = {.out_ns = snapshot_swap_ns(s, true),
			       .back_ns = snapshot_swap_ns(s, false)};

	for (int d = 0; d < s->ndevices; d++) {
		swap.resident_bytes += s->device[d].used[CAT_DATA];
		swap.host_bytes += s->device[d].out_bytes;
	}
	for (int i = 0; i < s->nprocesses; i++)
		if (s->process[i].live)
			swap.waiting += s->process[i].waiting;
	return swap;
}

static void ps_swap_put_ns(struct table *t, uint64_t ns)
{
	table_cell(t, "%s", ns ? units_duration(ns).s : "-");
}

static void ps_swap_put(struct table *t, const struct tenant_entry *e)
{
	struct ps_swap swap = ps_swap_of(e);

	table_cell(t, "%s", e->name);
	table_cell(t, "%s", e->snapshot->policy.flags & POLICY_OVERCOMMIT ? "turns" : "");
	table_cell(t, "%s", tenants_state_word(e));
	table_cell(t, "%s", units_bytes(swap.resident_bytes).s);
	table_cell(t, "%s", units_bytes(swap.host_bytes).s);
	ps_swap_put_ns(t, swap.out_ns);
	ps_swap_put_ns(t, swap.back_ns);
	if (swap.waiting)
		table_cell(t, "%" PRIu64, swap.waiting);
	else
		table_cell(t, "%s", "");
}

int ps_swap(const struct tenants *tenants, FILE *out)
{
	struct table *t = table_new("TENANT|SWAPS|MEMORY|>ON DEVICE|>ON HOST|>LEAVES IN|>BACK IN|>WAIT");
	bool any = false;
	int r = 0;

	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < tenants->n; i++) {
		if (!ps_swap_is_one(&tenants->list[i]))
			continue;
		any = true;
		ps_swap_put(t, &tenants->list[i]);
	}
	if (any) {
		putc('\n', out);
		r = table_print(t, out);
	}
	table_free(t);
	return r;
}
