/* SPDX-License-Identifier: Apache-2.0 */
/* allot top: tenants live, or one frame where there is no terminal. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/out/frame.h"
#include "cli/out/say.h"
#include "cli/out/screen.h"
#include "cli/tenant/runtime.h"
#include "node/figures.h"
#include "node/tenants.h"

#define PLAIN_WIDTH 79

static const struct argp_option options[] = {
	{"once", '1', NULL, 0, "print one frame and end, as where there is no terminal", 0},
	{"sort", 's', "memory|compute|name|refusals", 0, "tenants in this order (default memory)",
	 0},
	{0},
};

struct args {
	bool once;
	struct frame_state state;
};

static error_t top_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case '1':
		a->once = true;
		return 0;
	case 's':
		if (!strcmp(arg, "memory"))
			a->state.sort = FRAME_BY_MEMORY;
		else if (!strcmp(arg, "compute"))
			a->state.sort = FRAME_BY_COMPUTE;
		else if (!strcmp(arg, "name"))
			a->state.sort = FRAME_BY_NAME;
		else if (!strcmp(arg, "refusals"))
			a->state.sort = FRAME_BY_REFUSALS;
		else
			argp_error(state, "--sort \"%s\": write memory, compute, name or refusals",
				   arg);
		return 0;
	case ARGP_KEY_ARG:
		if (*a->state.tenant)
			argp_error(state, "one tenant at a time: \"%s\" and \"%s\"",
				   a->state.tenant, arg);
		snprintf(a->state.tenant, sizeof(a->state.tenant), "%s", arg);
		a->state.processes = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = top_parse_option,
	.args_doc = "[NAME]",
	.doc = "Show tenants live; with NAME, that tenant's processes and compute over time.\v"
	       "Keys: m c n r sort by memory, compute, name, refusals; up and down choose a "
	       "tenant; enter or p its processes, and back; q ends.\n",
};

static void top_print_frame(const struct frame *f)
{
	for (int i = 0; i < f->n; i++) {
		const struct frame_line *line = &f->line[i];
		char bar[PLAIN_WIDTH + 1];
		int fill = line->bar_permille * (PLAIN_WIDTH - 2) / 1000;

		if (line->bar_permille < 0) {
			puts(line->text);
			continue;
		}
		memset(bar, '.', PLAIN_WIDTH);
		bar[PLAIN_WIDTH] = 0;
		bar[0] = '[';
		bar[PLAIN_WIDTH - 1] = ']';
		memset(bar + 1, '#', (size_t)fill);
		puts(bar);
	}
}

static bool top_has_tenant(const struct tenants *tenants, const char *name)
{
	for (size_t i = 0; i < tenants->n; i++)
		if (!strcmp(tenants->list[i].name, name))
			return true;
	return false;
}

int cmd_top(int argc, char **argv)
{
	static struct frame frame;
	struct args a = {.once = false};
	struct tenants tenants;
	int r = 0;

	arguments_parse(&argp, argc, argv, 0, &a);
	if (runtime_load_tenants(&tenants) < 0)
		return EXIT_ALLOT;
	figures_apply(&tenants);
	if (*a.state.tenant && !top_has_tenant(&tenants, a.state.tenant)) {
		r = say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them",
			      a.state.tenant, tenants.runtime);
	} else if (a.once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !screen_usable()) {
		frame_build(&tenants, &a.state, PLAIN_WIDTH, 0, &frame);
		top_print_frame(&frame);
	} else {
		tenants_free(&tenants);
		return screen_run(&a.state);
	}
	tenants_free(&tenants);
	return r;
}
