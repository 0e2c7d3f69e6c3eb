/* SPDX-License-Identifier: Apache-2.0 */
/* allot top: devices and tenants live, or one frame where there is no terminal. */
#include <argp.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/runtime.h"
#include "cli/top/frame.h"
#include "cli/top/frame_table.h"
#include "cli/top/screen.h"
#include "cli/top/settings.h"
#include "cli/top/stream.h"
#include "text/text.h"

#define PLAIN_WIDTH 79

/* A look at 80 tenants' ledgers takes 8 ms. */
#define INTERVAL_US 1000000

static const struct argp_option options[] = {
	{"once", '1', NULL, 0, "print one frame and end (default without a terminal)", 0},
	{"sort", 's', "memory|share|name|user|refusals", 0, "order of the tenants (default memory)",
	 0},
	{"reverse", 'r', NULL, 0, "sort the other way round", 0},
	{"filter", 'f', "TEXT", 0, "show only rows with TEXT in name, user or command", 0},
	{"columns", 'c', "LIST", 0, "show these columns, in this order (default: as many as fit)",
	 0},
	{"clocks", 'd', NULL, 0, "show the devices' clocks, power and PCIe in place of memory", 0},
	{"json", 'j', NULL, 0,
	 "print a JSON object on a line for each look, as docs/json.md describes it", 0},
	{"interval", 'i', "TIME", 0, "how often to look, from 100ms to an hour (default 1s)", 0},
	{0},
};

struct args {
	bool once, json;
	/* Options go before saved settings. */
	bool sorts, reverses, chooses, clocks, times;
	struct frame_state state;
};

static error_t top_parse_sort(const char *arg, struct argp_state *state, struct args *a)
{
	int i = parse_word(arg, rows_sorts, ROWS_SORTS);

	if (i >= 0) {
		a->state.choice.sort = (enum rows_sort)i;
		a->sorts = true;
		return 0;
	}
	argp_error(state, "--sort \"%s\": write memory, share, name, user or refusals", arg);
	return EINVAL;
}

static error_t top_parse_columns(const char *arg, struct argp_state *state, struct args *a)
{
	struct frame_word wrong;

	if (frame_table_parse_columns(arg, &a->state.columns, &wrong) < 0)
		argp_error(state,
			   "--columns: there is no column \"%s\"; write them as their headings, "
			   "with \"-\" for spaces, like --columns user,used,quota,over-time",
			   wrong.s);
	a->chooses = true;
	return 0;
}

static error_t top_parse_interval(const char *arg, struct argp_state *state, struct args *a)
{
	if (parse_duration_us(arg, SETTINGS_INTERVAL_MAX_US, &a->state.interval_us) < 0 ||
	    a->state.interval_us < SETTINGS_INTERVAL_MIN_US)
		argp_error(state,
			   "--interval \"%s\": not a time from 100ms to an hour; "
			   "write it like --interval 2s",
			   arg);
	a->times = true;
	return 0;
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
		return top_parse_interval(arg, state, a);
	case 'r':
		a->state.choice.reverse = a->reverses = true;
		return 0;
	case 'c':
		return top_parse_columns(arg, state, a);
	case 'd':
		a->state.clocks = a->clocks = true;
		return 0;
	case 'j':
		a->json = true;
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
	       "and share; t and K end it, S sends any signal; R reverses, c chooses columns, d "
	       "shows devices' clocks; W keeps this for the next time; + and - change the "
	       "interval; "
	       "q ends.\n",
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

/* Until the reader or a signal ends it. */
static int top_stream(const struct args *a, struct view_reader *reader, const char *runtime,
		      struct view *view)
{
	for (;;) {
		struct timespec pause = {.tv_sec = (time_t)(a->state.interval_us / 1000000),
					 .tv_nsec = (long)(a->state.interval_us % 1000000) * 1000};
		int r = stream_put(view, &a->state.choice, stdout);

		if (r < 0)
			return say_error("out of memory for the list");
		if (fflush(stdout))
			return say_error("cannot write: %s", say_errno(-errno));
		if (a->once)
			return 0;
		nanosleep(&pause, NULL);
		r = view_read(reader, runtime, view);
		if (r < 0)
			return say_error("cannot read the runtime directory %s: %s", runtime,
					 say_errno(r));
	}
}

/* Settings that cannot be read are said on the screen, and stop nothing. */
static void top_load_settings(struct args *a, char *message, size_t size)
{
	struct frame_state saved = a->state;
	char path[PATH_MAX];
	int r;

	*message = 0;
	if (settings_path(path) < 0)
		return;
	r = settings_read(path, &saved);
	if (r < 0)
		snprintf(message, size, "settings are not read: %s: %s", path, say_errno(r));
	else if (r)
		snprintf(message, size, "settings: line %d of %s is not understood", r, path);
	if (!a->sorts)
		a->state.choice.sort = saved.choice.sort;
	if (!a->reverses && !a->sorts)
		a->state.choice.reverse = saved.choice.reverse;
	if (!a->chooses)
		a->state.columns = saved.columns;
	if (!a->clocks)
		a->state.clocks = saved.clocks;
	a->state.no_mouse = saved.no_mouse;
	if (!a->times)
		a->state.interval_us = saved.interval_us;
}

static int top_run_screen(struct args *a, struct view_reader *reader, const char *runtime,
			  struct view *view)
{
	char message[PATH_MAX + 160];

	top_load_settings(a, message, sizeof(message));
	text_make_printable(message);
	return screen_run(&a->state, reader, runtime, view, message);
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
		view_ask_traffic(reader, a.state.clocks && !a.json);
	if (!r && !a.json)
		view_ask_programs(reader, a.state.choice.name);
	if (!r)
		r = view_read(reader, runtime, &view);
	if (r < 0)
		r = say_error("cannot read the runtime directory %s: %s", runtime, say_errno(r));
	else if (*a.state.choice.name && !top_has_tenant(&view.tenants, a.state.choice.name))
		r = say_error("there is no tenant \"%s\" in %s; \"allot ps\" lists them",
			      a.state.choice.name, runtime);
	else if (a.json)
		r = top_stream(&a, reader, runtime, &view);
	else if (a.once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !screen_usable())
		r = top_print_once(&a.state, &view);
	else
		r = top_run_screen(&a, reader, runtime, &view);
	view_free(&view);
	view_close(reader);
	return r;
}
