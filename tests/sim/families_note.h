/* SPDX-License-Identifier: Apache-2.0 */
/* What a program in a tenant tells the test outside, and waits for an answer. */
#ifndef ALLOT_TESTS_FAMILIES_NOTE_H
#define ALLOT_TESTS_FAMILIES_NOTE_H

#include <stdint.h>

#define MIB (1ull << 20)

#define NOTE_FD 3

/* Each also asks: was the quota kept, and does the ledger say what the simulator says? */
enum note_what {
	NOTE_EMPTY = 'E',  /* there is a context now and nothing else */
	NOTE_FULL = 'F',   /* was refused: less than `a` bytes may be left */
	NOTE_FREED = 'R',  /* gave everything back */
	NOTE_USED = 'U',   /* uses `a` bytes more than at NOTE_EMPTY */
	NOTE_LEDGER = 'L', /* no more than the above */
	NOTE_OVER = 'O',   /* is above the quota, as it may, and charged for all of it */
	NOTE_QUOTA = 'Q',  /* the quota alone: the ledger may know more, or later */
	NOTE_LIMIT = 'S',  /* asks for a quota of `a` from now on */
};

struct note {
	int32_t what;
	int32_t device;
	uint64_t a;
	uint64_t slack; /* the count may have been above the quota by so much */
	char text[48];
};

#endif
