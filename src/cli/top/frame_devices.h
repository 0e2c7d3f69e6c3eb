/* SPDX-License-Identifier: Apache-2.0 */
/* The devices in `allot top`: their memory, or their clocks, power and links. */
#ifndef ALLOT_CLI_TOP_FRAME_DEVICES_H
#define ALLOT_CLI_TOP_FRAME_DEVICES_H

#include "cli/top/frame_line.h"

/* Adds at most `most` devices (0: all), then the number of the others. */
void frame_devices(struct frame *frame, const struct view *view, const struct frame_state *state,
		   int width, int most);

#endif
