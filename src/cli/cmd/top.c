/* SPDX-License-Identifier: Apache-2.0 */
/* allot top: devices and tenants live, or one frame where there is no terminal. */
#include <argp.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/runtime.h"
#include "cli/top/frame.h"
#include "cli/top/screen.h"

#define PLAIN_WIDTH 79

/* A look at 80 tenants' ledgers takes 8 ms. */
#define INTERVAL_US	1000000
#define INTERVAL_MIN_US 100000
#define INTERVAL_MAX_US (3600 * UINT64_C(1000000))

static const struct argp_option options[] = {
	{"once", '1', NULL, 0, "print one frame and end (default without a terminal)", 0},
	{"sort", 's', "memory|share|name|user|refusals", 0, "order of the tenants (default memory)",
	 0},
	{"filter", 'f', "TEXT", 0, "show only rows with TEXT in name, user or command", 0},
	{"interval", 'i', "TIME", 0, "how often to look, from 100ms to an hour (default 1s)", 0},
	{0},
};

struct args {
	bool once;
	struct frame_state state;
};

static error_t top_parse_sort(const char *arg, struct argp_state *state, struct args *a)
{
	for (int i = 0; i < ROWS_SORTS; i++)
		if (!strcmp(arg, rows_sorts[i])) {
			a->state.choice.sort = (enum rows_sort)i;
			return 0;
		}
	argp_error(state, "--sort \"%s\": write memory, share, name, user or refusals", arg);
	return EINVAL;
}

static error_t top_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;
	struct rows_choice *choice = &a->state.choice;

	switch (key) {
	case '1':
		a->once = true;
		return 0;
	case 's':
		return top_parse_sort(arg, state, a);
	case 'f':
		if ((size_t)snprintf(choice->filter, sizeof(choice->filter), "%s", arg) >=
		    sizeof(choice->filter))
			argp_error(state, "--filter \"%s\": at most %zu characters", arg,
				   sizeof(choice->filter) - 1);
		return 0;
	case 'i':
		if (parse_duration_us(arg, INTERVAL_MAX_US, &a->state.interval_us) < 0 ||
		    a->state.interval_us < INTERVAL_MIN_US)
			argp_error(state,
				   "--interval \"%s\": not a time from 100ms to an hour; "
				   "write it like --interval 2s",
				   arg);
		return 0;
	case ARGP_KEY_ARG:
		if (*choice->name)
			argp_error(state, "one tenant at a time: \"%s\" and \"%s\"", choice->name,
				   arg);
		snprintf(choice->name, sizeof(choice->name), "%s", arg);
		a->state.processes = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = top_parse_option,
	.args_doc = "[NAME]",
	.doc = "Show devices, tenants and programs outside of them live; with NAME, that tenant's "
	       "processes and share over time.\v"
	       "Keys: ? shows them all. m s n u r sort by memory, share, name, user, refusals; / "
	       "filters; up and down select; enter shows the selected one alone; e sets its memory "
	       "and share; t and K end it; + and - change the interval; q ends.\n",
};

static void top_print_frame(const struct frame *f)
{
	for (int i = 0; i < f->n; i++)
		puts(f->line[i].text);
}

static bool top_has_tenant(const struct tenants *tenants, const char *name)
{
	for (size_t i = 0; i < tenants->n; i++)
		if (!strcmp(tenants->list[i].name, name))
			return true;
	return false;
}

static int top_print_once(struct frame_state *state, const struct view *view)
{
	struct frame frame = {.n = 0};

	state->interval_us = 0;
	if (frame_build(view, state, PLAIN_WIDTH, 0, &frame) < 0)
		return say_error("out of memory for the table");
	top_print_frame(&frame);
	frame_free(&frame);
	return 0;
}

int cmd_top(int argc, char **argv)
{
	struct args a = {.state = {.interval_us = INTERVAL_US}};
	struct view view = {.noutside = 0};
	struct view_reader *reader = NULL;
	char runtime[PATH_MAX];
	int r;

	arguments_parse(&argp, argc, argv, 0, &a);
	/* For what is a character, and how wide; numbers stay as they are. */
	setlocale(LC_CTYPE, "");
	a.state.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (runtime_find(runtime) < 0)
		return EXIT_ALLOT;
	r = view_open(&reader);
	if (!r)
		r = view_read(reader, runtime, &view);
	if (r < 0)
		r = say_error("cannot read the runtime directory %s: %s", runtime, say_errno(r));
	else if (*a.state.choice.name && !top_has_tenant(&view.tenants, a.state.choice.name))
		r = say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them",
			      a.state.choice.name, runtime);
	else if (a.once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !screen_usable())
		r = top_print_once(&a.state, &view);
	else
		r = screen_run(&a.state, reader, runtime, &view);
	view_free(&view);
	view_close(reader);
	return r;
}
