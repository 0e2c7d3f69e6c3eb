/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a trace for people, and for chrome://tracing and Perfetto: all follows from trace.def. */
#ifndef ALLOT_CLI_PS_TRACE_WORDS_H
#define ALLOT_CLI_PS_TRACE_WORDS_H

#include <stdio.h>

#include "ledger/reader/trace_read.h"

/* One line: the time since `from_ns`, process and thread, the device, the sentence. */
void trace_words_print(const struct trace_said *said, uint64_t from_ns, FILE *out);

/*
 * One event of the Trace Event Format, without a comma: an instant, or a span with its length. Times
 * are CLOCK_MONOTONIC, in us.
 */
void trace_words_json(const struct trace_said *said, FILE *out);

/*
 * The lane that an event is in, as pid and tid of the picture: a thread of a process; what the device
 * did has one a device, and the roles have one each.
 */
struct trace_lane {
	uint32_t pid;
	uint64_t tid;
};
struct trace_lane trace_words_lane(const struct trace_said *said);

/* Likewise, the event that names a lane; false: it is a thread's, and needs no name. */
bool trace_words_name_lane(const struct trace_said *said, FILE *out);

#endif
