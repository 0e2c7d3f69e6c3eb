/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps/ps_compute.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/now.h"
#include "cli/say/say.h"
#include "cli/say/table.h"
#include "node/compute_words.h"
#include "sched/controller.h"
#include "text/units.h"

/* No kernel lasts an hour: a longer figure is damaged. */
#define ABSURD_NS (3600 * NS_PER_S)

static bool ps_compute_has_shares(const struct tenant_entry *e)
{
	return !e->error && (e->snapshot->policy.compute != POLICY_COMPUTE_OFF ||
			     policy_meters(&e->snapshot->policy));
}

static void ps_compute_put_points(struct table *t, uint32_t bp)
{
	table_cell(t, "%u.%u%%", bp / 100, bp / 10 % 10);
}

static void ps_compute_put_tenant(struct table *t, const struct tenant_entry *e, const char *device)
{
	const struct policy *policy = &e->snapshot->policy;

	table_cell(t, "%s", e->name);
	table_cell(t, "%s", device);
	table_cell(t, "%s", compute_how(policy).s);
	table_cell(t, "%s", policy->mode == POLICY_MODE_TURNS ? "" : compute_modes[policy->mode]);
	table_cell(t, "%s", policy->controller == CONTROLLER_DEFICIT
				    ? ""
				    : controller_by_id(policy->controller)->name);
}

/* For a tenant that used nothing yet, or whose use is not measured. */
static void ps_compute_put_unknown(struct table *t)
{
	for (int i = 0; i < 3; i++)
		table_cell(t, "-");
	table_skip(t, 3);
}

/* The latency that was asked, and what was had: how long work waited for a turn. */
static void ps_compute_put_waits(struct table *t, const struct snapshot *snapshot)
{
	uint64_t asked_us = snapshot->policy.latency_us;
	const struct turn_waits *waits = &snapshot->waits;

	table_cell(t, "%s", asked_us ? units_duration(asked_us * NS_PER_US).s : "");
	table_cell_if(t, waits->n, "%s", units_duration(waits->p50_us * NS_PER_US).s);
	table_cell_if(t, waits->n, "%s", units_duration(waits->p99_us * NS_PER_US).s);
	table_cell_if(t, waits->n, "%s", waits->behind);
}

static void ps_compute_put_device(struct table *t, const struct tenant_entry *e,
				  const struct snapshot_device *d)
{
	const struct snapshot_compute *compute = &d->compute;

	ps_compute_put_tenant(t, e, units_uuid_short(d->uuid).s);
	table_cell(t, "%s",
		   compute->target_permille ? units_permille(compute->target_permille).s : "-");
	table_cell_if(t, compute->units, "%" PRIu32, compute->units);
	/* A tenant's compute units are its own, so its use of them is not measured. */
	if (!tenants_measured(d)) {
		ps_compute_put_unknown(t);
		ps_compute_put_waits(t, e->snapshot);
		return;
	}
	ps_compute_put_points(t, compute->achieved_1s_bp);
	ps_compute_put_points(t, compute->achieved_60s_bp);
	table_cell(t, "%s", units_duration(compute->throttled_ns).s);
	table_cell(t, "%s", compute->debt_ns > 0 ? units_duration((uint64_t)compute->debt_ns).s
						 : "");
	table_cell_if(t, d->milliwatt != DEVICE_TIME_NO_POWER, "%s", units_power(d->milliwatt).s);
	table_cell_if(t, d->energy_uj, "%s", units_energy(d->energy_uj).s);
	ps_compute_put_waits(t, e->snapshot);
}

/* A tenant that used no device yet. */
static void ps_compute_put_idle(struct table *t, const struct tenant_entry *e)
{
	uint32_t share = e->snapshot->policy.device[0].share_permille;

	ps_compute_put_tenant(t, e, "each");
	table_cell(t, "%s", share ? units_permille(share).s : "-");
	table_skip(t, 1);
	ps_compute_put_unknown(t);
	ps_compute_put_waits(t, e->snapshot);
}

int ps_compute(const struct tenants *tenants, FILE *out)
{
	struct table *t =
		table_new("TENANT|GPU|COMPUTE|MODE|CONTROL|>TARGET|>CUS|>1 S|>60 S|>HELD|>DEBT|"
			  ">POWER|>ENERGY|>ASKED|>WAIT P50|>P99|BEHIND");

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (!ps_compute_has_shares(e))
			continue;
		for (int d = 0; d < e->snapshot->ndevices; d++)
			ps_compute_put_device(t, e, &e->snapshot->device[d]);
		if (!e->snapshot->ndevices)
			ps_compute_put_idle(t, e);
	}
	return table_end(t, "\n", out);
}

void ps_compute_note_latency(const char *name, const struct snapshot *snapshot)
{
	uint64_t asked_us = snapshot->policy.latency_us, least_us = snapshot->waits.least_us;

	if (!asked_us || !snapshot->waits.at_ns || least_us <= asked_us)
		return;
	if (least_us == TURN_LATENCY_NONE)
		say_note("tenant \"%s\": no latency can be kept beside a higher priority, or a "
			 "tenant that has turns on other devices, too",
			 name);
	else
		say_note("tenant \"%s\": a latency of %s cannot be kept while all want the device; "
			 "by their kernels and weights %s is the least",
			 name, units_duration(asked_us * NS_PER_US).s,
			 units_duration(least_us * NS_PER_US).s);
}

/* After a unit of work a tenant pauses until it has paid for it, which is a window of its own. */
void ps_compute_notes(const struct tenant_entry *e)
{
	if (!ps_compute_has_shares(e) || e->snapshot->policy.mode == POLICY_MODE_SPACE)
		return;
	ps_compute_note_latency(e->name, e->snapshot);
	for (int d = 0; d < e->snapshot->ndevices; d++) {
		const struct snapshot_device *dev = &e->snapshot->device[d];
		uint64_t target = dev->compute.target_permille, longest = dev->compute.longest_ns;

		if (!target || target == 1000 || longest > ABSURD_NS ||
		    longest * 1000 / target <= NS_PER_S)
			continue;
		say_note("tenant \"%s\" on %s: its longest unit of work took %s, so %s is exact "
			 "over %s and more, not in each second",
			 e->name, units_uuid_short(dev->uuid).s, units_duration(longest).s,
			 units_permille((uint32_t)target).s,
			 units_duration(longest * 1000 / target).s);
	}
}
