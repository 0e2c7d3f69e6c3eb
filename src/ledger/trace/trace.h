/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of what a process of a tenant decided: a ring of the last events, in a file of the
 * tenant's directory. Off by default, and then there is no file.
 *
 *	trace.0 to trace.31	one process each: the process that holds its lock, or held it last
 *	trace.roles		the decisions of arbiter and residency about this tenant, by whichever
 *				process has those roles
 *
 * A writer takes a place by one addition, fills the record there and stores its seal last. The seal
 * is the place, combined with a hash of the record and of the ring's birth: a record that is half
 * written, or that two writers mixed, has no seal that fits its place, and no reader takes it. So a
 * process may be killed between any two stores.
 */
#ifndef ALLOT_LEDGER_TRACE_TRACE_H
#define ALLOT_LEDGER_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/trace/trace_record.h"

struct trace;

/* Why a launch is held. */
enum trace_why {
	TRACE_WHY_TURN,
	TRACE_WHY_DEBT,
	TRACE_WHY_ROOM,
	TRACE_WHYS,
};

/*
 * A ring for this process, in a file that no living process has: a new one, else the one that was
 * taken first. Maps it, keeps no descriptor; not inherited by fork. *trace is NULL, or was parked:
 * then it keeps its address. -EUSERS: all are taken; -EACCES and -EROFS where the process may make
 * no file there, as in a user's tenant of allotd; -ENOSPC.
 */
int trace_open(const char *dir, struct trace **trace);

/*
 * Lets go of the file, and keeps the address: a thread that is about to write there writes into
 * memory that nobody reads. What was recorded stays in the file.
 */
void trace_park(struct trace *trace);

/* The ring of the roles. It has no owner: all who decide about the tenant write into one. */
int trace_open_roles(const char *dir, struct trace **ret);

/* For where no thread writes any more. Takes NULL. */
void trace_close(struct trace *trace);

/* Any thread, any number at once. `device` by its index in the ledger; -1: of none alone. */
void trace_put(struct trace *trace, enum trace_event event, int device, uint64_t a, uint64_t b,
	       uint64_t c);

/* For a role holder, which has a ring for each tenant or NULL. */
static inline void trace_to(struct trace *trace, enum trace_event event, int device, uint64_t a,
			    uint64_t b, uint64_t c)
{
	if (__builtin_expect(trace != NULL, 0))
		trace_put(trace, event, device, a, b, c);
}

/*
 * For a role holder: opens the ring of roles where `on` says so and it is not open, and closes it
 * where it is not to be. Where it cannot be opened *trace stays NULL, and nothing is recorded.
 */
void trace_follow_roles(const char *dir, bool on, struct trace **trace);

#endif
