/* SPDX-License-Identifier: Apache-2.0 */
/* A context's executor and its streams, of which the rest (stream.h) sees names alone. */
#ifndef ALLOT_SIM_EXEC_H
#define ALLOT_SIM_EXEC_H

#include <pthread.h>

#include "sim/cuda/engine.h"
#include "sim/cuda/work.h"

#define STREAM_MAGIC 0x73747265u
#define STREAM_DEPTH 1024 /* works that a stream takes before a launch has to wait, as hardware */

struct sim_capture;
struct sim_context;

struct sim_stream {
	uint32_t magic;
	unsigned int flags;
	int priority;
	uint64_t id;
	uint64_t thread; /* whose default stream it is; 0 for all others */
	struct sim_exec *exec;
	struct sim_stream *next; /* in the context; under exec->lock, as all below */
	struct sim_op *head;
	struct sim_op *tail;
	_Atomic uint32_t pending;
	uint64_t clock_ns; /* the end of its last finished work */
	bool waited;	   /* that was no work of the device's */
	bool closing;	   /* goes when it is empty */
	/* Capture: under capture.c's lock, but for the test whether there is any. */
	_Atomic(struct sim_capture *) capture;
	struct sim_stream *capture_next;
	CUgraphNode *deps;
	size_t n_deps;
};

struct sim_exec {
	struct sim_context *ctx;
	unsigned int device;
	struct sim_exec *next; /* of the process */
	_Atomic int error;     /* CUresult; sticks */

	pthread_mutex_t lock;
	pthread_cond_t space; /* a full stream has room, a work of the host is done, nobody waits */
	unsigned int waiters; /* threads that wait for its work; it does not end before they do ... */
	bool ends;	      /* ... and then no more come */
	struct sim_stream *streams;
	struct sim_stream *legacy;
	uint64_t stamp;
	uint32_t pending;
	bool started;
	bool stopping;
	pthread_t thread;
	struct engine_seat seat;

	/* Host functions run on a thread of their own, so that one that blocks holds up nobody. */
	pthread_t host_thread;
	pthread_cond_t host_work;
	bool host_started;
	struct sim_op *host_op; /* in line, linked by `running` */
	struct sim_op *host_last;

	/* The executor's alone. */
	uint64_t clock_ns; /* the device's time up to which its works have been advanced */
	struct sim_op *active;
	bool asked; /* for the device */
	bool polls; /* a work waits for a value in memory */
};

/* queue.c */
struct sim_stream *stream_new(struct sim_exec *exec, unsigned int flags, int priority,
			      uint64_t thread);
void stream_free(struct sim_stream *stream); /* unlinked, or exec->lock held */
struct sim_op *op_new(const struct sim_work *work);
void op_free(struct sim_op *op);
/* exec->lock held. True when the executor has to be rung, once the lock is given up. */
bool stream_append(struct sim_stream *stream, struct sim_op *first, struct sim_op *last,
		   uint32_t n);
/* The first work goes from its stream at the device's time ns. exec->lock held. */
void stream_pop(struct sim_stream *stream, uint64_t ns);

/* executor.c */
int executor_start(struct sim_exec *exec); /* exec->lock held */
void executor_stop(struct sim_exec *exec);
void executor_ring(struct sim_exec *exec);
bool executor_is_me(void); /* on an executor's thread? */

/* stream.c */
/* Before the first push: OUT_OF_MEMORY when there can be no thread. */
CUresult exec_start(struct sim_exec *exec);
/* Takes n linked works, in order and with nothing between them. */
void stream_push(struct sim_stream *stream, struct sim_op *first, struct sim_op *last, uint32_t n);

/* Make the stream wait for all that the context's streams have now; or all of them for a mark. */
CUresult exec_wait_in(struct sim_exec *exec, struct sim_stream *stream);
CUresult exec_wait_all(struct sim_exec *exec, struct sim_mark *mark);

/* event.c */
struct sim_mark *event_record(struct sim_event *event); /* a new mark, one reference */
struct sim_mark *event_mark(struct sim_event *event);	/* the last one's, referenced, or NULL */

/* capture.c */
CUresult capture_work(struct sim_stream *stream, const struct sim_work *work);
/* May this stream be waited for or asked? Invalidates the capture when it is capturing. */
CUresult capture_forbids_sync(struct sim_stream *stream);
/* The stream is going away. */
void capture_leave(struct sim_stream *stream);
/* Work on the legacy stream while a blocking stream of the context captures: an error. */
CUresult capture_forbids_legacy(struct sim_stream *stream);

#endif
