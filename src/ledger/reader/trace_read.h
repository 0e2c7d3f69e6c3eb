/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rings of a tenant have, read by read(2), never by mapping. Nothing in a ring is believed:
 * its processes may write what they like. A record counts if its seal fits its place and its event
 * is known; numbers are numbers, and no text comes from a ring.
 */
#ifndef ALLOT_LEDGER_READER_TRACE_READ_H
#define ALLOT_LEDGER_READER_TRACE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/trace/trace_record.h"

struct trace_said {
	uint64_t at_ns;
	uint64_t place;
	uint32_t pid; /* 0: a role holder said it */
	uint32_t thread;
	enum trace_event event;
	int device; /* -1: of none alone, or of none that a ledger can have */
	uint64_t number[TRACE_NUMBERS];
};

/*
 * Takes what is whole in a ring; *ret has room for TRACE_RECORDS. Answers how many, in no order.
 * -EPROTO for what is no ring of this version, -ENODATA for one that nobody has taken. Pure.
 */
int trace_parse(const struct trace_file *file, struct trace_said *ret);

/* How long before its event that began, which the numbers of some events say; 0: at once. Pure. */
uint64_t trace_lasted_ns(const struct trace_said *said);
/* When it ended. Pure. */
uint64_t trace_ended_ns(const struct trace_said *said);

struct trace_list {
	size_t n;
	struct trace_said *said; /* by time; then by ring and place */
	unsigned int rings;	 /* that could be read */
	int error;		 /* of one that is there and could not; 0 */
};

/* All rings of a tenant's directory, from `since_ns` on. Freed by the caller, also after -ENOMEM. */
int trace_load(const char *dir, uint64_t since_ns, struct trace_list *ret);
void trace_list_free(struct trace_list *list);

#endif
