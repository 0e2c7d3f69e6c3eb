/* SPDX-License-Identifier: Apache-2.0 */
/* The list of `allot top`: tenants, and those outside. */
#ifndef ALLOT_CLI_TOP_FRAME_TABLE_H
#define ALLOT_CLI_TOP_FRAME_TABLE_H

#include "cli/top/frame_line.h"

/* A column's name: its heading, in lower case and with "-" for spaces. */
struct frame_word {
	char s[24];
};

/*
 * Names of columns, with commas or spaces between them, into a choice; none: the screen chooses.
 * -EINVAL with the first name that is none.
 */
int frame_table_parse_columns(const char *text, struct frame_columns *ret,
			      struct frame_word *ret_wrong);
void frame_table_write_columns(const struct frame_columns *columns, char *ret, size_t size);

/* Rows from `first` to before `last`, of which `at` is selected (-1: none). */
void frame_table_rows(struct frame *frame, const struct view *view, const struct frame_state *state,
		      const struct rows *rows, int width, size_t first, size_t last, long at);

#endif
