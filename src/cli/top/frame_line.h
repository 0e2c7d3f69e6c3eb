/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that a frame of `allot top` is made of, and what it is made by. */
#ifndef ALLOT_CLI_TOP_FRAME_LINE_H
#define ALLOT_CLI_TOP_FRAME_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/top/columns.h"
#include "cli/top/rows.h"

#define FRAME_WIDTH 400 /* columns; a wider screen stays empty there */
#define FRAME_BYTES (FRAME_WIDTH * 4 + 1)

enum frame_level { FRAME_CALM, FRAME_HIGH, FRAME_FULL }; /* below 75 %, below 95 %, above */

enum frame_style { FRAME_PLAIN, FRAME_STRONG, FRAME_HEADING, FRAME_ALERT };

/* Columns of the list in the order that a person chose. */
struct frame_columns {
	int n; /* 0: as many as fit */
	uint8_t list[COLUMNS_MOST];
};

struct frame_state {
	struct rows_choice choice;
	struct frame_columns columns;
	bool clocks;	/* of devices, with power and links, in place of their memory */
	bool processes; /* of the selected row, with its share over time */
	bool help;
	bool no_mouse; /* the terminal keeps it, for selecting text */
	bool utf8;	      /* the terminal shows block characters */
	uint64_t interval_us; /* 0: it is not live */
	int first;	      /* row at the top of the list */
};

#define FRAME_ROW_HEADINGS (-1) /* the list's headings */

struct frame_line {
	char text[FRAME_BYTES]; /* printable when the frame is built */
	enum frame_style style;
	bool selected;
	int row; /* 1 and on: a line of the list, from its beginning; FRAME_ROW_HEADINGS */
	int bar_at, bar_width; /* a bar in it, by columns; 0 wide: none */
	enum frame_level level;
};

struct frame {
	int n, room;
	struct frame_line *line;
};

/* Never NULL: without memory, a line that is not shown. */
struct frame_line *frame_line_add(struct frame *frame, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
