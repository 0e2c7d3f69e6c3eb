/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/frame_table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/device/limits.h"
#include "cli/top/cells.h"
#include "node/compute_words.h"
#include "node/figures.h"
#include "node/moved.h"
#include "text/text.h"
#include "text/units.h"

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
	ROW_POWER,
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
	[ROW_POWER] = {"POWER", 5, 7, 8, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_HOW] = {"HOW", 3, 20, 11, COLUMN_LEFT, COLUMN_FITS},
	[ROW_AWAY] = {"AWAY", 6, 10, 3, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_REFUSED] = {"REFUSED", 7, 7, 3, COLUMN_RIGHT, COLUMN_FITS},
	[ROW_COMMAND] = {"COMMAND", 10, 80, 10, COLUMN_LEFT, COLUMN_GROWS},
};

static const enum cells_draw row_draw[ROW_COLUMNS] = {
	[ROW_BAR] = CELLS_BAR, [ROW_TRAIL] = CELLS_TRAIL, [ROW_SHARE_TRAIL] = CELLS_SHARE};

static void frame_table_fill_share(const struct row *row, struct cells *cells)
{
	const struct snapshot_compute *compute = &row->device->compute;

	cells_put(cells, ROW_SHARE, "%" PRIu32 ".%" PRIu32 "%%", compute->achieved_1s_bp / 100,
		  compute->achieved_1s_bp / 10 % 10);
	cells_put(cells, ROW_OF, "%s", units_permille(rows_target_permille(row)).s);
	cells_put(cells, ROW_SHARE_TRAIL, "|");
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

	cells_put(cells, ROW_STATE, "%s", tenants_state_word(row->tenant));
	cells_put(cells, ROW_PROCESSES, "%u", tenants_live(s));
	cells_put(cells, ROW_QUOTA, "%s",
		  row->limit_bytes ? units_bytes(row->limit_bytes).s
				   : limits_words(&s->policy.device[0]).s);
	if (rows_has_share(row))
		frame_table_fill_share(row, cells);
	if (row->device && row->device->compute.units) {
		cells_put(cells, ROW_SHARE, "%" PRIu32 " CU", row->device->compute.units);
		cells_put(cells, ROW_OF, "%s",
			  units_permille(row->device->compute.target_permille).s);
	}
	if (s->policy.compute != POLICY_COMPUTE_OFF)
		cells_put(cells, ROW_HOW, "%s", compute_how(&s->policy).s);
	if (away && s->policy.flags & POLICY_SWAPPABLE)
		cells_put(cells, ROW_AWAY, "%s", units_bytes(away).s);
	if (row->device && row->device->milliwatt != DEVICE_TIME_NO_POWER)
		cells_put(cells, ROW_POWER, "%s", units_power(row->device->milliwatt).s);
	if (row->device && row->device->refusals)
		cells_put(cells, ROW_REFUSED, "%" PRIu64, row->device->refusals);
}

static void frame_table_put_standing(struct cells *cells, const struct outsider *outsider)
{
	if (outsider->standing == OUTSIDER_HIDDEN)
		cells_put(cells, ROW_STATE, "another user's");
	else if (outsider->standing == OUTSIDER_UNREAD)
		cells_put(cells, ROW_STATE, "unread");
	else if (outsider->standing == OUTSIDER_TOOL)
		cells_put(cells, ROW_STATE, "allot's");
	else
		cells_put(cells, ROW_STATE, "%s%s", *outsider->tenant ? "beyond " : "outside",
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
	cells_put(cells, ROW_MARK, "%s", selected ? ">" : " ");
	cells_put(cells, ROW_NAME, "%s", row->name);
	cells_put(cells, ROW_USER, "%s", row->user);
	cells_put(cells, ROW_GPU, "%s", row->uuid ? units_uuid_short(row->uuid).s : "-");
	if (index >= 0)
		cells_put(cells, ROW_GPU, "%d", index);
	if (row->used_bytes == UINT64_MAX)
		cells_put(cells, ROW_USED, "?");
	else
		cells_put(cells, ROW_USED, "%s%s",
			  row->device && row->device->guessed_bytes ? "~" : "",
			  units_bytes(row->used_bytes).s);
	if (permille >= 0)
		cells_put(cells, ROW_PART, "%d%%", permille / 10);
	cells_put_bar(cells, ROW_BAR, permille);
	cells_put_trail(cells, ROW_TRAIL, view, row->name, row->uuid, rows_memory_whole(row, view));
	cells_put(cells, ROW_COMMAND, "%s", row->command);
	if (row->tenant) {
		frame_table_fill_tenant(row, cells);
	} else {
		frame_table_put_standing(cells, &row->outside->outsider);
		cells_put(cells, ROW_QUOTA, "-");
	}
}

/* The mark and the name, then the columns that were chosen: the first of them stay longest. */
static void frame_table_choose(const struct frame_state *state, struct column *columns,
			       struct cells_layout *l, int *need)
{
	memcpy(columns, row_columns, sizeof(row_columns));
	if (!state->columns.n)
		return;
	l->order[l->norder++] = ROW_MARK;
	l->order[l->norder++] = ROW_NAME;
	for (int i = 0; i < state->columns.n; i++) {
		int c = state->columns.list[i];

		l->order[l->norder++] = c;
		columns[c].rank = 1 + i;
		need[c] = need[c] ? need[c] : 1; /* empty, and asked for */
	}
}

/* A column's name in lists: its heading, in lower case and without spaces. */
static struct frame_word frame_table_word(int column)
{
	struct frame_word word = {{0}};

	for (size_t i = 0; i < sizeof(word.s) - 1 && row_columns[column].heading[i]; i++) {
		char c = row_columns[column].heading[i];

		word.s[i] = c == ' ' ? '-' : (char)tolower((unsigned char)c);
	}
	return word;
}

static bool frame_table_add_column(const struct frame_word *word, struct frame_columns *columns)
{
	for (int c = ROW_NAME + 1; c < ROW_COLUMNS; c++) {
		if (strcmp(frame_table_word(c).s, word->s))
			continue;
		for (int i = 0; i < columns->n; i++)
			if (columns->list[i] == c)
				return true;
		columns->list[columns->n++] = (uint8_t)c;
		return true;
	}
	return !strcmp(word->s, "tenant"); /* which is always the first */
}

int frame_table_parse_columns(const char *text, struct frame_columns *ret,
			      struct frame_word *ret_wrong)
{
	struct frame_columns columns = {.n = 0};

	for (;;) {
		struct frame_word word = {{0}};
		size_t len;

		text += strspn(text, ", ");
		len = strcspn(text, ", ");
		if (!len)
			break;
		snprintf(word.s, sizeof(word.s), "%.*s", (int)len, text);
		text += len;
		if (len >= sizeof(word.s) || !frame_table_add_column(&word, &columns)) {
			*ret_wrong = word;
			return -EINVAL;
		}
	}
	*ret = columns;
	return 0;
}

void frame_table_write_columns(const struct frame_columns *columns, char *ret, size_t size)
{
	size_t len = 0;

	*ret = 0;
	for (int i = 0; i < columns->n && len < size; i++)
		len += (size_t)snprintf(ret + len, size - len, "%s%s", i ? " " : "",
					frame_table_word(columns->list[i]).s);
}

void frame_table_rows(struct frame *frame, const struct view *view, const struct frame_state *state,
		      const struct rows *rows, int width, size_t first, size_t last, long at)
{
	struct column columns[ROW_COLUMNS];
	struct cells_layout l = {columns, row_draw, ROW_COLUMNS, {0}, 0, {0}};
	int need[COLUMNS_MOST] = {0};
	static struct cells cells;

	/* All of them, so that columns stay where they are when the list scrolls. */
	for (size_t i = 0; i < rows->n; i++) {
		frame_table_fill_row(view, &rows->list[i], false, &cells);
		cells_measure(&l, &cells, need);
	}
	frame_table_choose(state, columns, &l, need);
	cells_fit(&l, need, width);
	cells_add_headings(frame, &l)->row = FRAME_ROW_HEADINGS;
	for (size_t i = first; i < last; i++) {
		const struct row *row = &rows->list[i];
		struct frame_line *line;

		frame_table_fill_row(view, row, (long)i == at, &cells);
		line = cells_add_line(frame, &l, &cells, state->utf8);
		line->selected = (long)i == at;
		line->row = (int)i + 1;
		line->style = frame_table_alerts(row) ? FRAME_ALERT
			      : line->selected	      ? FRAME_STRONG
						      : FRAME_PLAIN;
	}
}
