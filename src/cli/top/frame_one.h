/* SPDX-License-Identifier: Apache-2.0 */
/* One tenant or program in `allot top`: its row, its processes, its memory and share over time. */
#ifndef ALLOT_CLI_TOP_FRAME_ONE_H
#define ALLOT_CLI_TOP_FRAME_ONE_H

#include "cli/top/frame_line.h"

/* Of the selected one, of rows that are not none. */
void frame_one(struct frame *frame, const struct view *view, struct frame_state *state,
	       const struct rows *rows, int width, int height);

#endif
