/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/screen.h"

#include "cli/say/say.h"

bool screen_usable(void)
{
	say_note("note: built without ncurses: one frame only");
	return false;
}

int screen_run(struct frame_state *state, struct view_reader *reader, const char *runtime,
	       struct view *view, const char *message)
{
	return 0;
}
