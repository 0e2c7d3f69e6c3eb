/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A budget for reading files that users can make long. In each second a reader reads a fixed number
 * of bytes of all users, and a part of it of each user; the rest is read in the following seconds.
 * So a user with very long files delays others by a part of a second only. Each limit that is
 * reached is counted, for metrics and the log. For all threads.
 */
#ifndef ALLOT_NODE_PROCESS_ALLOWANCE_H
#define ALLOT_NODE_PROCESS_ALLOWANCE_H

#include <stdint.h>
#include <sys/types.h>

enum allowance_kind {
	ALLOWANCE_MAPPINGS,	/* bytes of /proc/PID/maps */
	ALLOWANCE_ENVIRONMENTS, /* bytes of /proc/PID/environ */
	ALLOWANCE_DESCRIPTORS,	/* of processes, as many bytes of mappings as take the same time */
	ALLOWANCE_FIGURES,	/* of tenants: counted here, bounded by node/tenants.c */
	ALLOWANCE_KINDS,
};

/* "mappings", "environments", "descriptors", "figures". */
const char *allowance_word(enum allowance_kind kind);

/*
 * Returns the bytes that may be read of this user's processes now. A text of up to `whole` bytes,
 * which can be read only from its beginning, is allowed in full as the user's first one of a
 * second.
 */
uint64_t allowance_left(enum allowance_kind kind, uid_t uid, uint64_t whole);
void allowance_spend(enum allowance_kind kind, uid_t uid, uint64_t bytes);

/* Counts that something of this user's was not read because of the bound. */
void allowance_put_off(enum allowance_kind kind, uid_t uid);

/* Returns that count, and the user of the last time. */
uint64_t allowance_count(enum allowance_kind kind, uid_t *ret_last);

/*
 * Lowers the budget to that of a daemon, which serves others while it reads. Before, it is that of
 * a command, for which one person waits.
 */
void allowance_serve(void);

#endif
