/* SPDX-License-Identifier: Apache-2.0 */
/* allot set: changes a tenant's limits, running or not. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "cli/cmd/command.h"
#include "cli/device/limits.h"
#include "cli/ps/ps_compute.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/dmem.h"
#include "cli/tenant/options.h"
#include "cli/tenant/place.h"
#include "cli/tenant/remote.h"
#include "cli/tenant/space.h"
#include "ledger/role/residency_file.h"
#include "ledger/tenant.h"
#include "node/compute_words.h"
#include "node/tenants.h"
#include "roles/arbiter_host.h"
#include "text/units.h"

enum { KEY_TRACE = 256 };

static const struct argp_option options[] = {
	{"trace", KEY_TRACE, "on|off", 0, "record what its processes decide, for \"allot trace\"", 0},
	{0},
};

struct args {
	const char *name;
	struct tenant_options tenant;
};

static error_t set_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->tenant;
		return 0;
	case KEY_TRACE:
		return tenant_options_take_trace(arg, &a->tenant);
	case ARGP_KEY_ARG:
		arguments_take_tenant(state, arg, &a->name);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&tenant_options_argp}, {0}};

static const struct argp argp = {
	.options = options,
	.children = children,
	.parser = set_parse_option,
	.args_doc = "NAME",
	.doc = "Change a tenant's quota or share of compute at once.\v"
	       "Options that are not given stay as they are. A quota below the tenant's use takes "
	       "no memory away: new allocations are refused until the use is below the quota.\n"
	       "\n"
	       "  allot set jobA --memory 12GiB\n"
	       "  allot set jobA --compute 40 --priority high\n",
};

struct change {
	const struct tenant_options *options;
	const char *name;
	unsigned int live; /* processes that use a GPU */
	bool refused;	   /* set_edit_policy() said why */
	struct policy before, after;
};

/* A process is under MPS or not for all its life. */
static int set_refuse_mode(const struct change *c, enum policy_mode mode)
{
	return say_fail(-EBUSY, "tenant \"%s\" is running (%u process%s) in mode %s, and programs "
			"cannot go over to mode %s while they run; end them first", c->name,
			c->live, c->live == 1 ? "" : "es", compute_modes[c->before.mode],
			compute_modes[mode]);
}

static unsigned int set_count_live(const char *dir)
{
	struct snapshot *snapshot;
	unsigned int n;

	if (snapshot_read(dir, &snapshot) < 0)
		return 0;
	n = tenants_live(snapshot);
	snapshot_free(snapshot);
	return n;
}

/*
 * A library from before idle_s refuses the whole policy, and its process has a quota of 0 then. A
 * tenant that was started with it has no such process; of another one that is not known.
 */
static int set_check_idle(const struct change *c, const struct policy *policy)
{
	if (!c->options->idle_s || policy->idle_s)
		return 0;
	if (!(policy->flags & POLICY_OVERCOMMIT))
		say_error("--idle-suspend: tenant \"%s\" does not overcommit, and nobody would bring it "
			  "back; end its processes and start them with \"allot run --overcommit\"",
			  c->name);
	else
		say_error("--idle-suspend: tenant \"%s\" runs without it, and a process with an older "
			  "allot's library would not understand it; end its processes and start them "
			  "with \"allot run --idle-suspend\"",
			  c->name);
	return -EINVAL;
}

static int set_edit_policy(struct policy *policy, void *arg)
{
	struct change *c = arg;
	int r;

	c->before = *policy;
	r = set_check_idle(c, policy);
	if (!r)
		r = tenant_options_apply(c->options, policy);
	if (!r && policy->mode != c->before.mode && c->live)
		r = set_refuse_mode(c, policy->mode);
	c->refused = r < 0;
	c->after = *policy;
	return r;
}

static struct units_text set_idle_words(const struct policy *policy)
{
	return policy->idle_s ? units_duration(policy->idle_s * NS_PER_S) : (struct units_text){"off"};
}

/* Which of the tenant's devices use more than they now may. */
static void set_report_excess(const char *dir)
{
	struct snapshot *snapshot;

	if (snapshot_read(dir, &snapshot) < 0)
		return;
	for (int i = 0; i < snapshot->ndevices; i++) {
		const struct snapshot_device *d = &snapshot->device[i];

		if (d->limit_bytes && d->used_bytes > d->limit_bytes)
			printf("  %s uses %s, above its new quota: nothing is taken away, new "
			       "allocations are refused until it falls below %s\n",
			       units_uuid(d->uuid).s, units_bytes(d->used_bytes).s,
			       units_bytes(d->limit_bytes).s);
	}
	snapshot_free(snapshot);
}

static void set_note_excess(const struct args *a, const struct policy *policy)
{
	static struct devices devices;

	if (!(a->tenant.said & TENANT_MEMORY))
		return;
	devices_read(&devices);
	limits_note_excess(policy, &devices);
}

/* The kernel's own limit on AMD GPUs' memory, where there is one. */
static void set_change_kernels_limit(const struct place *place, const struct args *a,
				     const struct policy *policy)
{
	static struct devices amd;
	unsigned int kept = 0;
	int r;

	if (!(a->tenant.said & TENANT_MEMORY) || !dmem_offered())
		return;
	devices_read_amd(&amd);
	r = dmem_apply(place->runtime, place->name, policy, &amd, &kept);
	if (r < 0)
		say_note("warning: the kernel keeps to the old quota of tenant \"%s\" (dmem.max): "
			 "%s; the new one holds for programs that allot can limit",
			 a->name, say_errno(r));
	if (kept)
		printf("  the kernel keeps to the old quota (dmem.max) as long as more than the "
		       "new one is in use; say it again then\n");
}

static void set_report_change(const struct args *a, const struct change *c)
{
	static const char *const words[] = {"off", "on"};

	if (a->tenant.said & TENANT_TRACE)
		printf("%s: trace %s -> %s\n", a->name, words[c->before.trace], words[c->after.trace]);
	if (a->tenant.said & TENANT_GTT)
		printf("%s: gtt %s -> %s\n", a->name, limits_gtt_words(&c->before).s, limits_gtt_words(&c->after).s);
	if (a->tenant.said & TENANT_IDLE_SUSPEND)
		printf("%s: idle-suspend %s -> %s\n", a->name, set_idle_words(&c->before).s,
		       set_idle_words(&c->after).s);
	for (unsigned int i = 0; i < c->after.ndevices; i++) {
		bool all = (c->after.flags & POLICY_ALL_DEVICES) && i == 0;
		struct units_text uuid = units_uuid(c->after.device[i].uuid);
		const char *device = all ? "each device" : uuid.s;

		if (a->tenant.said & TENANT_MEMORY)
			printf("%s %s: %s -> %s\n", a->name, device,
			       limits_words(&c->before.device[i]).s,
			       limits_words(&c->after.device[i]).s);
		if (a->tenant.said & ~(unsigned int)(TENANT_MEMORY | TENANT_TRACE | TENANT_GTT |
						       TENANT_IDLE_SUSPEND))
			printf("%s %s: compute %s -> %s\n", a->name, device,
			       compute_words(&c->before, i).s, compute_words(&c->after, i).s);
	}
}

/* The arbiter looks at a changed policy with its next step; nobody arbitrates where none answers. */
#define LATENCY_TRIES 20
#define LATENCY_NAP_US 10000

static void set_note_latency(const struct args *a, const char *dir, uint64_t since_ns)
{
	struct snapshot *snapshot;
	bool told = false;

	if (!(a->tenant.said & TENANT_LATENCY))
		return;
	for (int i = 0; i < LATENCY_TRIES && !told; i++) {
		if (snapshot_read(dir, &snapshot) < 0)
			return;
		told = snapshot->waits.at_ns > since_ns;
		if (told)
			ps_compute_note_latency(a->name, snapshot);
		snapshot_free(snapshot);
		usleep(LATENCY_NAP_US);
	}
}

/* If another process changes it, too, the change is computed again. */
#define TRIES 16

/* As set_edit_policy(), but allotd puts the result in force. */
static int set_change_remotely(const struct place *place, struct change *c)
{
	int r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		r = policy_load(place->dir, &c->after);
		if (r == 0)
			r = set_edit_policy(&c->after, c);
		if (r < 0)
			return r;
		r = remote_set(place->runtime, place->name, &c->before, &c->after, c->options);
	}
	c->refused = r < 0 && r != -EAGAIN;
	return r == -EAGAIN ? -EBUSY : r;
}

int cmd_set(int argc, char **argv)
{
	static struct args a;
	static struct change change = {.options = &a.tenant};
	static struct place place;
	const char *runtime = place.runtime, *dir = place.dir;
	uint64_t since_ns = now_monotonic_ns();
	pid_t pid;
	int r;

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.name)
		return say_error("which tenant? write: allot set jobA --memory 12GiB (\"allot ps\" "
				 "lists them)");
	if (!a.tenant.said)
		return say_error(
			"nothing to change for tenant \"%s\"; write: allot set %s --memory "
			"12GiB, or --compute 25",
			a.name, a.name);
	if (place_find(a.name, &place) < 0)
		return EXIT_ALLOT;
	/* A tenant that ended may still have files; they would take the change, and be removed. */
	if (access(dir, F_OK) < 0 || (!place.remote && tenants_state(dir, &pid) == TENANT_ENDED))
		return say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them", a.name,
				 runtime);
	change.name = a.name;
	change.live = set_count_live(dir);
	r = place.remote ? set_change_remotely(&place, &change)
			 : policy_update(dir, set_edit_policy, &change);
	if (change.refused)
		return EXIT_ALLOT;
	if (r < 0)
		return say_error("cannot change the policy of tenant \"%s\" (%s): %s%s", a.name,
				 dir, tenants_error_words(r),
				 r == -EBUSY ? "; another allot set is at work, try again" : "");
	set_report_change(&a, &change);
	set_note_excess(&a, &change.after);
	tenant_options_note_unused(&a.tenant, &change.after);
	set_report_excess(dir);
	set_change_kernels_limit(&place, &a, &change.after);
	residency_file_tell(runtime); /* its quota counts, */
	arbiter_host_announce(runtime); /* and so does its share */
	set_note_latency(&a, dir, since_ns);
	if (change.live)
		space_report(&change.before, &change.after);
	return 0;
}
