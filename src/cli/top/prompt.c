/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/prompt.h"

#include <string.h>

enum prompt_state prompt_key(struct prompt *prompt, int key)
{
	size_t len = strlen(prompt->text);

	if (key == '\n' || key == '\r')
		return PROMPT_DONE;
	if (key == PROMPT_ESCAPE)
		return PROMPT_CANCELLED;
	if (key == PROMPT_KILL)
		prompt->text[0] = 0;
	else if ((key == PROMPT_BACKSPACE || key == 8) && len)
		prompt->text[len - 1] = 0;
	else if (key >= ' ' && key < 127 && len + 1 < sizeof(prompt->text))
		memcpy(prompt->text + len, (char[]){(char)key, 0}, 2);
	return PROMPT_GOES_ON;
}
