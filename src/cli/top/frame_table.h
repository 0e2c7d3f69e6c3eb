/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `allot top`: devices, and the list of tenants and those outside. */
#ifndef ALLOT_CLI_TOP_FRAME_TABLE_H
#define ALLOT_CLI_TOP_FRAME_TABLE_H

#include "cli/top/frame_line.h"

/* Adds at most `most` devices (0: all), then the number of the others. */
void frame_table_devices(struct frame *frame, const struct view *view,
			 const struct frame_state *state, int width, int most);

/* Rows from `first` to before `last`, of which `at` is selected (-1: none). */
void frame_table_rows(struct frame *frame, const struct view *view, const struct frame_state *state,
		      const struct rows *rows, int width, size_t first, size_t last, long at);

#endif
