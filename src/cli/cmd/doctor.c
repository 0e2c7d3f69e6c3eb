/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot doctor: what is wrong on this machine and what to do. One line a finding: ok, warn (allot
 * works, something is worth knowing) or FAIL (it will not); below it what to do. Exit status 1 when
 * anything failed.
 */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/doctor/doctor.h"
#include "cli/exec/program.h"
#include "cli/exec/space.h"
#include "cli/out/say.h"
#include "cli/out/units.h"
#include "cli/tenant/dmem.h"
#include "cli/tenant/runtime.h"
#include "cli/tenant/tenants.h"
#include "ledger/tenant.h"

static const struct argp_option options[] = {
	{"sweep", 's', NULL, 0, "remove tenants that no process uses", 0},
	{0},
};

struct args {
	bool sweep;
	char **command;
};

static error_t parse(int key, char *arg, struct argp_state *state)
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
	.parser = parse,
	.args_doc = "[-- COMMAND...]",
	.doc = "Say what is wrong on this machine and what to do; with COMMAND, whether it can be "
	       "limited.\v"
	       "Exit status: 0, or 1 if anything is wrong.\n",
};

static bool failed;

void doctor_says(enum doctor_finding finding, const char *what, const char *todo)
{
	static const char *const words[] = {"ok  ", "warn", "FAIL"};
	static const char *const colours[] = {"\033[32m", "\033[33m", "\033[1;31m"};
	bool colour = isatty(STDOUT_FILENO);

	failed |= finding == DOCTOR_FAIL;
	printf("%s%s%s  %s\n", colour ? colours[finding] : "", words[finding],
	       colour ? "\033[0m" : "", what);
	if (todo)
		printf("      %s\n", todo);
}

static int sweep_one(const char *name, const char *dir, void *runtime)
{
	int r = tenant_remove(runtime, name);
	char what[PATH_MAX + 128];

	if (r == -EBUSY || r == -ENOENT)
		return 0;
	if (r < 0)
		snprintf(what, sizeof(what), "tenant %s (%s) cannot be removed: %s", name, dir,
			 tenants_error_words(r));
	else
		snprintf(what, sizeof(what), "tenant %s removed", name);
	doctor_says(r < 0 ? DOCTOR_FAIL : DOCTOR_OK, what,
		    r < 0 ? "remove its directory with rm -r" : NULL);
	return 0;
}

static void sweep(char *runtime)
{
	tenant_list(runtime, sweep_one, runtime);
	dmem_sweep(runtime, TENANTS_GRACE_S);
}

static void check_tenants(const struct tenants *tenants)
{
	unsigned int live = 0, stale = 0;
	char what[PATH_MAX + 256], names[128] = "";

	for (size_t i = 0; i < tenants->n; i++) {
		const struct tenant_entry *e = &tenants->list[i];

		if (e->error) {
			snprintf(what, sizeof(what), "tenant %s (%s): %s", e->name, e->dir,
				 tenants_error_words(e->error));
			doctor_says(DOCTOR_FAIL, what,
				    "end its processes, then remove its directory with rm -r");
		} else if (tenants_live(e->snapshot)) {
			live++;
		} else if (stale++ < 3) {
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.32s",
				 *names ? ", " : "", e->name);
		}
	}
	snprintf(what, sizeof(what), "%u tenant%s with processes that use a GPU", live,
		 live == 1 ? "" : "s");
	doctor_says(DOCTOR_OK, what, NULL);
	if (stale) {
		snprintf(what, sizeof(what), "%u tenant%s without such a process: %s%s", stale,
			 stale == 1 ? "" : "s", names, stale > 3 ? ", ..." : "");
		doctor_says(DOCTOR_WARN, what,
			    "if they are over and not about to begin: allot doctor --sweep");
	}
}

/* What tenants in mode space stand on; nothing to say where there is neither they nor it. */
static void check_space(const struct tenants *tenants)
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
		doctor_says(DOCTOR_OK, "MPS daemon without tenants in mode space: told to quit",
			    NULL);
	if (!n)
		return;
	r = space_daemon(tenants->runtime);
	snprintf(what, sizeof(what), "%s %s/.mps, for %u tenant%s in mode space",
		 !r		    ? "MPS daemon in"
		 : r == -ETIMEDOUT ? "the MPS daemon does not answer in"
				    : "no MPS daemon in",
		 tenants->runtime, n, n == 1 ? "" : "s");
	if (!r)
		doctor_says(DOCTOR_OK, what, NULL);
	else
		doctor_says(live || r == -ETIMEDOUT ? DOCTOR_FAIL : DOCTOR_WARN, what,
			    r == -ETIMEDOUT ? "end it; the next allot run starts another"
					    : "their programs get no GPU until allot run starts "
					      "one; those that ran must be started again");
}

static void check_program(const char *command)
{
	struct program program;
	char what[PATH_MAX + 512];
	int r = program_examine(command, &program);

	if (r < 0) {
		snprintf(what, sizeof(what), "%s cannot be run: %s", command, say_errno(r));
		doctor_says(DOCTOR_FAIL, what, "check its path, its permissions and PATH");
	} else if (program.kind != PROGRAM_OK) {
		snprintf(what, sizeof(what), "%s would escape its quota: %s %s", command,
			 program.path, program_kind_words(program.kind));
		doctor_says(DOCTOR_FAIL, what,
			    "use a dynamically linked build for this system's libc, without "
			    "setuid, setgid or capabilities");
	} else {
		snprintf(what, sizeof(what), "%s can be limited (%s)", command, program.path);
		doctor_says(DOCTOR_OK, what, NULL);
	}
}

int cmd_doctor(int argc, char **argv)
{
	struct args a = {.sweep = false};
	char runtime[PATH_MAX];
	struct tenants tenants;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &a);
	doctor_says(DOCTOR_OK, "allot " ALLOT_VERSION, NULL);
	doctor_devices();
	doctor_library();
	doctor_kernel();
	if (runtime_find(runtime) < 0)
		return 1;
	doctor_runtime_dir(runtime);
	if (a.sweep)
		sweep(runtime);
	if (!tenants_load(&tenants)) {
		check_tenants(&tenants);
		check_space(&tenants);
		tenants_free(&tenants);
	} else {
		failed = true;
	}
	if (a.command)
		check_program(a.command[0]);
	return failed;
}
