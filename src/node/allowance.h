/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of what users can make long is read: each user's part of what is read of all in a second,
 * so that a user who has very much of it makes others wait for no longer than a part of that second.
 * What is over is read in the next seconds, and counted here: a bound that is reached is said. For all
 * threads.
 */
#ifndef ALLOT_NODE_ALLOWANCE_H
#define ALLOT_NODE_ALLOWANCE_H

#include <stdint.h>
#include <sys/types.h>

enum allowance_kind {
	ALLOWANCE_MAPPINGS,	/* bytes of /proc/PID/maps */
	ALLOWANCE_ENVIRONMENTS, /* bytes of /proc/PID/environ */
	ALLOWANCE_FIGURES,	/* of tenants; counted alone (node/tenants.h) */
	ALLOWANCE_KINDS,
};

/* "mappings", "environments", "figures". */
const char *allowance_word(enum allowance_kind kind);

/*
 * Bytes that may be read of this user's processes by now. What can only be read as a whole, of at most
 * `whole` bytes, is let be so if it is the first of this user's.
 */
uint64_t allowance_left(enum allowance_kind kind, uid_t uid, uint64_t whole);
void allowance_spend(enum allowance_kind kind, uid_t uid, uint64_t bytes);

/* Something of this user's was not read, for the bound. */
void allowance_put_off(enum allowance_kind kind, uid_t uid);

/* How often that was, and of which user last. */
uint64_t allowance_count(enum allowance_kind kind, uid_t *ret_last);

/*
 * Whoever serves others while he reads has less of each kind. Until then it is as much as one person,
 * who waits for a table, has patience for.
 */
void allowance_serve(void);

#endif
