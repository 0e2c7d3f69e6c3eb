/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/frame_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct frame_line *frame_line_add(struct frame *frame, const char *fmt, ...)
{
	static struct frame_line lost;
	struct frame_line *line = &lost;
	va_list ap;

	if (frame->n == frame->room) {
		int room = frame->room ? frame->room * 2 : 64;
		struct frame_line *more = reallocarray(frame->line, (size_t)room, sizeof(*more));

		if (more) {
			frame->line = more;
			frame->room = room;
		}
	}
	if (frame->n < frame->room)
		line = &frame->line[frame->n++];
	memset(line, 0, sizeof(*line));
	va_start(ap, fmt);
	vsnprintf(line->text, sizeof(line->text), fmt, ap);
	va_end(ap);
	return line;
}
