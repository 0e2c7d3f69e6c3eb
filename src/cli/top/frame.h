/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of `allot top` as lines of text, the same for a terminal and for a pipe. Pure: a view
 * and a state in, lines out.
 */
#ifndef ALLOT_CLI_TOP_FRAME_H
#define ALLOT_CLI_TOP_FRAME_H

#include "cli/top/frame_line.h"

/* A key and its action, in a word for the line of keys and in full for the help. NULL ends it. */
struct frame_key {
	const char *key, *word, *help;
};
extern const struct frame_key frame_keys[];

/*
 * Fits into width x height (columns, lines); height 0 is as long as it takes. `ret` is reused, and
 * zeroed before the first time. -ENOMEM.
 */
int frame_build(const struct view *view, struct frame_state *state, int width, int height,
		struct frame *ret);
void frame_free(struct frame *frame);

#endif
