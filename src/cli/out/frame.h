/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `allot top` shows, as lines of text and bars: the same for a terminal and for a pipe. Pure:
 * tenants and a state in, lines out.
 */
#ifndef ALLOT_CLI_OUT_FRAME_H
#define ALLOT_CLI_OUT_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "node/tenants.h"

#define FRAME_LINES 512

enum frame_sort { FRAME_BY_MEMORY, FRAME_BY_COMPUTE, FRAME_BY_NAME, FRAME_BY_REFUSALS };

enum frame_level { FRAME_CALM, FRAME_HIGH, FRAME_FULL }; /* below 75 %, below 95 %, above */

struct frame_state {
	enum frame_sort sort;
	bool processes;			/* of the selected tenant, with its compute over time */
	char tenant[POLICY_NAME_BYTES]; /* selected; "" is the first */
	uint8_t uuid[16];
	int move; /* entries to move the selection by; taken and zeroed */
};

struct frame_line {
	char text[240];
	int bar_permille; /* -1: text; else a bar over the whole width */
	enum frame_level level;
	bool strong, selected;
};

struct frame {
	int n;
	struct frame_line line[FRAME_LINES];
};

/* Fits into width x height (columns, lines); height 0 is as long as it takes. */
void frame_build(const struct tenants *tenants, struct frame_state *state, int width, int height,
		 struct frame *ret);

#endif
