/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last figures of tenants that ended: a line for each device in a file of the runtime directory.
 * The file keeps some hundred lines, and all lines of users who have few. The process that removes
 * a tenant writes them.
 */
#ifndef ALLOT_NODE_ENDED_H
#define ALLOT_NODE_ENDED_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/reader/snapshot.h"

struct ended {
	char name[POLICY_NAME_BYTES];
	int64_t began_s, ended_s; /* CLOCK_REALTIME; the end is when it was noticed */
	bool used;		  /* a device; if not, the rest has no meaning */
	uint8_t uuid[16];
	uint64_t limit_bytes; /* 0: none */
	uint64_t peak_bytes, busy_ns, refusals;
};

/* Appends the last figures of a tenant, one write a line. 0 or -errno. */
int ended_note(const char *runtime, const char *name, const struct snapshot *snapshot,
	       int64_t began_s);

/* All that is noted, the oldest first: how many, or -errno. For free(). */
int ended_read(const char *runtime, struct ended **ret);

#endif
