/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/dialogue.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "cli/device/limits.h"
#include "cli/exec/self.h"
#include "cli/say/say.h"
#include "cli/top/frame_table.h"
#include "cli/top/settings.h"
#include "node/compute_words.h"
#include "text/text.h"
#include "text/units.h"

static void dialogue_write(char *to, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void dialogue_write(char *to, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(to, size, fmt, ap);
	va_end(ap);
	text_make_printable(to);
}

#define DIALOGUE_SAY(d, ...) dialogue_write((d)->message, sizeof((d)->message), __VA_ARGS__)
#define DIALOGUE_ASK(d, ...) dialogue_write((d)->question, sizeof((d)->question), __VA_ARGS__)

/* The row that is selected; false: there is none. */
static bool dialogue_selected(struct dialogue *d, const struct view *view, struct row *ret)
{
	struct rows rows = {.n = 0};
	bool any = !rows_collect(view, &d->state->choice, &rows) && rows.n;

	if (any)
		*ret = rows.list[rows_select(&rows, &d->state->choice)];
	rows_free(&rows);
	return any;
}

static void dialogue_ask(struct dialogue *d, int at)
{
	d->at = at;
	d->prompt = (struct prompt){{0}};
}

/* --- Ending ---------------------------------------------------------------------------------- */

static const struct {
	int signal;
	const char *name;
} signals[] = {{SIGHUP, "HUP"},	  {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGABRT, "ABRT"},
	       {SIGKILL, "KILL"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGALRM, "ALRM"},
	       {SIGTERM, "TERM"}, {SIGCONT, "CONT"}, {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"}};

struct dialogue_words {
	char s[32];
};

static struct dialogue_words dialogue_signal_name(int signal)
{
	struct dialogue_words words;

	snprintf(words.s, sizeof(words.s), "signal %d", signal);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (signals[i].signal == signal)
			snprintf(words.s, sizeof(words.s), "SIG%s", signals[i].name);
	return words;
}

/* A name with or without SIG, in either case, or a number; 0: neither. */
static int dialogue_signal_of(const char *text)
{
	const char *name = strncasecmp(text, "SIG", 3) ? text : text + 3;
	uint64_t number;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!strcasecmp(name, signals[i].name))
			return signals[i].signal;
	return parse_u64(text, 1, (uint64_t)SIGRTMAX, &number) ? 0 : (int)number;
}

/* The verb of the question: "end", or "send SIGHUP to". */
static struct dialogue_words dialogue_signal_verb(int signal)
{
	struct dialogue_words words;

	if (signal == SIGKILL || signal == SIGTERM)
		snprintf(words.s, sizeof(words.s), "%s", signal == SIGKILL ? "kill" : "end");
	else
		snprintf(words.s, sizeof(words.s), "send %.20s to", dialogue_signal_name(signal).s);
	return words;
}

static void dialogue_ask_outsider(struct dialogue *d, const struct row *row)
{
	pid_t pid = row->outside->outsider.pid;
	struct outsider_process now;
	int r = end_find_process(pid, &d->end);

	/* The question is about the process that has the pid now. */
	if (!r && outsiders_describe(pid, user_name, &now) < 0) {
		end_free(&d->end);
		r = -ESRCH;
	}
	if (r < 0) {
		DIALOGUE_SAY(d, "process %d: %s", pid, r == -ESRCH ? "it has ended" : say_errno(r));
		return;
	}
	DIALOGUE_ASK(d, "%s process %d of %s (y/n)? %s", dialogue_signal_verb(d->signal).s, pid,
		     now.user, now.command);
	dialogue_ask(d, DIALOGUE_SIGNAL);
}

static void dialogue_ask_tenant(struct dialogue *d, const struct row *row)
{
	int r = end_find_tenant(row->tenant, &d->end);

	if (r < 0) {
		DIALOGUE_SAY(d, "tenant %s: %s", row->name, say_errno(r));
	} else if (!d->end.n) {
		DIALOGUE_SAY(d,
			     "tenant %s: none of its processes can be seen from here; end it "
			     "where it was started, or as root",
			     row->name);
	} else {
		DIALOGUE_ASK(d, "%s tenant %s of %s, %s (y/n)? ", dialogue_signal_verb(d->signal).s,
			     row->name, row->user, units_count(d->end.n, "process", "processes").s);
		dialogue_ask(d, DIALOGUE_SIGNAL);
	}
}

static void dialogue_begin_signal(struct dialogue *d, const struct view *view, int signal)
{
	struct row row;

	if (!dialogue_selected(d, view, &row))
		return;
	d->signal = signal;
	if (row.outside)
		dialogue_ask_outsider(d, &row);
	else
		dialogue_ask_tenant(d, &row);
}

static void dialogue_answer_signal(struct dialogue *d, int key)
{
	size_t failed;
	int error = 0;

	d->at = DIALOGUE_KEYS;
	if (key != 'y' && key != 'Y') {
		DIALOGUE_SAY(d, "nothing was done");
	} else {
		failed = end_send(&d->end, d->signal, &error);
		if (failed)
			DIALOGUE_SAY(d,
				     "%zu of %s cannot be signalled: %s; do it as their user, or "
				     "as root",
				     failed, units_count(d->end.n, "process", "processes").s,
				     say_errno(error));
		else
			DIALOGUE_SAY(d, "%s sent to %s", dialogue_signal_name(d->signal).s,
				     units_count(d->end.n, "process", "processes").s);
		d->stale = true;
	}
	end_free(&d->end);
}

static void dialogue_which(struct dialogue *d, const struct view *view, int key)
{
	enum prompt_state state = prompt_key(&d->prompt, key);
	struct row row;
	int signal;

	if (state == PROMPT_GOES_ON)
		return;
	d->at = DIALOGUE_KEYS;
	signal = dialogue_signal_of(d->prompt.text);
	if (state == PROMPT_CANCELLED || !*d->prompt.text)
		DIALOGUE_SAY(d, "nothing was done");
	else if (!signal)
		DIALOGUE_SAY(d, "\"%s\" is no signal: write a name like HUP, or a number",
			     d->prompt.text);
	/* The next row is selected when the row that was has ended. */
	else if (!dialogue_selected(d, view, &row) || strcmp(row.name, d->whose))
		DIALOGUE_SAY(d, "%s has ended: nothing was done", d->whose);
	else
		dialogue_begin_signal(d, view, signal);
}

/* --- Setting --------------------------------------------------------------------------------- */

static void dialogue_begin_set(struct dialogue *d, const struct view *view)
{
	const struct policy *policy;
	struct row row;

	if (!dialogue_selected(d, view, &row))
		return;
	if (!row.tenant) {
		DIALOGUE_SAY(d, "%s is in no tenant: there is nothing to set; it can be ended",
			     row.name);
		return;
	}
	if (row.tenant->apart) {
		DIALOGUE_SAY(
			d, "%s was made elsewhere, as in a container: what limits it is set there",
			row.name);
		return;
	}
	policy = &row.tenant->snapshot->policy;
	snprintf(d->name, sizeof(d->name), "%s", row.tenant->name);
	DIALOGUE_ASK(d, "memory of %s, now %s (enter: as it is): ", d->name,
		     limits_words(&policy->device[0]).s);
	dialogue_ask(d, DIALOGUE_MEMORY);
}

static const struct tenant_entry *dialogue_tenant(const struct view *view, const char *name)
{
	for (size_t i = 0; i < view->tenants.n; i++)
		if (!view->tenants.list[i].error && !strcmp(view->tenants.list[i].name, name))
			return &view->tenants.list[i];
	return NULL;
}

static void dialogue_ask_share(struct dialogue *d, const struct view *view)
{
	const struct tenant_entry *tenant = dialogue_tenant(view, d->name);

	snprintf(d->memory, sizeof(d->memory), "%s", d->prompt.text);
	DIALOGUE_ASK(d, "compute of %s, now %s (enter: as it is): ", d->name,
		     tenant ? compute_words(&tenant->snapshot->policy, 0).s : "gone");
	dialogue_ask(d, DIALOGUE_SHARE);
}

/* As a person would, so that there is one way in which limits are checked and set. */
static void dialogue_set(struct dialogue *d)
{
	char memory[PROMPT_BYTES + 16], compute[PROMPT_BYTES + 16];
	const char *argv[8] = {"allot", "set"};
	int n = 2, r;

	d->at = DIALOGUE_KEYS;
	if (!*d->memory && !*d->prompt.text) {
		DIALOGUE_SAY(d, "nothing was changed");
		return;
	}
	snprintf(memory, sizeof(memory), "--memory=%s", d->memory);
	snprintf(compute, sizeof(compute), "--compute=%s", d->prompt.text);
	if (*d->memory)
		argv[n++] = memory;
	if (*d->prompt.text)
		argv[n++] = compute;
	argv[n++] = "--";
	argv[n] = d->name;
	r = self_run(argv, d->message, sizeof(d->message));
	if (r < 0)
		DIALOGUE_SAY(d, "cannot run allot set: %s", say_errno(r));
	d->stale = true;
}

/* --- Keys ------------------------------------------------------------------------------------ */

static void dialogue_filter(struct dialogue *d, int key)
{
	enum prompt_state state = prompt_key(&d->prompt, key);

	if (state == PROMPT_CANCELLED)
		d->prompt.text[0] = 0;
	d->prompt.text[sizeof(d->state->choice.filter) - 1] = 0;
	memcpy(d->state->choice.filter, d->prompt.text, sizeof(d->state->choice.filter));
	if (state != PROMPT_GOES_ON)
		d->at = DIALOGUE_KEYS;
}

static void dialogue_columns(struct dialogue *d, int key)
{
	enum prompt_state state = prompt_key(&d->prompt, key);
	struct frame_word wrong;

	if (state == PROMPT_GOES_ON)
		return;
	d->at = DIALOGUE_KEYS;
	if (state == PROMPT_CANCELLED)
		DIALOGUE_SAY(d, "nothing was changed");
	else if (frame_table_parse_columns(d->prompt.text, &d->state->columns, &wrong) < 0)
		DIALOGUE_SAY(d,
			     "there is no column \"%s\": write them as their headings, with \"-\" "
			     "for spaces",
			     wrong.s);
}

static void dialogue_save(struct dialogue *d)
{
	char path[PATH_MAX];
	int r = settings_path(path);

	if (!r)
		r = settings_write(path, d->state);
	else
		snprintf(path, sizeof(path), "neither XDG_CONFIG_HOME nor HOME is set");
	if (r < 0)
		DIALOGUE_SAY(d, "not saved: %s: %s", path, say_errno(r));
	else
		DIALOGUE_SAY(d, "saved in %s", path);
}

static void dialogue_type(struct dialogue *d, const struct view *view, int key)
{
	enum prompt_state state = prompt_key(&d->prompt, key);

	if (state == PROMPT_CANCELLED) {
		d->at = DIALOGUE_KEYS;
		DIALOGUE_SAY(d, "nothing was changed");
	} else if (state == PROMPT_DONE && d->at == DIALOGUE_MEMORY) {
		dialogue_ask_share(d, view);
	} else if (state == PROMPT_DONE) {
		dialogue_set(d);
	}
}

/* A step on a scale of intervals that read well. */
static uint64_t dialogue_step(uint64_t interval_us, int by)
{
	static const uint64_t ms[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
	const int n = sizeof(ms) / sizeof(ms[0]);

	if (by > 0) {
		for (int i = 0; i < n; i++)
			if (ms[i] * 1000 > interval_us)
				return ms[i] * 1000;
	} else {
		for (int i = n - 1; i >= 0; i--)
			if (ms[i] * 1000 < interval_us)
				return ms[i] * 1000;
	}
	return interval_us;
}

static void dialogue_escape(struct dialogue *d)
{
	struct frame_state *state = d->state;

	if (state->help)
		state->help = false;
	else if (state->processes)
		state->processes = false;
	else
		state->choice.filter[0] = 0;
}

/* Handles keys that only change the display; false for other keys. */
static bool dialogue_show(struct dialogue *d, int key)
{
	static const struct {
		int key, rows, pages; /* how far the selection moves */
	} moves[] = {{DIALOGUE_UP, -1, 0},	   {'k', -1, 0},
		     {DIALOGUE_DOWN, 1, 0},	   {'j', 1, 0},
		     {DIALOGUE_PAGE_UP, 0, -1},	   {DIALOGUE_PAGE_DOWN, 0, 1},
		     {DIALOGUE_HOME, -1000000, 0}, {DIALOGUE_END, 1000000, 0}};
	static const char sorts[ROWS_SORTS] = {'m', 's', 'n', 'u', 'r'};
	struct frame_state *state = d->state;

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		if (key == moves[i].key)
			state->choice.move += moves[i].rows + moves[i].pages * d->page;
	for (int i = 0; i < ROWS_SORTS; i++)
		if (key == sorts[i])
			state->choice.sort = (enum rows_sort)i;
	switch (key) {
	case '?':
		state->help = !state->help;
		break;
	case '\n':
	case '\r':
	case 'p':
		state->processes = !state->processes;
		d->stale = true;
		break;
	case '+':
	case '-':
		state->interval_us = dialogue_step(state->interval_us, key == '+' ? 1 : -1);
		break;
	case 'R':
		state->choice.reverse = !state->choice.reverse;
		break;
	case 'M':
		state->no_mouse = !state->no_mouse;
		break;
	case 'd':
		state->clocks = !state->clocks;
		d->stale = true;
		break;
	case PROMPT_ESCAPE:
		dialogue_escape(d);
		break;
	default:
		return false;
	}
	return true;
}

bool dialogue_key(struct dialogue *d, const struct view *view, int key)
{
	struct row row;
	d->message[0] = 0;
	switch (d->at) {
	case DIALOGUE_FILTER:
		dialogue_filter(d, key);
		return true;
	case DIALOGUE_MEMORY:
	case DIALOGUE_SHARE:
		dialogue_type(d, view, key);
		return true;
	case DIALOGUE_SIGNAL:
		dialogue_answer_signal(d, key);
		return true;
	case DIALOGUE_WHICH:
		dialogue_which(d, view, key);
		return true;
	case DIALOGUE_COLUMNS:
		dialogue_columns(d, key);
		return true;
	case DIALOGUE_KEYS:
		break;
	}
	if (dialogue_show(d, key))
		return true;
	if (d->state->help)
		return key != 'q';
	switch (key) {
	case 'q':
		return false;
	case '/':
		dialogue_ask(d, DIALOGUE_FILTER);
		snprintf(d->prompt.text, sizeof(d->prompt.text), "%s", d->state->choice.filter);
		DIALOGUE_ASK(d, "show only what has: ");
		break;
	case 'c':
		dialogue_ask(d, DIALOGUE_COLUMNS);
		frame_table_write_columns(&d->state->columns, d->prompt.text,
					  sizeof(d->prompt.text));
		DIALOGUE_ASK(d, "columns (none: as many as fit): ");
		break;
	case 'S':
		if (!dialogue_selected(d, view, &row))
			break;
		snprintf(d->whose, sizeof(d->whose), "%s", row.name);
		dialogue_ask(d, DIALOGUE_WHICH);
		DIALOGUE_ASK(d, "signal to %s: ", d->whose);
		break;
	case 'W':
		dialogue_save(d);
		break;
	case 'e':
		dialogue_begin_set(d, view);
		break;
	case 't':
		dialogue_begin_signal(d, view, SIGTERM);
		break;
	case 'K':
		dialogue_begin_signal(d, view, SIGKILL);
		break;
	}
	return true;
}

/* The order that a heading stands for; -1: none. */
static int dialogue_sort_of(const char *headings, size_t column)
{
	static const struct {
		const char *heading;
		enum rows_sort sort;
	} sorts[] = {
		{"TENANT", ROWS_BY_NAME},  {"USER", ROWS_BY_USER},   {"USED", ROWS_BY_MEMORY},
		{"QUOTA", ROWS_BY_MEMORY}, {"MEM%", ROWS_BY_MEMORY}, {"MEMORY", ROWS_BY_MEMORY},
		{"SHARE", ROWS_BY_SHARE},  {"OF", ROWS_BY_SHARE},    {"REFUSED", ROWS_BY_REFUSALS}};
	size_t begin = column, len;

	if (column >= strlen(headings) || headings[column] == ' ')
		return -1;
	while (begin && headings[begin - 1] != ' ')
		begin--;
	len = strcspn(headings + begin, " ");
	for (size_t i = 0; i < sizeof(sorts) / sizeof(sorts[0]); i++)
		if (strlen(sorts[i].heading) == len &&
		    !strncmp(headings + begin, sorts[i].heading, len))
			return (int)sorts[i].sort;
	return -1;
}

static void dialogue_click_row(struct frame_state *state, const struct frame *frame, int row)
{
	for (int i = 0; i < frame->n; i++)
		if (frame->line[i].selected && frame->line[i].row != row)
			state->choice.move += row - frame->line[i].row;
		else if (frame->line[i].selected)
			state->processes = !state->processes;
}

void dialogue_click(struct dialogue *d, const struct frame *frame, int line, int column)
{
	struct rows_choice *choice = &d->state->choice;
	int row = line >= 0 && line < frame->n ? frame->line[line].row : 0, sort;

	if (d->at != DIALOGUE_KEYS || d->state->help || column < 0)
		return;
	d->message[0] = 0;
	if (row > 0) {
		dialogue_click_row(d->state, frame, row);
		d->stale = true;
	}
	sort = row == FRAME_ROW_HEADINGS ? dialogue_sort_of(frame->line[line].text, (size_t)column)
					 : -1;
	if (sort >= 0) {
		choice->reverse = choice->sort == (enum rows_sort)sort && !choice->reverse;
		choice->sort = (enum rows_sort)sort;
	}
}

void dialogue_close(struct dialogue *d)
{
	end_free(&d->end);
}
