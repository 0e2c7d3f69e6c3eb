/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot doctor: finds faults of this machine, and says what to do. One line a finding: ok, warn
 * (allot works, something is worth knowing) or FAIL (it will not); below it what to do. Exit status
 * 1 when anything failed.
 */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd/command.h"
#include "cli/doctor/criu.h"
#include "cli/doctor/daemon.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/gpus.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/settings.h"
#include "cli/say/arguments.h"
#include "cli/say/say.h"
#include "cli/tenant/dmem.h"
#include "cli/tenant/program.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/space.h"
#include "cli/tenant/sweep.h"
#include "ledger/tenant.h"
#include "node/tenants.h"
#include "text/units.h"

static const struct argp_option options[] = {
	{"sweep", 's', NULL, 0, "remove files of tenants that ended", 0},
	{0},
};

struct args {
	bool sweep;
	char **command;
};

static error_t doctor_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 's':
		a->sweep = true;
		return 0;
	case ARGP_KEY_ARG:
		a->command = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = doctor_parse_option,
	.args_doc = "[-- COMMAND...]",
	.doc = "Say what is wrong on this machine and what to do; with COMMAND, say if allot can "
	       "limit it.\v"
	       "Exit status: 0, or 1 if anything is wrong.\n",
};

static int doctor_sweep_tenant(const char *name, const char *dir, void *runtime)
{
	int r = tenants_remove(runtime, name, true);
	char what[PATH_MAX + 128];

	if (r == -EBUSY || r == -ENOENT)
		return 0;
	if (r < 0)
		snprintf(what, sizeof(what), "tenant %s (%s) cannot be removed: %s", name, dir,
			 tenants_error_words(r));
	else
		snprintf(what, sizeof(what), "tenant %s removed", name);
	finding_say(r < 0 ? FINDING_FAIL : FINDING_OK,
		    r < 0 ? "remove it: allot rm NAME, or its directory with rm -r" : NULL, "%s",
		    what);
	return 0;
}

static void doctor_sweep(char *runtime)
{
	tenant_list(runtime, doctor_sweep_tenant, runtime);
	dmem_sweep(runtime, SWEEP_GRACE_S);
}

static void doctor_check_tenants(const struct tenants *tenants)
{
	unsigned int live = 0, idle = 0;
	bool others = false;

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (tenants_is_anothers(e)) {
			others = true;
		} else if (e->error) {
			finding_say(FINDING_FAIL,
				    "end its processes, then remove it: allot rm NAME",
				    "tenant %s (%s): %s", e->name, e->dir,
				    tenants_error_words(e->error));
		} else if (tenants_live(e->snapshot)) {
			live++;
		} else {
			idle++;
		}
	}
	finding_say(FINDING_OK, NULL, "%u tenant%s with processes that use a GPU, %u without%s",
		    live, live == 1 ? "" : "s", idle,
		    others ? "; other users' can be seen by root alone" : "");
}

/*
 * The MPS daemon that tenants in mode space need. Says nothing where there is no such tenant and no
 * daemon.
 */
static void doctor_check_space(const struct tenants *tenants)
{
	unsigned int n = 0, live = 0;
	char what[PATH_MAX + 128];
	int r;

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (e->error || e->snapshot->policy.mode != POLICY_MODE_SPACE)
			continue;
		n++;
		live += tenants_live(e->snapshot) != 0;
	}
	if (space_sweep(tenants->runtime))
		finding_say(FINDING_OK, NULL,
			    "MPS daemon without tenants in mode space: told to quit");
	if (!n)
		return;
	r = space_daemon(tenants->runtime);
	snprintf(what, sizeof(what), "%s %s/.mps, for %u tenant%s in mode space",
		 !r		    ? "MPS daemon in"
		 : r == -ETIMEDOUT ? "the MPS daemon does not answer in"
				    : "no MPS daemon in",
		 tenants->runtime, n, n == 1 ? "" : "s");
	if (!r)
		finding_say(FINDING_OK, NULL, "%s", what);
	else
		finding_say(live || r == -ETIMEDOUT ? FINDING_FAIL : FINDING_WARN,
			    r == -ETIMEDOUT ? "end it; the next allot run starts another"
					    : "their programs get no GPU until allot run starts "
					      "one; those that ran must be started again",
			    "%s", what);
}

static void doctor_check_program(const char *command)
{
	struct program program;
	int r = program_examine(command, &program);

	if (r < 0) {
		finding_say(FINDING_FAIL, "check its path, its permissions and PATH",
			    "%s cannot be run: %s", command, say_errno(r));
	} else if (program.kind != PROGRAM_OK) {
		finding_say(FINDING_FAIL,
			    "use a dynamically linked build for this system's libc, without "
			    "setuid, setgid or capabilities",
			    "%s would escape its quota: %s %s", command, program.path,
			    program_kind_words(program.kind));
	} else {
		finding_say(FINDING_OK, NULL, "%s can be limited (%s)", command, program.path);
	}
}

int cmd_doctor(int argc, char **argv)
{
	struct args a = {.sweep = false};
	char runtime[PATH_MAX];
	struct tenants tenants;
	bool unreadable = false;

	arguments_parse(&argp, argc, argv, ARGP_IN_ORDER, &a);
	finding_say(FINDING_OK, NULL, "allot " ALLOT_VERSION);
	gpus_check();
	machine_check_library();
	machine_check_kernel();
	criu_report();
	settings_check();
	if (a.command)
		doctor_check_program(a.command[0]);
	if (runtime_find(runtime) < 0)
		return 1;
	if (!runtime_is_roots(runtime))
		machine_check_runtime_dir(runtime);
	daemon_check(runtime);
	if (a.sweep)
		doctor_sweep(runtime);
	if (!runtime_load_tenants(&tenants)) {
		doctor_check_tenants(&tenants);
		doctor_check_space(&tenants);
		tenants_free(&tenants);
	} else {
		unreadable = true;
	}
	return unreadable || finding_failed();
}
