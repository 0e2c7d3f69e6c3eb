/* SPDX-License-Identifier: Apache-2.0 */
/* A number brought within bounds. */
#ifndef ALLOT_SCHED_BETWEEN_H
#define ALLOT_SCHED_BETWEEN_H

#include <stdint.h>

static inline int64_t between(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

#endif
