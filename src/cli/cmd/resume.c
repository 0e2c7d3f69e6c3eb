/* SPDX-License-Identifier: Apache-2.0 */
/* allot resume: moves a tenant's memory back, and continues its processes. */
#include <argp.h>

#include "base/now.h"
#include "cli/checkpoint/away.h"
#include "cli/checkpoint/stored.h"
#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/moving.h"
#include "cli/tenant/place.h"
#include "cli/tenant/remote.h"

/* Processes that are back only have to see that they may continue. */
#define RUN_NS (10 * NS_PER_S)

enum { KEY_TIMEOUT = 256 };

static const struct argp_option options[] = {
	{"timeout", KEY_TIMEOUT, "TIME", 0,
	 "how long to wait for a process that makes no progress, like 10s (default 30s)", 0},
	{0},
};

struct args {
	const char *name;
	struct away_options away;
};

static error_t resume_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case KEY_TIMEOUT:
		return away_parse_timeout(arg, &a->away.timeout_us) ? EINVAL : 0;
	case ARGP_KEY_ARG:
		arguments_take_tenant(state, arg, &a->name);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = resume_parse_option,
	.args_doc = "NAME",
	.doc = "Move a suspended tenant's memory back to its devices and continue it.\v"
	       "All of it, or none: if a quota or a device has no room, the tenant stays "
	       "suspended.\n",
};

int cmd_resume(int argc, char **argv)
{
	struct args a = {.away = {.timeout_us = AWAY_TIMEOUT_US}};
	static struct place place;
	struct moving moving;
	int r;

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.name)
		return say_error("which tenant? write: allot resume serve (\"allot ps\" lists them)");
	if (place_find(a.name, &place) < 0)
		return EXIT_ALLOT;
	if (place.remote)
		return remote_move(place.runtime, place.name, false, &a.away);
	r = moving_open(place.name, &moving);
	if (r)
		return r;
	moving.patience_ns = a.away.timeout_us * NS_PER_US;
	if (moving_rests(&moving) != SWAP_RUN || stored_is(&moving)) {
		r = away_return(&moving);
	} else {
		say_note("tenant \"%s\" is not suspended", a.name);
		moving_ask(&moving, SWAP_RUN, RUN_NS, false);
	}
	moving_close(&moving);
	return r;
}
