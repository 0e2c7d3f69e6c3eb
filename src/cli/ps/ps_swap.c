/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps/ps_swap.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/now.h"
#include "cli/say/table.h"
#include "node/moved.h"
#include "text/units.h"

static bool ps_swap_is_one(const struct tenant_entry *e)
{
	return !e->error && (e->snapshot->policy.flags & POLICY_SWAPPABLE);
}

static void ps_swap_put_ns(struct table *t, uint64_t ns)
{
	table_cell(t, "%s", ns ? units_duration(ns).s : "-");
}

static void ps_swap_put_how(struct table *t, const struct policy *policy)
{
	if (policy->idle_s)
		table_cell(t, "turns, idle %s", units_duration(policy->idle_s * NS_PER_S).s);
	else
		table_cell(t, "%s", policy->flags & POLICY_OVERCOMMIT ? "turns" : "");
}

/* Returns true if it waits for memory of a tenant that has no room on the host. */
static bool ps_swap_put(struct table *t, const struct tenant_entry *e)
{
	struct moved moved = moved_of(e);

	table_cell(t, "%s", e->name);
	ps_swap_put_how(t, &e->snapshot->policy);
	table_cell(t, "%s", tenants_state_word(e));
	table_cell(t, "%s", units_bytes(moved.resident_bytes).s);
	table_cell(t, "%s", units_bytes(moved.host_bytes).s);
	table_cell(t, "%s", *e->snapshot->policy.swap_dir ? units_bytes(moved.file_bytes).s : "");
	ps_swap_put_ns(t, moved.out_ns);
	ps_swap_put_ns(t, moved.back_ns);
	table_cell_if(t, moved.waiting, "%" PRIu64, moved.waiting);
	return moved_waits_for_host(e, &moved);
}

int ps_swap(const struct tenants *tenants, FILE *out)
{
	struct table *t = table_new("TENANT|SWAPS|MEMORY|>ON DEVICE|>ON HOST|>ON DISK|>LEAVES IN|>BACK IN|>WAIT");
	bool full = false;
	int r;

	for (size_t i = 0; i < tenants->n; i++)
		if (ps_swap_is_one(&tenants->list[i]))
			full |= ps_swap_put(t, &tenants->list[i]);
	r = table_end(t, "\n", out);
	if (r == 0 && full)
		fputs("\nWho waits does so since the host has no room for what is to leave the device: end or "
		      "suspend others,\nor start tenants with --swap-dir or a larger --host-memory.\n",
		      out);
	return r;
}
