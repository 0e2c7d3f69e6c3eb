/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's processes beyond its ledger, by the kernel and NVIDIA's driver: their parents, their
 * memory of the host, and their use of the SMs.
 */
#ifndef ALLOT_CLI_TOP_PROGRAMS_H
#define ALLOT_CLI_TOP_PROGRAMS_H

#include "ledger/reader/snapshot.h"
#include "node/gauges.h"

struct program {
	int at;		     /* of snapshot.process */
	int depth;	     /* how many of its ancestors are in the list */
	uint64_t host_bytes; /* resident; UINT64_MAX: it cannot be seen */
};

/* Zeroed: nothing was read. */
struct programs {
	size_t n;
	struct program *list; /* each behind its parent */
	size_t nbusy;
	struct gauge_busy *busy;
};

/* Of the processes that live. -ENOMEM. */
int programs_read(const struct snapshot *s, struct gauges_reader *gauges, struct programs *ret);
void programs_free(struct programs *programs);

/* -1: it had none, or the driver does not tell. */
int programs_busy(const struct programs *programs, pid_t pid, const uint8_t uuid[static 16]);

#endif
