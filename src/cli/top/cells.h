/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of `allot top`: cells are filled and measured, columns are fitted to the screen, and lines
 * are made of them.
 */
#ifndef ALLOT_CLI_TOP_CELLS_H
#define ALLOT_CLI_TOP_CELLS_H

#include "cli/top/columns.h"
#include "cli/top/frame_line.h"

#define CELL_BYTES 160

/* Bars and graphs are made when their columns' widths are known; for these a cell says "here". */
struct cells {
	char text[COLUMNS_MOST][CELL_BYTES];
	int permille; /* of the bar; -1: none */
	enum frame_level level;
	const uint64_t *trail; /* TRAIL_SAMPLES; NULL: none */
	uint64_t trail_full;
	uint64_t share[SNAPSHOT_SECONDS], share_full; /* 0: none */
};

enum cells_draw { CELLS_TEXT, CELLS_BAR, CELLS_TRAIL, CELLS_SHARE };

struct cells_layout {
	const struct column *column;
	const enum cells_draw *draw;
	int n;
	/* The columns from left to right, and how many; 0: all n as they are in the table. */
	int order[COLUMNS_MOST], norder;
	int width[COLUMNS_MOST]; /* by cells_fit() */
};

void cells_put(struct cells *cells, int column, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void cells_put_bar(struct cells *cells, int column, int permille);
/* The samples under that name; `full` 0: the most that was seen is full. */
void cells_put_trail(struct cells *cells, int column, const struct view *view, const char *name,
		     const uint8_t *uuid, uint64_t full);

/* Widens `need` to the contents of these cells. */
void cells_measure(const struct cells_layout *l, const struct cells *cells, int *need);
void cells_fit(struct cells_layout *l, int *need, int width);

struct frame_line *cells_add_headings(struct frame *f, const struct cells_layout *l);
struct frame_line *cells_add_line(struct frame *f, const struct cells_layout *l,
				  const struct cells *cells, bool utf8);

#endif
