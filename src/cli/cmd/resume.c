/* SPDX-License-Identifier: Apache-2.0 */
/* allot resume: what left comes back, and a tenant's processes go on. */
#include <argp.h>

#include "base/now.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/out/say.h"
#include "cli/tenant/away.h"
#include "cli/tenant/moving.h"
#include "cli/tenant/place.h"
#include "cli/tenant/remote.h"

/* Processes that are back have only to notice that they may go on. */
#define RUN_NS (10 * NS_PER_S)

static error_t resume_parse_option(int key, char *arg, struct argp_state *state)
{
	const char **name = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (*name)
		argp_error(state, "one tenant at a time: \"%s\" and \"%s\"", *name, arg);
	*name = arg;
	return 0;
}

static const struct argp argp = {
	.parser = resume_parse_option,
	.args_doc = "NAME",
	.doc = "Bring all that a suspended tenant holds back to its devices.\v"
	       "All of it, or none: where a quota or a device has no room the tenant stays "
	       "suspended.\n",
};

int cmd_resume(int argc, char **argv)
{
	const char *name = NULL;
	static struct place place;
	struct moving moving;
	int r;

	if (arguments_parse(&argp, argc, argv, 0, &name))
		return EXIT_ALLOT;
	if (!name)
		return say_error("which tenant? write: allot resume serve (\"allot ps\" lists them)");
	if (place_find(name, &place) < 0)
		return EXIT_ALLOT;
	if (place.remote)
		return remote_move(place.runtime, place.name, false, NULL);
	r = moving_open(place.name, &moving);
	if (r)
		return r;
	if (moving_rests(&moving) != SWAP_RUN) {
		r = away_return(&moving);
	} else {
		say_note("tenant \"%s\" is not suspended", name);
		moving_ask(&moving, SWAP_RUN, now_monotonic_ns() + RUN_NS, false);
	}
	moving_close(&moving);
	return r;
}
