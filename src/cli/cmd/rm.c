/* SPDX-License-Identifier: Apache-2.0 */
/* allot rm: removes tenants that have no processes left, also those that would stay without it. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/place.h"
#include "cli/tenant/remote.h"
#include "node/tenants.h"

struct args {
	char **names;
	int nnames;
};

static error_t rm_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	(void)arg;
	if (key != ARGP_KEY_ARGS)
		return ARGP_ERR_UNKNOWN;
	a->names = state->argv + state->next;
	a->nnames = state->argc - state->next;
	return 0;
}

static const struct argp argp = {
	.parser = rm_parse_option,
	.args_doc = "NAME...",
	.doc = "Remove tenants that have no processes left.\v"
	       "A tenant is removed by itself after its last process ended; this command is for "
	       "tenants that \"allot run --print-env\" made, and for damaged ones. Their last "
	       "figures stay: \"allot ps --ended\" shows them.\n",
};

static int rm_refuse_living(const char *name, const char *dir)
{
	pid_t pid = 0;
	char who[64] = "";

	/* `allot ps` shows processes that use a GPU. */
	if (tenants_state(dir, &pid) != TENANT_RUNNING && pid)
		snprintf(who, sizeof(who), " (process %ld was started in it)", (long)pid);
	return say_error("tenant \"%s\" lives%s; end its processes first (\"allot ps %s\" shows those "
			 "that use a GPU)",
			 name, who, name);
}

static int rm_remove(const char *name)
{
	struct place place;
	int r;

	if (place_find(name, &place) < 0)
		return EXIT_ALLOT;
	if (!place.remote)
		tenants_await_note(place.dir);
	r = place.remote ? remote_remove(place.runtime, place.name, false)
			 : tenants_remove(place.runtime, place.name, false);
	if (r == -ENOENT)
		return say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them", name,
				 place.runtime);
	if (r == -EBUSY)
		return rm_refuse_living(name, place.dir);
	if (r == -ECONNABORTED && place.remote)
		return EXIT_ALLOT;
	if (r < 0)
		return say_error("tenant \"%s\" (%s) cannot be removed: %s; remove its directory "
				 "with rm -r",
				 name, place.dir, tenants_error_words(r));
	return 0;
}

int cmd_rm(int argc, char **argv)
{
	struct args a = {.nnames = 0};
	int status = 0;

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.nnames)
		return say_error("which tenant? write: allot rm jobA (\"allot ps\" lists them)");
	for (int i = 0; i < a.nnames; i++) {
		int r = rm_remove(a.names[i]);

		status = r ? r : status;
	}
	return status;
}
