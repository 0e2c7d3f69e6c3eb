/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Last figures of tenants that ended: a line for each device in a file of the runtime directory.
 * The file keeps some hundred lines, and all lines of users who have few. The process that removes
 * a tenant writes them. allotd's journal (node/journal.h) has the same lines, with more fields.
 */
#ifndef ALLOT_NODE_ENDED_H
#define ALLOT_NODE_ENDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "ledger/reader/snapshot.h"
#include "node/process/pod.h"

struct ended {
	char name[POLICY_NAME_BYTES];
	int64_t began_s, ended_s; /* CLOCK_REALTIME; the end is when it was noticed */
	bool used;		  /* a device; if not, the rest has no meaning */
	uint8_t uuid[16];
	uint64_t limit_bytes; /* 0: none */
	uint64_t peak_bytes, busy_ns, refusals;
	uint64_t energy_uj; /* 0: not measured */
	/*
	 * In the journal a line is a part of a tenant's life, from since_s to ended_s: busy_ns,
	 * refusals and energy_uj are those of the part. Else the part is all of it, without a Pod and byte-seconds.
	 */
	int64_t since_s;
	uint64_t alive_ns;		    /* of the part, by a clock that does not jump */
	uint64_t byte_s;		    /* used bytes times seconds, of the part */
	uint64_t busy_all_ns, refusals_all, energy_all_uj; /* from the tenant's beginning on */
	bool last;			    /* the tenant ended with it */
	char pod[POD_WORDS_BYTES];	    /* pod_words(); "": none is known */
};

/* The file's status, which changes when a tenant ends. -ENOENT: none has. */
int ended_stat(const char *runtime, struct stat *ret);

/* Writes one line by one write(2), `part` for the journal. 0, or -ENOSPC: half a line may be there. */
int ended_append(int fd, const struct ended *e, bool part);
/* False: it is no such line, or was cut. Fields behind the known ones are a later version's. */
bool ended_parse(const char *line, bool part, struct ended *ret);

/* Appends the last figures of a tenant, one write a line. 0 or -errno. */
int ended_note(const char *runtime, const char *name, const struct snapshot *snapshot,
	       int64_t began_s);

/* All that is noted, the oldest first: how many, or -errno. For free(). */
int ended_read(const char *runtime, struct ended **ret);

#endif
