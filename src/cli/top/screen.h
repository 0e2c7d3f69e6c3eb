/* SPDX-License-Identifier: Apache-2.0 */
/* The live view of `allot top` on a terminal; screen_none.c replaces it without ncurses. */
#ifndef ALLOT_CLI_TOP_SCREEN_H
#define ALLOT_CLI_TOP_SCREEN_H

#include <stdbool.h>

#include "cli/top/frame.h"

/* True if this build and this terminal (TERM) can show the screen. */
bool screen_usable(void);

/* Shows until q, from a view that was read, a message first; returns the exit status. */
int screen_run(struct frame_state *state, struct view_reader *reader, const char *runtime,
	       struct view *view, const char *message);

#endif
