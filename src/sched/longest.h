/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest unit of work that was seen of late, in one word that many processes change. Pure. It
 * is kept for two periods in which there was work, this one and the one before: a unit that was not
 * seen for a period is forgotten, and a pause forgets nothing.
 */
#ifndef ALLOT_SCHED_LONGEST_H
#define ALLOT_SCHED_LONGEST_H

#include <stdint.h>

/* The word with one more unit of work. `word` is 0 in the beginning, and no more after this. */
uint64_t longest_add(uint64_t word, uint64_t now_ns, uint64_t unit_ns);

/* The longest, at most 66 us too long; 0: none was seen. */
uint64_t longest_ns(uint64_t word);

#endif
