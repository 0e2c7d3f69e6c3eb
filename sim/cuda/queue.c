/* SPDX-License-Identifier: Apache-2.0 */
/* A stream as a queue of works, which stream.c fills and executor.c empties. */
#include <stdlib.h>

#include "base/now.h"
#include "sim/cuda/call.h"
#include "sim/cuda/exec.h"

static _Atomic uint64_t last_stream;

struct sim_op *op_new(const struct sim_work *work)
{
	struct sim_op *op = calloc(1, sizeof(*op));

	if (op)
		op->work = *work;
	return op;
}

void op_free(struct sim_op *op)
{
	if (!op)
		return;
	if (op->work.kind == WORK_MARK || op->work.kind == WORK_WAIT)
		mark_unref(op->work.mark);
	free(op->staged);
	free(op);
}

struct sim_stream *stream_new(struct sim_exec *exec, unsigned int flags, int priority,
			      uint64_t thread)
{
	struct sim_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->magic = STREAM_MAGIC;
	stream->flags = flags;
	stream->priority = priority;
	stream->thread = thread;
	stream->exec = exec;
	stream->id = atomic_fetch_add(&last_stream, 1) + 1;
	stream->next = exec->streams;
	exec->streams = stream;
	return stream;
}

void stream_free(struct sim_stream *stream)
{
	struct sim_stream **link = &stream->exec->streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	stream->magic = 0;
	free(stream->deps);
	free(stream);
}

bool stream_append(struct sim_stream *stream, struct sim_op *first, struct sim_op *last, uint32_t n)
{
	struct sim_exec *exec = stream->exec;
	bool was_empty = !stream->head;
	uint64_t now = now_monotonic_ns();

	for (struct sim_op *op = first; op; op = op->next) {
		op->stream = stream;
		op->stamp = ++exec->stamp;
		op->enqueued_ns = now;
	}
	if (was_empty)
		stream->head = first;
	else
		stream->tail->next = first;
	stream->tail = last;
	atomic_fetch_add(&stream->pending, n);
	exec->pending += n;
	sim_works_begin(n);
	return was_empty;
}

void stream_pop(struct sim_stream *stream, uint64_t ns)
{
	struct sim_op *op = stream->head;
	struct sim_exec *exec = stream->exec;

	stream->head = op->next;
	if (!stream->head)
		stream->tail = NULL;
	if (stream->clock_ns < ns)
		stream->clock_ns = ns;
	exec->pending--;
	sim_works_end(1);
	if (atomic_fetch_sub(&stream->pending, 1) == STREAM_DEPTH)
		pthread_cond_broadcast(&exec->space);
	op_free(op);
}
