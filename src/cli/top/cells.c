/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/cells.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/spark.h"
#include "text/text.h"

static int cells_count(const struct cells_layout *l)
{
	return l->norder ? l->norder : l->n;
}

static int cells_column(const struct cells_layout *l, int i)
{
	return l->norder ? l->order[i] : i;
}

void cells_put(struct cells *cells, int column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cells->text[column], CELL_BYTES, fmt, ap);
	va_end(ap);
	text_make_printable(cells->text[column]);
}

void cells_put_bar(struct cells *cells, int column, int permille)
{
	cells->permille = permille;
	cells->level = permille < 750 ? FRAME_CALM : permille < 950 ? FRAME_HIGH : FRAME_FULL;
	cells_put(cells, column, "%s", permille < 0 ? "" : "|");
}

void cells_put_trail(struct cells *cells, int column, const struct view *view, const char *name,
		     const uint8_t *uuid, uint64_t full)
{
	const struct trail *trail = uuid ? trail_find(&view->trails, name, uuid) : NULL;

	cells->trail = trail ? trail->sample : NULL;
	cells->trail_full = full;
	cells_put(cells, column, "%s", trail ? "|" : "");
	/* Without a whole, the most that was seen is one. */
	for (int i = 0; trail && !full && i < TRAIL_SAMPLES; i++)
		if (trail->sample[i] != SPARK_NONE && trail->sample[i] > cells->trail_full)
			cells->trail_full = trail->sample[i];
}

void cells_measure(const struct cells_layout *l, const struct cells *cells, int *need)
{
	for (int c = 0; c < l->n; c++) {
		int columns = (int)text_columns(cells->text[c]);

		need[c] = columns > need[c] ? columns : need[c];
	}
}

void cells_fit(struct cells_layout *l, int *need, int width)
{
	bool shown[COLUMNS_MOST] = {false};

	for (int i = 0; i < cells_count(l); i++)
		shown[cells_column(l, i)] = true;
	for (int c = 0; c < l->n; c++)
		need[c] = shown[c] ? need[c] : 0;
	/* A heading is no reason to show a column, and one to make it wider. */
	for (int c = 0; c < l->n; c++)
		if (need[c] && need[c] < (int)strlen(l->column[c].heading))
			need[c] = (int)strlen(l->column[c].heading);
	columns_fit(l->column, l->n, need, width, l->width);
}

static void cells_make(const struct cells_layout *l, const struct cells *cells, int c, bool utf8,
		       char ret[static FRAME_BYTES])
{
	enum cells_draw draw = l->draw[c];
	int width = l->width[c];

	if (draw == CELLS_BAR && cells->permille >= 0)
		spark_bar(cells->permille, width, utf8, ret);
	else if (draw == CELLS_TRAIL && cells->trail)
		spark_draw(cells->trail, TRAIL_SAMPLES, cells->trail_full, width, utf8, ret);
	else if (draw == CELLS_SHARE && cells->share_full)
		spark_draw(cells->share, SNAPSHOT_SECONDS, cells->share_full, width, utf8, ret);
	else
		snprintf(ret, FRAME_BYTES, "%s", draw == CELLS_TEXT ? cells->text[c] : "");
}

/* A cell at column `at` of the line, which ends there. */
static int cells_append(struct frame_line *line, char *cell, const struct column *column, int width,
			int at)
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

struct frame_line *cells_add_line(struct frame *f, const struct cells_layout *l,
				  const struct cells *cells, bool utf8)
{
	struct frame_line *line = frame_line_add(f, "%s", "");
	char cell[FRAME_BYTES];
	int at = 0;

	for (int i = 0; i < cells_count(l); i++) {
		int c = cells_column(l, i);

		if (!l->width[c])
			continue;
		if (l->draw[c] == CELLS_BAR && cells->permille >= 0) {
			line->bar_at = at ? at + COLUMNS_GAP : 0;
			line->bar_width = l->width[c];
			line->level = cells->level;
		}
		cells_make(l, cells, c, utf8, cell);
		at = cells_append(line, cell, &l->column[c], l->width[c], at);
	}
	return line;
}

struct frame_line *cells_add_headings(struct frame *f, const struct cells_layout *l)
{
	struct frame_line *line = frame_line_add(f, "%s", "");
	char cell[FRAME_BYTES];
	int at = 0;

	line->style = FRAME_HEADING;
	for (int i = 0; i < cells_count(l); i++) {
		int c = cells_column(l, i);

		if (!l->width[c])
			continue;
		snprintf(cell, sizeof(cell), "%s", l->column[c].heading);
		at = cells_append(line, cell, &l->column[c], l->width[c], at);
	}
	return line;
}
