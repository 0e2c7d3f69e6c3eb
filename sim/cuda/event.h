/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_EVENT_H
#define ALLOT_SIM_EVENT_H

#include "sim/cuda/exec.h"

#define EVENT_MAGIC 0x6576656eu
#define EVENT_GONE  0x676f6e65u

struct sim_event {
	uint32_t magic;
	unsigned int flags;
	struct sim_exec *exec;
	pthread_mutex_t lock; /* over mark */
	struct sim_mark *mark;
	/* Of the last record, when that was captured: under capture.c's lock. */
	uint64_t capture_id;
	CUgraphNode *deps;
	size_t n_deps;
};

CUresult event_lookup(CUevent handle, struct sim_event **ret_event);

/* Record in a capturing stream; forget an earlier captured record. */
CUresult capture_record(struct sim_stream *stream, struct sim_event *event);
void capture_forget(struct sim_event *event);
bool event_captured(struct sim_event *event);
/*
 * Wait where the stream captures or the event was captured; *ret_handled is false where neither
 * holds and the wait is an ordinary one.
 */
CUresult capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned int flags,
		      bool *ret_handled);

#endif
