/* SPDX-License-Identifier: Apache-2.0 */
/* Which locks a thread holds: of a build that checks their order. */
#include "base/lock.h"

#ifdef ALLOT_LOCK_RANKS
#include <stdio.h>
#include <stdlib.h>

#define LOCK_NAME(name) #name,
static const char *const lock_name[] = {LOCK_RANKS(LOCK_NAME)};
#undef LOCK_NAME

_Static_assert(LOCK_RANK_COUNT <= 32, "a bit a rank");

/* A bit for each rank. One lock of a rank at most is held, so this is all of them, in order. */
static _Thread_local uint32_t lock_held __attribute__((tls_model("initial-exec")));

static _Noreturn void lock_stop(const char *what, const char *does)
{
	fprintf(stderr, "allot: %s %s; this thread holds", what, does);
	for (int i = 0; i < LOCK_RANK_COUNT; i++)
		if (lock_held >> i & 1)
			fprintf(stderr, " %s", lock_name[i]);
	fprintf(stderr, "%s: see LOCK_RANKS in base/lock.h\n", lock_held ? "" : " no lock");
	abort();
}

void lock_rank_take(enum lock_rank rank)
{
	if (lock_held >> rank)
		lock_stop(lock_name[rank], "is taken out of order");
	lock_held |= UINT32_C(1) << rank;
}

void lock_rank_drop(enum lock_rank rank)
{
	if (!(lock_held >> rank & 1))
		lock_stop(lock_name[rank], "is dropped");
	lock_held &= ~(UINT32_C(1) << rank);
}

void lock_rank_none(const char *what)
{
	if (lock_held)
		lock_stop(what, "is called");
}
#endif
