/* SPDX-License-Identifier: Apache-2.0 */
/* allot suspend: moves a tenant's memory off its devices, and its processes wait. */
#include <argp.h>

#include "base/host_memory.h"
#include "base/parse.h"
#include "cli/checkpoint/away.h"
#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/moving.h"
#include "cli/tenant/place.h"
#include "cli/tenant/remote.h"

enum { KEY_CONTEXTS = 256, KEY_HOST_MEMORY, KEY_NOTICE, KEY_TIMEOUT };

static const struct argp_option options[] = {
	{"contexts", KEY_CONTEXTS, NULL, 0,
	 "also move contexts, code, and all else that the driver keeps on the device", 0},
	{"host-memory", KEY_HOST_MEMORY, "SIZE", 0,
	 "most memory to use on the host (default: what is free, less 10%)", 0},
	{"notice", KEY_NOTICE, "TIME", 0,
	 "tell programs that listen (allot_tenant(3)), and wait for them at most that long, like 2s "
	 "(default: no notice)",
	 0},
	{"timeout", KEY_TIMEOUT, "TIME", 0,
	 "how long to wait for work on the device, and for a process that makes no progress, like "
	 "10s (default 30s)",
	 0},
	{0},
};

struct args {
	const char *name;
	struct away_options away;
};

static error_t suspend_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case KEY_CONTEXTS:
		a->away.contexts = true;
		return 0;
	case KEY_HOST_MEMORY:
		if (!parse_size(arg, host_memory_total(), &a->away.host_bytes))
			return 0;
		return say_fail(EINVAL, "--host-memory \"%s\": not a size; write it like "
				"--host-memory 64GiB or --host-memory 50%%", arg);
	case KEY_NOTICE:
		return away_parse_notice(arg, &a->away.notice_us) ? EINVAL : 0;
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
	.parser = suspend_parse_option,
	.args_doc = "NAME",
	.doc = "Move a swappable tenant's device memory to the host, and stop its use of the GPU.\v"
	       "Its processes wait at their next launch, copy or allocation until \"allot "
	       "resume\". "
	       "Addresses and content stay the same. Refused, with nothing moved, if a process "
	       "holds memory that cannot be moved.\n"
	       "\n"
	       "  allot run --swappable --memory 40GiB --name serve -- python serve.py\n"
	       "  allot suspend serve\n"
	       "  allot resume serve\n",
};

int cmd_suspend(int argc, char **argv)
{
	struct args a = {.away = {.timeout_us = AWAY_TIMEOUT_US}};
	static struct place place;
	struct moving moving;
	int r;

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.name)
		return say_error("which tenant? write: allot suspend serve (\"allot ps\" lists them)");
	if (place_find(a.name, &place) < 0)
		return EXIT_ALLOT;
	if (place.remote)
		return remote_move(place.runtime, place.name, true, &a.away);
	r = moving_open(place.name, &moving);
	if (r)
		return r;
	r = away_send(&moving, &a.away);
	moving_close(&moving);
	return r;
}
