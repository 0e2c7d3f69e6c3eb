/* SPDX-License-Identifier: Apache-2.0 */
/* A line that a person types at the bottom of the screen. Pure: keys in, text out. */
#ifndef ALLOT_CLI_TOP_PROMPT_H
#define ALLOT_CLI_TOP_PROMPT_H

#include <stddef.h>

#define PROMPT_BYTES 160

struct prompt {
	char text[PROMPT_BYTES];
};

enum prompt_state { PROMPT_GOES_ON, PROMPT_DONE, PROMPT_CANCELLED };

#define PROMPT_ESCAPE	 27
#define PROMPT_BACKSPACE 127 /* and 8 */
#define PROMPT_KILL	 ('U' & 31)

/* A key without meaning in a line (arrows, letters beyond ASCII) does nothing. */
enum prompt_state prompt_key(struct prompt *prompt, int key);

#endif
