/* SPDX-License-Identifier: Apache-2.0 */
/* allot checkpoint: writes a tenant, with its processes and their device memory, to a disk. */
#include <argp.h>

#include "base/parse.h"
#include "cli/checkpoint/away.h"
#include "cli/checkpoint/save.h"
#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "image/packing.h"

#define LEVEL_MAX 19

enum { KEY_TO = 256, KEY_LEAVE_RUNNING, KEY_TIMEOUT, KEY_COMPRESS };

static const struct argp_option options[] = {
	{"to", KEY_TO, "DIR", 0, "a directory that is empty or does not exist yet", 0},
	{"leave-running", KEY_LEAVE_RUNNING, NULL, 0, "continue the tenant here once it is written",
	 0},
	{"compress", KEY_COMPRESS, "LEVEL", OPTION_ARG_OPTIONAL,
	 "compress device memory by zstd (1, the default, is the fastest; up to 19)", 0},
	{"timeout", KEY_TIMEOUT, "TIME", 0,
	 "how long to wait for work on the device, like 10s (default 30s)", 0},
	{0},
};

struct args {
	const char *name;
	struct save_options save;
};

static error_t checkpoint_parse_level(const char *arg, struct args *a)
{
	uint64_t level = 1;

	if (arg && parse_u64(arg, 1, LEVEL_MAX, &level))
		return say_fail(EINVAL, "--compress \"%s\": not 1 to %d", arg, LEVEL_MAX);
	if (!packing_offered())
		return say_fail(EINVAL, "--compress: this build has no zstd");
	a->save.level = (int)level;
	return 0;
}

static error_t checkpoint_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case KEY_TO:
		a->save.dir = arg;
		return 0;
	case KEY_LEAVE_RUNNING:
		a->save.leave_running = true;
		return 0;
	case KEY_COMPRESS:
		return checkpoint_parse_level(arg, a);
	case KEY_TIMEOUT:
		return away_parse_timeout(arg, &a->save.timeout_us) ? EINVAL : 0;
	case ARGP_KEY_ARG:
		arguments_take_tenant(state, arg, &a->name);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = checkpoint_parse_option,
	.args_doc = "NAME --to DIR",
	.doc = "Write a swappable tenant to a disk: its device memory, and its processes by CRIU.\v"
	       "Its processes then end here, and \"allot restore DIR\" continues them. Until all "
	       "of it is written the tenant can be resumed.\n"
	       "\n"
	       "  allot checkpoint train --to /var/lib/train.1\n"
	       "  allot restore /var/lib/train.1\n",
};

int cmd_checkpoint(int argc, char **argv)
{
	struct args a = {.save = {.timeout_us = AWAY_TIMEOUT_US}};

	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.name || !a.save.dir)
		return say_error("write: allot checkpoint NAME --to DIR (\"allot ps\" lists names)");
	return save_tenant(a.name, &a.save);
}
