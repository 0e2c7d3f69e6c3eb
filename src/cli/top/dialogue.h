/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actions of `allot top`'s keys: on the state of the list, and, after a question, on tenants
 * and programs. Knows nothing of a terminal.
 */
#ifndef ALLOT_CLI_TOP_DIALOGUE_H
#define ALLOT_CLI_TOP_DIALOGUE_H

#include "cli/tenant/end.h"
#include "cli/top/frame.h"
#include "cli/top/prompt.h"

/* Keys that have no character. */
enum {
	DIALOGUE_UP = 512,
	DIALOGUE_DOWN,
	DIALOGUE_PAGE_UP,
	DIALOGUE_PAGE_DOWN,
	DIALOGUE_HOME,
	DIALOGUE_END
};

struct dialogue {
	struct frame_state *state;
	enum {
		DIALOGUE_KEYS,
		DIALOGUE_FILTER,
		DIALOGUE_MEMORY,
		DIALOGUE_SHARE,
		DIALOGUE_SIGNAL,
		DIALOGUE_WHICH,
		DIALOGUE_COLUMNS
	} at;
	struct prompt prompt;
	char question[192]; /* printable; the typed text follows it */
	char message[512];  /* printable; the result of the last action, until the next key */
	char name[POLICY_NAME_BYTES], memory[PROMPT_BYTES];
	char whose[TRAIL_NAME]; /* the row that a signal is for, while its name is typed */
	struct end end;
	int signal;
	bool stale; /* the data has changed since it was read */
	int page;   /* rows of a screen */
};

/* `key` as above, or a character. false: it was the key that ends. */
bool dialogue_key(struct dialogue *dialogue, const struct view *view, int key);
/* A click into a frame that was built by this state: a row is selected, then opened; a heading
 * sorts. */
void dialogue_click(struct dialogue *dialogue, const struct frame *frame, int line, int column);
void dialogue_close(struct dialogue *dialogue);

#endif
