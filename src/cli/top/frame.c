/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/frame.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/columns.h"
#include "cli/top/frame_devices.h"
#include "cli/top/frame_one.h"
#include "cli/top/frame_table.h"
#include "text/text.h"
#include "text/units.h"

/* The help is for 60 columns, too. */
const struct frame_key frame_keys[] = {
	{"q", "quit", "end, as control-C does"},
	{"?", "help", "this page, and back"},
	{"/", "filter", "only what has a text in name, user, command"},
	{"m s n u r", "sort", "by memory, share, name, user, refusals"},
	{"R", "reverse", "the other way round"},
	{"enter p", "one", "the selected one alone, with its processes"},
	{"e", "set", "its memory and share, as \"allot set\" does"},
	{"c", "columns", "choose the list's columns, in their order"},
	{"d", "devices", "their clocks, power and PCIe, or their memory"},
	{"t", "end", "end its processes by SIGTERM; asks before"},
	{"K", "kill", "end them by SIGKILL; asks before"},
	{"M", NULL, "leave the mouse to the terminal, or take it"},
	{"S", "signal", "send them any signal; asks before"},
	{"W", "save", "keep order, columns, interval for the next time"},
	{"+ -", "interval", "look less often, or more often"},
	{"up down", NULL, "select; k j, page up and down, home, end, too"},
	{"escape", NULL, "back, or the list without the filter"},
	{"control-L", NULL, "draw the screen anew"},
	{NULL, NULL, NULL},
};

void frame_free(struct frame *frame)
{
	free(frame->line);
	*frame = (struct frame){.n = 0};
}

static void frame_add_part(struct frame_line *line, int width, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Where it fits. */
static void frame_add_part(struct frame_line *line, int width, const char *fmt, ...)
{
	size_t len = strlen(line->text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line->text + len, sizeof(line->text) - len, fmt, ap);
	va_end(ap);
	if (strlen(line->text) > (size_t)width)
		line->text[len] = 0;
}

/* The part of the view that the filter shows, and the tenants without rows, which cannot be read.
 */
struct frame_sum {
	size_t tenants, outside;
	unsigned int live, unreadable;
};

/* A tenant has a row for each of its devices. */
static bool frame_shows(const struct rows *rows, const struct tenant_entry *tenant)
{
	for (size_t i = 0; i < rows->n; i++)
		if (rows->list[i].tenant == tenant)
			return true;
	return false;
}

static struct frame_sum frame_add_up(const struct view *view, const struct rows *rows)
{
	struct frame_sum sum = {.tenants = 0};

	for (size_t i = 0; i < view->tenants.n; i++) {
		const struct tenant_entry *tenant = &view->tenants.list[i];

		if (tenant->error) {
			sum.unreadable++;
		} else if (frame_shows(rows, tenant)) {
			sum.tenants++;
			sum.live += tenants_live(tenant->snapshot);
		}
	}
	for (size_t i = 0; i < rows->n; i++)
		sum.outside += rows->list[i].outside != NULL;
	return sum;
}

/* The most important part is first. */
static void frame_add_title(struct frame *f, const struct view *view, const struct rows *rows,
			    const struct frame_state *state, int width)
{
	struct units_text all = units_count(view->tenants.n, "tenant", "tenants");
	struct frame_sum sum = frame_add_up(view, rows);
	bool filtered = *state->choice.filter;
	struct frame_line *line;

	line = filtered ? frame_line_add(f, "allot: %zu of %s", sum.tenants, all.s)
			: frame_line_add(f, "allot: %s", all.s);
	line->style = FRAME_STRONG;
	if (view->noutside && filtered)
		frame_add_part(line, width, ", %zu of %zu outside", sum.outside, view->noutside);
	else if (view->noutside)
		frame_add_part(line, width, ", %zu outside", view->noutside);
	if (filtered)
		frame_add_part(line, width, ", with \"%s\"", state->choice.filter);
	frame_add_part(line, width, ", %s", units_count(sum.live, "process", "processes").s);
	frame_add_part(line, width, ", by %s%s", rows_sorts[state->choice.sort],
		       state->choice.reverse ? " reversed" : "");
	if (state->interval_us)
		frame_add_part(line, width, ", every %s",
			       units_duration(state->interval_us * 1000).s);
	if (sum.unreadable)
		frame_line_add(f, "%s cannot be read: see \"allot ps\"",
			       units_count(sum.unreadable, "tenant", "tenants").s)
			->style = FRAME_ALERT;
}

/* With the rows that are above it and below it, where there is no room for all. */
static void frame_add_list(struct frame *f, const struct view *view, struct frame_state *state,
			   const struct rows *rows, int width, int height)
{
	size_t at = rows_select(rows, &state->choice), n = rows->n, room = n;
	/* The headings, and on a screen the line of keys. */
	int left = height - f->n - 2;

	if (height && left < (int)n)
		room = left > 2 ? (size_t)left - 1 : left > 0 ? (size_t)left : 1;
	state->first = columns_scroll((int)n, (int)at, (int)room, state->first);
	frame_table_rows(f, view, state, rows, width, (size_t)state->first,
			 (size_t)state->first + room, height ? (long)at : -1);
	if (room < n && left > 2)
		frame_line_add(f, "  %d more above, %zu more below", state->first,
			       n - room - (size_t)state->first)
			->style = FRAME_HEADING;
}

static void frame_add_help(struct frame *f)
{
	frame_line_add(f, "keys of allot top")->style = FRAME_STRONG;
	frame_line_add(f, "%s", "");
	for (const struct frame_key *k = frame_keys; k->key; k++)
		frame_line_add(f, "  %-10s %s", k->key, k->help);
	frame_line_add(f, "%s", "");
	frame_line_add(f, "\"!\" and a pid: a process that nothing limits, outside of");
	frame_line_add(f, "all tenants, or beyond what its tenant's ledger knows of.");
}

/*
 * Every line passes here: no text of others reaches a terminal unchanged, no line is wider than the
 * screen, and no character is one that the terminal cannot show.
 */
static void frame_finish(struct frame *f, const struct frame_state *state, int width)
{
	for (int i = 0; i < f->n; i++) {
		char *text = f->line[i].text;
		size_t len;

		text_make_printable(text);
		if (!state->utf8)
			text_make_ascii(text);
		text_clip(text, (size_t)width);
		for (len = strlen(text); len && text[len - 1] == ' '; len--)
			text[len - 1] = 0;
	}
}

int frame_build(const struct view *view, struct frame_state *state, int width, int height,
		struct frame *ret)
{
	struct rows rows = {.n = 0};
	int r = rows_collect(view, &state->choice, &rows);

	if (r < 0)
		return r;
	width = width > FRAME_WIDTH ? FRAME_WIDTH : width;
	ret->n = 0;
	if (state->help) {
		frame_add_help(ret);
	} else {
		frame_add_title(ret, view, &rows, state, width);
		/* Devices have a quarter of the screen, and at least a line. */
		frame_devices(ret, view, state, width, height ? 1 + height / 4 : 0);
		if (!view->gauges.n)
			frame_line_add(ret, "no device is seen here; \"allot doctor\" says why");
		if (ret->n > 1 && (!height || height > 12))
			frame_line_add(ret, "%s", "");
		if (!rows.n && *state->choice.filter)
			frame_line_add(ret, "nothing has \"%s\" in its name, user or command",
				       state->choice.filter);
		else if (!rows.n)
			frame_line_add(ret, "no tenants in %s; \"allot run\" makes one",
				       view->tenants.runtime);
		else if (state->processes)
			frame_one(ret, view, state, &rows, width, height);
		else
			frame_add_list(ret, view, state, &rows, width, height);
	}
	frame_finish(ret, state, width);
	rows_free(&rows);
	return 0;
}
