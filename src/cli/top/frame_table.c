/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/frame_table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/device/limits.h"
#include "cli/top/columns.h"
#include "cli/top/spark.h"
#include "node/compute_words.h"
#include "node/figures.h"
#include "node/moved.h"
#include "text/text.h"
#include "text/units.h"

#define CELL_BYTES 160

/* Bars and graphs are made when their columns' widths are known; for these a cell says "here". */
struct cells {
	char text[COLUMNS_MOST][CELL_BYTES];
	int permille; /* of the bar; -1: none */
	enum frame_level level;
	const uint64_t *memory; /* TRAIL_SAMPLES; NULL: none */
	uint64_t memory_full;
	uint64_t share[SNAPSHOT_SECONDS], share_full; /* 0: none */
};

enum frame_draw { DRAW_TEXT, DRAW_BAR, DRAW_MEMORY, DRAW_SHARE };

/* Ranks in these two tables: on a narrow screen the highest is left out first. */
enum {
	DEVICE_INDEX,
	DEVICE_MODEL,
	DEVICE_TOTAL,
	DEVICE_USED,
	DEVICE_PROMISED,
	DEVICE_FREE,
	DEVICE_UTIL,
	DEVICE_TEMP,
	DEVICE_POWER,
	DEVICE_BAR,
	DEVICE_TRAIL,
	DEVICE_COLUMNS
};

static const struct column device_columns[DEVICE_COLUMNS] = {
	[DEVICE_INDEX] = {"GPU", 3, 3, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_MODEL] = {"MODEL", 5, 28, 5, COLUMN_LEFT, COLUMN_FITS},
	[DEVICE_TOTAL] = {"TOTAL", 5, 10, 3, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_USED] = {"USED", 8, 10, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_PROMISED] = {"PROMISED", 8, 10, 1, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_FREE] = {"FREE", 8, 10, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_UTIL] = {"UTIL", 4, 4, 0, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_TEMP] = {"TEMP", 4, 5, 2, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_POWER] = {"POWER", 5, 6, 2, COLUMN_RIGHT, COLUMN_FITS},
	[DEVICE_BAR] = {"MEMORY", 8, 40, 4, COLUMN_LEFT, COLUMN_GROWS},
	[DEVICE_TRAIL] = {"OVER TIME", 9, TRAIL_SAMPLES, 6, COLUMN_LEFT, COLUMN_GROWS},
};

static const enum frame_draw device_draw[DEVICE_COLUMNS] = {
	[DEVICE_BAR] = DRAW_BAR, [DEVICE_TRAIL] = DRAW_MEMORY};

enum {
	ROW_MARK,
	ROW_NAME,
	ROW_USER,
	ROW_GPU,
	ROW_STATE,
	ROW_PROCESSES,
	ROW_USED,
	ROW_QUOTA,
	ROW_PART,
	ROW_BAR,
	ROW_TRAIL,
	ROW_SHARE,
	ROW_OF,
	ROW_SHARE_TRAIL,
	ROW_HOW,
	ROW_AWAY,
	ROW_REFUSED,
	ROW_COMMAND,
	ROW_COLUMNS
};

_Static_assert(ROW_COLUMNS <= COLUMNS_MOST, "both tables fit");

static const struct column row_columns[ROW_COLUMNS] = {
	[ROW_MARK] = {"", 1, 1, 0, COLUMN_LEFT, COLUMN_FITS},
	[ROW_NAME] = {"TENANT", 8, 24, 0, COLUMN_LEFT, COLUMN_YIELDS},
	[ROW_USER] = {"USER", 4, 12, 5, COLUMN_LEFT, COLUMN_FITS},
	[ROW_GPU] = {"GPU", 3, 20, 1, COLUMN_LEFT, COLUMN_FITS},
	[ROW_STATE] = {"STATE", 5, 16, 7, COLUMN_LEFT, COLUMN_FITS},
	[ROW_PROCESSES] = {"PROC", 4, 5, 6, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_USED] = {"USED", 8, 10, 0, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_QUOTA] = {"QUOTA", 8, 10, 0, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_PART] = {"MEM%", 4, 4, 2, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_BAR] = {"MEMORY", 6, 40, 4, COLUMN_LEFT, COLUMN_GROWS},
	[ROW_TRAIL] = {"OVER TIME", 9, TRAIL_SAMPLES, 9, COLUMN_LEFT, COLUMN_GROWS},
	[ROW_SHARE] = {"SHARE", 6, 6, 1, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_OF] = {"OF", 5, 6, 3, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_SHARE_TRAIL] = {"LAST MINUTE", 11, SNAPSHOT_SECONDS, 8, COLUMN_LEFT, COLUMN_GROWS},
	[ROW_HOW] = {"HOW", 3, 20, 11, COLUMN_LEFT, COLUMN_FITS},
	[ROW_AWAY] = {"AWAY", 6, 10, 3, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_REFUSED] = {"REFUSED", 7, 7, 3, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_COMMAND] = {"COMMAND", 10, 80, 10, COLUMN_LEFT, COLUMN_GROWS},
};

static const enum frame_draw row_draw[ROW_COLUMNS] = {
	[ROW_BAR] = DRAW_BAR, [ROW_TRAIL] = DRAW_MEMORY, [ROW_SHARE_TRAIL] = DRAW_SHARE};

struct layout {
	const struct column *column;
	const enum frame_draw *draw;
	int n;
	int width[COLUMNS_MOST];
};

static void frame_table_put(struct cells *cells, int column, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void frame_table_put(struct cells *cells, int column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cells->text[column], CELL_BYTES, fmt, ap);
	va_end(ap);
	text_make_printable(cells->text[column]);
}

static void frame_table_put_bar(struct cells *cells, int column, int permille)
{
	cells->permille = permille;
	cells->level = permille < 750 ? FRAME_CALM : permille < 950 ? FRAME_HIGH : FRAME_FULL;
	frame_table_put(cells, column, "%s", permille < 0 ? "" : "|");
}

static void frame_table_put_trail(struct cells *cells, int column, const struct view *view,
				  const char *name, const uint8_t *uuid, uint64_t full)
{
	const struct trail *trail = uuid ? trail_find(&view->trails, name, uuid) : NULL;

	cells->memory = trail ? trail->sample : NULL;
	cells->memory_full = full;
	frame_table_put(cells, column, "%s", trail ? "|" : "");
	/* Without a whole, the most that was seen is one. */
	for (int i = 0; trail && !full && i < TRAIL_SAMPLES; i++)
		if (trail->sample[i] != SPARK_NONE && trail->sample[i] > cells->memory_full)
			cells->memory_full = trail->sample[i];
}

/* Widens `need` to the contents of these cells. */
static void frame_table_measure(const struct layout *l, const struct cells *cells, int *need)
{
	for (int c = 0; c < l->n; c++) {
		int columns = (int)text_columns(cells->text[c]);

		need[c] = columns > need[c] ? columns : need[c];
	}
}

static void frame_table_fit(struct layout *l, int *need, int width)
{
	/* A heading is no reason to show a column, and one to make it wider. */
	for (int c = 0; c < l->n; c++)
		if (need[c] && need[c] < (int)strlen(l->column[c].heading))
			need[c] = (int)strlen(l->column[c].heading);
	columns_fit(l->column, l->n, need, width, l->width);
}

static void frame_table_make_cell(const struct layout *l, const struct cells *cells, int c,
				  bool utf8, char ret[static FRAME_BYTES])
{
	enum frame_draw draw = l->draw[c];
	int width = l->width[c];

	if (draw == DRAW_BAR && cells->permille >= 0)
		spark_bar(cells->permille, width, utf8, ret);
	else if (draw == DRAW_MEMORY && cells->memory)
		spark_draw(cells->memory, TRAIL_SAMPLES, cells->memory_full, width, utf8, ret);
	else if (draw == DRAW_SHARE && cells->share_full)
		spark_draw(cells->share, SNAPSHOT_SECONDS, cells->share_full, width, utf8, ret);
	else
		snprintf(ret, FRAME_BYTES, "%s", draw == DRAW_TEXT ? cells->text[c] : "");
}

/* A cell at column `at` of the line, which ends there. */
static int frame_table_append(struct frame_line *line, char *cell, const struct column *column,
			      int width, int at)
{
	bool right = column->align == COLUMN_RIGHT;
	size_t end = strlen(line->text), room = sizeof(line->text) - end;
	int pad;

	if (at && room > COLUMNS_GAP) {
		snprintf(line->text + end, room, "%*s", COLUMNS_GAP, "");
		at += COLUMNS_GAP;
		end += COLUMNS_GAP;
		room -= COLUMNS_GAP;
	}
	if (column->how == COLUMN_YIELDS)
		text_clip_middle(cell, (size_t)width);
	else
		text_clip(cell, (size_t)width);
	pad = width - (int)text_columns(cell);
	snprintf(line->text + end, room, "%*s%s%*s", right ? pad : 0, "", cell, right ? 0 : pad,
		 "");
	return at + width;
}

static struct frame_line *frame_table_add_cells(struct frame *f, const struct layout *l,
						const struct cells *cells, bool utf8)
{
	struct frame_line *line = frame_line_add(f, "%s", "");
	char cell[FRAME_BYTES];
	int at = 0;

	for (int c = 0; c < l->n; c++) {
		if (!l->width[c])
			continue;
		if (l->draw[c] == DRAW_BAR && cells->permille >= 0) {
			line->bar_at = at ? at + COLUMNS_GAP : 0;
			line->bar_width = l->width[c];
			line->level = cells->level;
		}
		frame_table_make_cell(l, cells, c, utf8, cell);
		at = frame_table_append(line, cell, &l->column[c], l->width[c], at);
	}
	return line;
}

static void frame_table_add_headings(struct frame *f, const struct layout *l)
{
	struct frame_line *line = frame_line_add(f, "%s", "");
	char cell[FRAME_BYTES];
	int at = 0;

	line->style = FRAME_HEADING;
	for (int c = 0; c < l->n; c++) {
		if (!l->width[c])
			continue;
		snprintf(cell, sizeof(cell), "%s", l->column[c].heading);
		at = frame_table_append(line, cell, &l->column[c], l->width[c], at);
	}
}

/* --- Devices --------------------------------------------------------------------------------- */

static void frame_table_fill_device(const struct view *view, const struct gauge *g,
				    struct cells *cells)
{
	struct tenants_sum sum = tenants_sum(&view->tenants, g->uuid, g->total_bytes);
	bool known = g->used_bytes != GAUGE_BYTES_UNKNOWN;

	*cells = (struct cells){.permille = -1};
	frame_table_put(cells, DEVICE_INDEX, "%u", g->index);
	frame_table_put(cells, DEVICE_MODEL, "%s", g->model);
	frame_table_put(cells, DEVICE_TOTAL, "%s",
			g->total_bytes ? units_bytes(g->total_bytes).s : "-");
	frame_table_put(cells, DEVICE_USED, "%s", known ? units_bytes(g->used_bytes).s : "-");
	frame_table_put(cells, DEVICE_PROMISED, "%s", units_bytes(sum.promised_bytes).s);
	frame_table_put(cells, DEVICE_FREE, "%s",
			known && g->total_bytes >= g->used_bytes
				? units_bytes(g->total_bytes - g->used_bytes).s
				: "-");
	frame_table_put(cells, DEVICE_UTIL, "-");
	if (g->busy_percent != GAUGE_UNKNOWN)
		frame_table_put(cells, DEVICE_UTIL, "%" PRIu32 "%%", g->busy_percent);
	frame_table_put(cells, DEVICE_TEMP, "-");
	if (g->celsius != GAUGE_UNKNOWN)
		frame_table_put(cells, DEVICE_TEMP, "%" PRIu32 " C", g->celsius);
	frame_table_put(cells, DEVICE_POWER, "-");
	if (g->milliwatt != GAUGE_UNKNOWN)
		frame_table_put(cells, DEVICE_POWER, "%" PRIu32 " W", g->milliwatt / 1000);
	frame_table_put_bar(cells, DEVICE_BAR,
			    known && g->total_bytes
				    ? (int)((double)g->used_bytes * 1000 / (double)g->total_bytes)
				    : -1);
	frame_table_put_trail(cells, DEVICE_TRAIL, view, VIEW_DEVICE, g->uuid, g->total_bytes);
}

void frame_table_devices(struct frame *frame, const struct view *view,
			 const struct frame_state *state, int width, int most)
{
	struct layout l = {device_columns, device_draw, DEVICE_COLUMNS, {0}};
	unsigned int n = view->gauges.n;
	int need[COLUMNS_MOST] = {0};
	static struct cells cells;

	if (!n)
		return;
	if (most && n > (unsigned int)most)
		n = most > 1 ? (unsigned int)most - 1 : 1;
	for (unsigned int i = 0; i < n; i++) {
		frame_table_fill_device(view, &view->gauges.list[i], &cells);
		frame_table_measure(&l, &cells, need);
	}
	frame_table_fit(&l, need, width);
	frame_table_add_headings(frame, &l);
	for (unsigned int i = 0; i < n; i++) {
		frame_table_fill_device(view, &view->gauges.list[i], &cells);
		frame_table_add_cells(frame, &l, &cells, state->utf8);
	}
	if (n < view->gauges.n)
		frame_line_add(frame, "  %s",
			       units_count(view->gauges.n - n, "more device", "more devices").s);
}

/* --- Tenants, and programs outside of all ---------------------------------------------------- */

static void frame_table_fill_share(const struct row *row, struct cells *cells)
{
	const struct snapshot_compute *compute = &row->device->compute;

	frame_table_put(cells, ROW_SHARE, "%" PRIu32 ".%" PRIu32 "%%",
			compute->achieved_1s_bp / 100, compute->achieved_1s_bp / 10 % 10);
	frame_table_put(cells, ROW_OF, "%s", units_permille(rows_target_permille(row)).s);
	frame_table_put(cells, ROW_SHARE_TRAIL, "|");
	cells->share_full = rows_target_permille(row) * 10;
	for (int i = 0; i < SNAPSHOT_SECONDS; i++) {
		cells->share[i] = compute->history_bp[i];
		/* More than it may count on, as when it is alone, is no more than full. */
		if (cells->share[i] > cells->share_full)
			cells->share[i] = cells->share_full;
	}
}

static void frame_table_fill_tenant(const struct row *row, struct cells *cells)
{
	const struct snapshot *s = row->tenant->snapshot;
	struct moved moved = moved_of(row->tenant);
	uint64_t away = moved.host_bytes + moved.file_bytes;

	frame_table_put(cells, ROW_STATE, "%s", tenants_state_word(row->tenant));
	frame_table_put(cells, ROW_PROCESSES, "%u", tenants_live(s));
	frame_table_put(cells, ROW_QUOTA, "%s",
			row->limit_bytes ? units_bytes(row->limit_bytes).s
					 : limits_words(&s->policy.device[0]).s);
	if (rows_has_share(row))
		frame_table_fill_share(row, cells);
	if (row->device && row->device->compute.units) {
		frame_table_put(cells, ROW_SHARE, "%" PRIu32 " CU", row->device->compute.units);
		frame_table_put(cells, ROW_OF, "%s",
				units_permille(row->device->compute.target_permille).s);
	}
	if (s->policy.compute != POLICY_COMPUTE_OFF)
		frame_table_put(cells, ROW_HOW, "%s", compute_how(&s->policy).s);
	if (away && s->policy.flags & POLICY_SWAPPABLE)
		frame_table_put(cells, ROW_AWAY, "%s", units_bytes(away).s);
	if (row->device && row->device->refusals)
		frame_table_put(cells, ROW_REFUSED, "%" PRIu64, row->device->refusals);
}

static void frame_table_put_standing(struct cells *cells, const struct outsider *outsider)
{
	if (outsider->standing == OUTSIDER_HIDDEN)
		frame_table_put(cells, ROW_STATE, "another user's");
	else if (outsider->standing == OUTSIDER_UNREAD)
		frame_table_put(cells, ROW_STATE, "unread");
	else if (outsider->standing == OUTSIDER_TOOL)
		frame_table_put(cells, ROW_STATE, "allot's");
	else
		frame_table_put(cells, ROW_STATE, "%s%s", *outsider->tenant ? "beyond " : "outside",
				outsider->tenant);
}

static bool frame_table_alerts(const struct row *row)
{
	return row->outside && row->outside->outsider.standing == OUTSIDER_UNLIMITED;
}

static void frame_table_fill_row(const struct view *view, const struct row *row, bool selected,
				 struct cells *cells)
{
	int permille = rows_memory_permille(row, view);
	int index = row->uuid ? figures_index(row->uuid) : -1;

	*cells = (struct cells){.permille = -1};
	frame_table_put(cells, ROW_MARK, "%s", selected ? ">" : " ");
	frame_table_put(cells, ROW_NAME, "%s", row->name);
	frame_table_put(cells, ROW_USER, "%s", row->user);
	frame_table_put(cells, ROW_GPU, "%s", row->uuid ? units_uuid_short(row->uuid).s : "-");
	if (index >= 0)
		frame_table_put(cells, ROW_GPU, "%d", index);
	if (row->used_bytes == UINT64_MAX)
		frame_table_put(cells, ROW_USED, "?");
	else
		frame_table_put(cells, ROW_USED, "%s%s",
				row->device && row->device->guessed_bytes ? "~" : "",
				units_bytes(row->used_bytes).s);
	if (permille >= 0)
		frame_table_put(cells, ROW_PART, "%d%%", permille / 10);
	frame_table_put_bar(cells, ROW_BAR, permille);
	frame_table_put_trail(cells, ROW_TRAIL, view, row->name, row->uuid,
			      rows_memory_whole(row, view));
	frame_table_put(cells, ROW_COMMAND, "%s", row->command);
	if (row->tenant) {
		frame_table_fill_tenant(row, cells);
	} else {
		frame_table_put_standing(cells, &row->outside->outsider);
		frame_table_put(cells, ROW_QUOTA, "-");
	}
}

void frame_table_rows(struct frame *frame, const struct view *view, const struct frame_state *state,
		      const struct rows *rows, int width, size_t first, size_t last, long at)
{
	struct layout l = {row_columns, row_draw, ROW_COLUMNS, {0}};
	int need[COLUMNS_MOST] = {0};
	static struct cells cells;

	/* All of them, so that columns stay where they are when the list scrolls. */
	for (size_t i = 0; i < rows->n; i++) {
		frame_table_fill_row(view, &rows->list[i], false, &cells);
		frame_table_measure(&l, &cells, need);
	}
	frame_table_fit(&l, need, width);
	frame_table_add_headings(frame, &l);
	for (size_t i = first; i < last; i++) {
		const struct row *row = &rows->list[i];
		struct frame_line *line;

		frame_table_fill_row(view, row, (long)i == at, &cells);
		line = frame_table_add_cells(frame, &l, &cells, state->utf8);
		line->selected = (long)i == at;
		line->style = frame_table_alerts(row) ? FRAME_ALERT
			      : line->selected ? FRAME_STRONG
					       : FRAME_PLAIN;
	}
}
