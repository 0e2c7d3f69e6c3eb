/* SPDX-License-Identifier: Apache-2.0 */
/* allot ps: shows tenants, their quotas and their use, once. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "cli/cmd/command.h"
#include "cli/device/limits.h"
#include "cli/ps/ps_compute.h"
#include "cli/ps/ps_json.h"
#include "cli/ps/ps_outside.h"
#include "cli/ps/ps_swap.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/say/table.h"
#include "cli/tenant/place.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/sweep.h"
#include "ledger/tenant.h"
#include "node/apart.h"
#include "node/ended.h"
#include "node/figures.h"
#include "node/tenants.h"
#include "text/units.h"

static const struct argp_option options[] = {
	{"json", 'j', NULL, 0, "print JSON, as docs/json.md describes it", 0},
	{"ended", 'e', NULL, 0, "instead, show the last figures of tenants that ended", 0},
	{0},
};

struct args {
	bool json, ended;
	char **names;
	int nnames;
};

static error_t ps_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case 'e':
		a->ended = true;
		return 0;
	case ARGP_KEY_ARGS:
		a->names = state->argv + state->next;
		a->nnames = state->argc - state->next;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = ps_parse_option,
	.args_doc = "[NAME...]",
	.doc = "Show tenants: quota, use by category, the driver's own figure, refusals; use of "
	       "compute; processes. Then the processes that use a device outside of all tenants.",
};

/* An empty cell where there is nothing, so that columns that nobody needs go away. */
static void ps_put_bytes(struct table *t, uint64_t bytes)
{
	table_cell(t, "%s", bytes ? units_bytes(bytes).s : "");
}

/* "~520 MiB": by a guess. */
static const char *ps_about(const struct snapshot_device *d)
{
	return d->guessed_bytes ? "~" : "";
}

static void ps_put_categories(struct table *t, const struct snapshot_device *d)
{
	for (int c = 0; c < CAT_N; c++)
		if (c == CAT_CONTEXT && d->guessed_bytes)
			table_cell(t, "~%s", units_bytes(d->used[c]).s);
		else
			ps_put_bytes(t, d->used[c]);
}

static void ps_put_index(struct table *t, const uint8_t uuid[16])
{
	int index = figures_index(uuid);

	table_cell_if(t, index >= 0, "%d", index);
}

static void ps_put_name(struct table *t, const struct tenant_entry *e)
{
	table_cell(t, "%s", e->name);
	table_cell(t, "%s", place_user_words(e->name).s);
}

static void ps_put_device(struct table *t, const struct tenant_entry *e,
			  const struct snapshot_device *d)
{
	ps_put_name(t, e);
	table_cell(t, "%s", tenants_state_word(e));
	ps_put_index(t, d->uuid);
	table_cell(t, "%s", units_uuid_short(d->uuid).s);
	table_cell(t, "%s", d->limit_bytes ? units_bytes(d->limit_bytes).s : "none");
	table_cell(t, "%s%s", ps_about(d), units_bytes(d->used_bytes).s);
	if (d->limit_bytes)
		table_cell(t, "%u%%",
			   (unsigned int)((double)d->used_bytes * 100 / (double)d->limit_bytes));
	else
		table_cell(t, "-");
	ps_put_bytes(t, d->driver_bytes);
	table_cell(t, "%" PRIu64, d->refusals);
	ps_put_categories(t, d);
	ps_put_bytes(t, d->host_bytes + d->out_bytes);
	if (d->absurd || (d->limit_bytes && d->used_bytes > d->limit_bytes))
		table_style(t, TABLE_ALERT);
}

/* A tenant that used no device yet. */
static void ps_put_idle(struct table *t, const struct tenant_entry *e)
{
	ps_put_name(t, e);
	table_cell(t, "%s", tenants_state_word(e));
	table_skip(t, 1);
	table_cell(t, "each");
	table_cell(t, "%s", limits_words(&e->snapshot->policy.device[0]).s);
	table_cell(t, "0");
	table_cell(t, "0%%");
	table_skip(t, 1);
	table_cell(t, "0");
	table_skip(t, CAT_N + 1); /* and the host's */
}

/* Of another user: that it is there, and its quota. */
static void ps_put_foreign(struct table *t, const struct tenant_entry *e)
{
	struct policy policy;

	ps_put_name(t, e);
	table_cell(t, "-");
	table_skip(t, 1);
	table_cell(t, "-");
	table_cell(t, "%s", policy_load(e->dir, &policy) < 0 ? "?"
							     : limits_words(&policy.device[0]).s);
	table_cell(t, "-");
	table_cell(t, "-");
	table_skip(t, 1);
	table_cell(t, "-");
	table_skip(t, CAT_N + 1);
}

static int ps_print_devices(const struct tenants *tenants)
{
	struct table *t = table_new("TENANT|USER|STATE|>#|GPU|>QUOTA|>USED|>|>DRIVER|>REFUSED|>CONTEXT|>MODULE|"
				    ">DATA|>POOL|>ARRAY|>GRAPH|>IMPORTED|>HOST");

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (tenants_is_anothers(e))
			ps_put_foreign(t, e);
		if (e->error)
			continue;
		for (int d = 0; d < e->snapshot->ndevices; d++)
			ps_put_device(t, e, &e->snapshot->device[d]);
		if (!e->snapshot->ndevices)
			ps_put_idle(t, e);
	}
	return table_end(t, "", stdout);
}

static bool ps_has_gtt(const struct snapshot *s)
{
	return s->host.limit_bytes || s->host.used_bytes || s->host.refusals;
}

/* Prints what AMD's GPUs have pinned of the machine's memory. */
static int ps_print_gtt(const struct tenants *tenants)
{
	struct table *t = table_new("TENANT|>GTT QUOTA|>PINNED|>GTT|>USERPTR|>REFUSED");

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (e->error || !ps_has_gtt(e->snapshot))
			continue;
		table_cell(t, "%s", e->name);
		table_cell(t, "%s", limits_gtt_words(&e->snapshot->policy).s);
		ps_put_bytes(t, e->snapshot->host.used_bytes);
		ps_put_bytes(t, e->snapshot->host.gtt_bytes);
		ps_put_bytes(t, e->snapshot->host.userptr_bytes);
		table_cell(t, "%" PRIu64, e->snapshot->host.refusals);
	}
	return table_end(t, "\n", stdout);
}

/* Prints the Pods of tenants that Kubernetes asked for. */
static int ps_print_pods(const struct tenants *tenants)
{
	struct table *t = table_new("TENANT|POD|UID");
	char words[POD_WORDS_BYTES];

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		pod_words(&e->pod, words);
		if (!*words)
			continue;
		table_cell(t, "%s", e->name);
		table_cell(t, "%s", words);
		table_cell(t, "%s", e->pod.uid);
	}
	return table_end(t, "\n", stdout);
}

static void ps_put_process(struct table *t, const struct tenant_entry *e,
			   const struct snapshot_process *p, const struct snapshot_device *device,
			   const struct snapshot_process_device *use)
{
	table_cell(t, "%s", e->name);
	table_cell(t, "%" PRIu32, p->info.pid);
	if (p->host_pid)
		table_cell_if(t, p->host_pid != p->info.pid, "%" PRIu32, p->host_pid);
	else
		table_cell(t, "?");
	table_cell(t, "%s", device ? units_uuid_short(device->uuid).s : "-");
	table_cell(t, "%s%s", use && use->used[CAT_CONTEXT] ? ps_about(device) : "",
		   use ? units_bytes(use->used_bytes).s : "0");
	ps_put_bytes(t, use ? use->shared_bytes : 0);
	ps_put_bytes(t, use ? use->driver_bytes : 0);
	ps_put_bytes(t, use ? use->host_bytes + use->out_bytes : 0);
	table_cell(t, "%s", *p->info.command ? p->info.command : p->info.comm);
}

/* A process appears once for each device that it uses, and once with none if it uses none. */
static void ps_put_processes(struct table *t, const struct tenant_entry *e,
			     const struct snapshot_process *p)
{
	bool any = false;

	for (int d = 0; d < e->snapshot->ndevices; d++) {
		const struct snapshot_process_device *use = &p->device[d];

		if (!use->used_bytes && !use->shared_bytes && !use->driver_bytes &&
		    !use->host_bytes && !use->out_bytes)
			continue;
		ps_put_process(t, e, p, &e->snapshot->device[d], use);
		any = true;
	}
	if (!any)
		ps_put_process(t, e, p, NULL, NULL);
}

static int ps_print_processes(const struct tenants *tenants)
{
	struct table *t = table_new("TENANT|>PID|>HOST PID|GPU|"
				    ">USED|>SHARED|>DRIVER|>HOST|COMMAND");

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		for (int p = 0; !e->error && p < e->snapshot->nprocesses; p++)
			if (e->snapshot->process[p].live)
				ps_put_processes(t, e, &e->snapshot->process[p]);
	}
	return table_end(t, "\n", stdout);
}

/* One command line may be for several machines, so this is no error; but the device is the limit. */
static void ps_note_excess(const struct tenant_entry *e, const struct snapshot_device *d)
{
	const struct policy_device *asked = policy_find(&e->snapshot->policy, d->uuid);

	if (asked && d->total_bytes && asked->limit_bytes > d->total_bytes)
		say_note("tenant \"%s\" on %s: its quota of %s is more than the device has", e->name,
			 units_uuid(d->uuid).s, units_bytes(asked->limit_bytes).s);
}

/* Tenants that the tables cannot show as they are, and why. */
static void ps_note_trouble(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (tenants_is_anothers(e))
			continue;
		if (e->error) {
			say_note("tenant \"%s\" (%s) cannot be read: %s", e->name, e->dir,
				 tenants_error_words(e->error));
			continue;
		}
		ps_compute_notes(e);
		for (int d = 0; d < e->snapshot->ndevices; d++)
			if (e->snapshot->device[d].absurd)
				say_note("tenant \"%s\" on %s: its ledger holds an impossible "
					 "figure, so it counts as full; end its processes",
					 e->name, units_uuid(e->snapshot->device[d].uuid).s);
		for (int d = 0; d < e->snapshot->ndevices; d++)
			ps_note_excess(e, &e->snapshot->device[d]);
	}
}

/* In a simulation: whether a tenant uses devices, and all of them are of other ones. */
static bool ps_is_elsewhere(const struct tenant_entry *e)
{
	if (!getenv("ALLOT_SIM_DIR") || e->error || !e->snapshot->ndevices)
		return false;
	for (int d = 0; d < e->snapshot->ndevices; d++)
		if (figures_index(e->snapshot->device[d].uuid) >= 0)
			return false;
	return true;
}

/* A user's own without its "@UID", too, and root's any user's with that user's name. */
static bool ps_is_called(const char *name, const char *asked)
{
	size_t plain = strcspn(name, "@");
	uid_t owner;

	if (!strcmp(name, asked))
		return true;
	if (!tenant_name_owner(name, &owner) || strncmp(name, asked, plain))
		return false;
	return asked[plain] == '@' ? !strcmp(asked + plain + 1, place_user_words(name).s)
				   : !asked[plain] && owner == geteuid();
}

/* Keeps only the named tenants, in the runtime directory's order. */
static int ps_keep_named(struct tenants *tenants, const struct args *a)
{
	size_t n = 0;

	for (int k = 0; k < a->nnames; k++) {
		bool found = false;

		for (size_t i = 0; i < tenants->n; i++)
			found |= ps_is_called(tenants->list[i].name, a->names[k]);
		if (!found)
			return say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them",
					 a->names[k], tenants->runtime);
	}
	for (size_t i = 0; i < tenants->n; i++) {
		bool wanted = !a->nnames && !ps_is_elsewhere(&tenants->list[i]);

		for (int k = 0; k < a->nnames; k++)
			wanted |= ps_is_called(tenants->list[i].name, a->names[k]);
		if (wanted)
			tenants->list[n++] = tenants->list[i];
		else
			snapshot_free(tenants->list[i].snapshot);
	}
	tenants->n = n;
	return 0;
}

static bool ps_is_named(const struct args *a, const char *name)
{
	for (int k = 0; k < a->nnames; k++)
		if (!strcmp(a->names[k], name))
			return true;
	return !a->nnames;
}

static void ps_put_ended(struct table *t, const struct ended *e)
{
	struct tm tm;
	time_t end = (time_t)e->ended_s;
	char when[32] = "?";

	if (localtime_r(&end, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	table_cell(t, "%s", e->name);
	table_cell(t, "%s", when);
	table_cell(t, "%s", e->ended_s < e->began_s
				    ? "?"
				    : units_duration((uint64_t)(e->ended_s - e->began_s) * NS_PER_S).s);
	table_cell(t, "%s", e->used ? units_uuid_short(e->uuid).s : "none");
	table_cell(t, "%s", !e->used ? "" : e->limit_bytes ? units_bytes(e->limit_bytes).s : "none");
	table_cell(t, "%s", e->used ? units_bytes(e->peak_bytes).s : "");
	table_cell(t, "%s", e->busy_ns ? units_duration(e->busy_ns).s : "");
	table_cell(t, "%" PRIu64, e->refusals);
}

static int ps_print_ended(const struct args *a, const char *runtime)
{
	struct ended *list = NULL;
	int n = ended_read(runtime, &list), shown = 0, r = 0;
	struct table *t;

	if (n < 0)
		return say_error("cannot read what ended in %s: %s", runtime, say_errno(n));
	t = table_new("TENANT|ENDED|>LASTED|GPU|>QUOTA|>PEAK|>BUSY|>REFUSED");
	for (int i = 0; i < n; i++) {
		if (!ps_is_named(a, list[i].name))
			continue;
		ps_put_ended(t, &list[i]);
		shown++;
	}
	if (table_end(t, "", stdout) < 0)
		r = say_error("out of memory for the table");
	else if (!shown)
		printf("no tenant that ended is remembered in %s\n", runtime);
	free(list);
	return r;
}

int cmd_ps(int argc, char **argv)
{
	struct args a = {.json = false};
	struct ps_outside outside;
	struct tenants tenants;
	int r;

	arguments_parse(&argp, argc, argv, 0, &a);
	ps_outside_look(&outside);
	if (runtime_load_tenants(&tenants) < 0)
		return EXIT_ALLOT;
	if (apart_add_users(&tenants, &outside.usage) < 0 ||
	    ps_outside_compare(&outside, &tenants) < 0)
		return say_error("out of memory for the list of processes");
	figures_apply(&tenants);
	if (a.json)
		tenants_find_containers(&tenants);
	sweep_runtime(tenants.runtime);
	r = a.ended ? 0 : ps_keep_named(&tenants, &a);
	if (a.ended && a.json) {
		r = ps_json_ended(tenants.runtime, stdout);
	} else if (a.ended) {
		r = ps_print_ended(&a, tenants.runtime);
	} else if (!r && a.json) {
		ps_json(&tenants, &outside, stdout);
	} else if (!r && !tenants.n) {
		printf("no tenants in %s\n", tenants.runtime);
	} else if (!r) {
		if (ps_print_devices(&tenants) < 0 || ps_print_gtt(&tenants) < 0 ||
		    ps_print_pods(&tenants) < 0 || ps_compute(&tenants, stdout) < 0 ||
		    ps_swap(&tenants, stdout) < 0 || ps_print_processes(&tenants) < 0)
			r = say_error("out of memory for the table");
		ps_note_trouble(&tenants);
	}
	if (!r && !a.ended && !a.json && !a.nnames &&
	    ps_outside_print(&outside, tenants.runtime, stdout) < 0)
		r = say_error("out of memory for the table");
	ps_outside_free(&outside);
	tenants_free(&tenants);
	return r;
}
