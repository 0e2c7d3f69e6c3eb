/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. A capture has a graph that grows, and streams that take part: the one it began
 * in, and those that joined by waiting for one of its events. Each such stream knows the nodes
 * that its next work depends on. One lock guards all of it; nothing here is fast.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/event.h"
#include "sim/cuda/stream.h"

struct sim_capture {
	struct sim_capture *next;
	uint64_t id;
	struct sim_graph *graph;
	bool to_graph; /* into one of the program's */
	bool invalid;
	CUstreamCaptureMode mode;
	const void *thread;
	size_t before; /* nodes that the graph had */
	struct sim_stream *origin;
	struct sim_stream *streams;
};

static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_capture *captures;
static _Atomic int n_captures; /* so that those who never capture pay one load */
static uint64_t last_id;

static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool stream_is_capturing(struct sim_stream *stream)
{
	return atomic_load_explicit(&stream->capture, memory_order_acquire);
}

static bool capture_is_none(void)
{
	return !atomic_load_explicit(&n_captures, memory_order_acquire);
}

static bool capture_is_blocking(const struct sim_stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* ---- Sets of nodes ---- */

static CUresult capture_deps_set(CUgraphNode **deps, size_t *n, const CUgraphNode *to, size_t n_to)
{
	CUgraphNode *copy = malloc((n_to + 1) * sizeof(*copy));

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (n_to)
		memcpy(copy, to, n_to * sizeof(*copy));
	free(*deps);
	*deps = copy;
	*n = n_to;
	return CUDA_SUCCESS;
}

static bool capture_deps_have(const CUgraphNode *deps, size_t n, CUgraphNode node)
{
	for (size_t i = 0; i < n; i++)
		if (deps[i] == node)
			return true;
	return false;
}

static CUresult capture_deps_add(CUgraphNode **deps, size_t *n, const CUgraphNode *more,
				 size_t n_more)
{
	CUgraphNode *copy = realloc(*deps, (*n + n_more + 1) * sizeof(*copy));

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*deps = copy;
	for (size_t i = 0; i < n_more; i++)
		if (!capture_deps_have(copy, *n, more[i]))
			copy[(*n)++] = more[i];
	return CUDA_SUCCESS;
}

/* ---- Captures; all with the lock held ---- */

static struct sim_capture *capture_find(uint64_t id)
{
	struct sim_capture *capture;

	for (capture = captures; capture && capture->id != id; capture = capture->next)
		;
	return capture;
}

static void capture_join(struct sim_capture *capture, struct sim_stream *stream)
{
	stream->capture_next = capture->streams;
	capture->streams = stream;
	atomic_store_explicit(&stream->capture, capture, memory_order_release);
}

static void capture_end(struct sim_capture *capture)
{
	struct sim_capture **link = &captures;

	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	for (struct sim_stream *s = capture->streams, *next; s; s = next) {
		next = s->capture_next;
		free(s->deps);
		s->deps = NULL;
		s->n_deps = 0;
		s->capture_next = NULL;
		atomic_store_explicit(&s->capture, NULL, memory_order_release);
	}
	atomic_fetch_sub(&n_captures, 1);
	free(capture);
}

/* Work that reaches no stream's end: streams that were forked and not joined. */
static bool capture_has_unjoined(const struct sim_capture *capture)
{
	const struct sim_stream *origin = capture->origin;
	size_t i = 0;

	for (struct sim_node *node = capture->graph->nodes; node; node = node->next) {
		bool followed = i++ < capture->before ||
				capture_deps_have(origin->deps, origin->n_deps, (CUgraphNode)node);

		for (struct sim_node *other = node->next; other && !followed; other = other->next)
			for (size_t d = 0; d < other->n_deps; d++)
				followed |= other->deps[d] == node;
		if (!followed)
			return true;
	}
	return false;
}

static void capture_invalidate(struct sim_capture *capture)
{
	capture->invalid = true;
}

/* The stream's capture, if it can still be added to. With the lock. */
static CUresult capture_of_stream(struct sim_stream *stream, struct sim_capture **ret_capture)
{
	struct sim_capture *capture = atomic_load(&stream->capture);

	if (!capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	*ret_capture = capture;
	return CUDA_SUCCESS;
}

/* ---- For the calls that work on streams ---- */

CUresult capture_work(struct sim_stream *stream, const struct sim_work *work)
{
	struct sim_capture *capture;
	struct sim_node *node;
	CUresult error;

	pthread_mutex_lock(&capture_lock);
	error = capture_of_stream(stream, &capture);
	if (!error && (work->kind == WORK_CALLBACK || work->kind == WORK_CALL)) {
		error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		capture_invalidate(capture);
	} else if (!error) {
		error = node_add(capture->graph, work, stream->deps, stream->n_deps, &node);
		if (!error)
			error = capture_deps_set(&stream->deps, &stream->n_deps,
						 &(CUgraphNode){(CUgraphNode)node}, 1);
		if (error)
			capture_invalidate(capture);
	}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

/* Memory nodes: `bytes` allocates, 0 frees *ptr. */
static CUresult capture_memory(struct sim_stream *stream, const CUmemPoolProps *props,
			       size_t bytes, CUdeviceptr *ptr)
{
	struct sim_capture *capture;
	struct sim_node *node;
	CUresult error;

	pthread_mutex_lock(&capture_lock);
	error = capture_of_stream(stream, &capture);
	if (!error && bytes)
		error = node_add_alloc(capture->graph, props, bytes, stream->deps, stream->n_deps,
				       &node);
	else if (!error)
		error = node_add_free(capture->graph, *ptr, stream->deps, stream->n_deps, &node);
	if (!error) {
		*ptr = node->work.mem.ptr;
		error = capture_deps_set(&stream->deps, &stream->n_deps,
					 &(CUgraphNode){(CUgraphNode)node}, 1);
	}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_mem_alloc(struct sim_stream *stream, const CUmemPoolProps *props, size_t bytes,
			   CUdeviceptr *ret_ptr)
{
	return bytes ? capture_memory(stream, props, bytes, ret_ptr) : CUDA_ERROR_INVALID_VALUE;
}

CUresult capture_mem_free(struct sim_stream *stream, CUdeviceptr ptr)
{
	return capture_memory(stream, NULL, 0, &ptr);
}

/*
 * The rule for calls that are not safe while somebody captures: in global mode (each thread's
 * default) none is allowed while the own thread captures other than relaxed, or any thread
 * captures in global mode; in thread-local mode only the own thread counts; in relaxed mode none.
 */
CUresult capture_forbids(void)
{
	CUresult error = CUDA_SUCCESS;

	if (capture_is_none() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (struct sim_capture *c = captures; c; c = c->next) {
		bool own = c->thread == &thread_mode && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;

		if (!own && (thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
			     c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
			continue;
		capture_invalidate(c);
		error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

/* Captures of blocking streams in the context, each made invalid. */
static CUresult capture_forbid_implicit(struct sim_exec *exec, bool blocking_only, bool spoil,
					CUresult answer)
{
	CUresult error = CUDA_SUCCESS;

	pthread_mutex_lock(&capture_lock);
	for (struct sim_capture *c = captures; c; c = c->next) {
		for (struct sim_stream *s = c->streams; s; s = s->capture_next) {
			if (s->exec != exec || (blocking_only && !capture_is_blocking(s)))
				continue;
			if (spoil)
				capture_invalidate(c);
			error = answer;
		}
	}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_forbids_legacy(struct sim_stream *stream)
{
	if (capture_is_none() || stream != stream->exec->legacy)
		return CUDA_SUCCESS;
	return capture_forbid_implicit(stream->exec, true, true,
				       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUresult capture_forbids_context_sync(struct sim_exec *exec)
{
	if (capture_is_none())
		return CUDA_SUCCESS;
	return capture_forbid_implicit(exec, false, true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult capture_forbids_sync(struct sim_stream *stream)
{
	struct sim_capture *capture;
	CUresult error = CUDA_SUCCESS;

	if (capture_is_none())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (capture) {
		capture_invalidate(capture);
		error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&capture_lock);
	return error ? error : capture_forbids_legacy(stream);
}

void capture_leave(struct sim_stream *stream)
{
	struct sim_graph *lost = NULL;
	struct sim_capture *capture;

	if (capture_is_none())
		return;
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (capture && capture->origin == stream) {
		/* Nobody can end it any more. */
		if (!capture->to_graph)
			lost = capture->graph;
		capture_end(capture);
	} else if (capture) {
		struct sim_stream **link = &capture->streams;

		capture_invalidate(capture);
		while (*link != stream)
			link = &(*link)->capture_next;
		*link = stream->capture_next;
		atomic_store(&stream->capture, NULL);
	}
	pthread_mutex_unlock(&capture_lock);
	graph_free(lost);
}

/* ---- Events: how captures fork and join ---- */

CUresult capture_record(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_capture *capture;
	CUresult error;

	pthread_mutex_lock(&capture_lock);
	error = capture_of_stream(stream, &capture);
	if (!error)
		error = capture_deps_set(&event->deps, &event->n_deps, stream->deps,
					 stream->n_deps);
	if (!error)
		event->capture_id = capture->id;
	pthread_mutex_unlock(&capture_lock);
	return error;
}

void capture_forget(struct sim_event *event)
{
	pthread_mutex_lock(&capture_lock);
	free(event->deps);
	event->deps = NULL;
	event->n_deps = 0;
	event->capture_id = 0;
	pthread_mutex_unlock(&capture_lock);
}

bool event_captured(struct sim_event *event)
{
	bool captured;

	pthread_mutex_lock(&capture_lock);
	captured = event->capture_id;
	pthread_mutex_unlock(&capture_lock);
	return captured;
}

static CUresult capture_wait_captured(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_capture *own = atomic_load(&stream->capture);
	struct sim_capture *other = capture_find(event->capture_id);

	if (!other)
		return CUDA_ERROR_CAPTURED_EVENT; /* of a capture that has ended */
	if (own && own != other) {
		capture_invalidate(own);
		capture_invalidate(other);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (other->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream == stream->exec->legacy) {
		capture_invalidate(other);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!own)
		capture_join(other, stream);
	return capture_deps_add(&stream->deps, &stream->n_deps, event->deps, event->n_deps);
}

CUresult capture_wait(struct sim_stream *stream, struct sim_event *event, unsigned int flags,
		      bool *ret_handled)
{
	struct sim_work work = {.kind = WORK_WAIT_EVENT, .event = event};
	struct sim_capture *capture;
	struct sim_mark *mark;
	CUresult error = CUDA_SUCCESS;
	bool recorded;

	*ret_handled = false;
	if (capture_is_none())
		return event_captured(event) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
	if (flags && stream_is_capturing(stream)) { /* CU_EVENT_WAIT_EXTERNAL */
		*ret_handled = true;
		return capture_work(stream, &work);
	}
	mark = event_mark(event);
	recorded = mark;
	mark_unref(mark);
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (event->capture_id) {
		*ret_handled = true;
		error = capture_wait_captured(stream, event);
	} else if (capture) {
		*ret_handled = true;
		if (capture->invalid) {
			error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		} else if (recorded) {
			capture_invalidate(capture);
			error = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
		}
	}
	pthread_mutex_unlock(&capture_lock);
	return error;
}

/* ---- For the rows of capture itself ---- */

CUresult capture_begin(struct sim_stream *stream, struct sim_graph *graph, const CUgraphNode *deps,
		       size_t n_deps, CUstreamCaptureMode mode)
{
	struct sim_capture *capture;
	CUresult error;

	if (stream == stream->exec->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->graph = graph ? graph : graph_new();
	if (!capture->graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->to_graph = graph;
	capture->before = capture->graph->n;
	capture->mode = mode;
	capture->thread = &thread_mode;
	capture->origin = stream;
	pthread_mutex_lock(&capture_lock);
	if (atomic_load(&stream->capture))
		error = CUDA_ERROR_ILLEGAL_STATE;
	else
		error = capture_deps_set(&stream->deps, &stream->n_deps, deps, n_deps);
	if (!error) {
		capture->id = ++last_id;
		capture->next = captures;
		captures = capture;
		atomic_fetch_add(&n_captures, 1);
		capture_join(capture, stream);
	}
	pthread_mutex_unlock(&capture_lock);
	if (error) {
		if (!graph)
			graph_free(capture->graph);
		free(capture);
	}
	return error;
}

CUresult capture_finish(struct sim_stream *stream, struct sim_graph **ret_graph)
{
	struct sim_graph *lost = NULL;
	struct sim_capture *capture;
	CUresult error = CUDA_SUCCESS;

	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (!capture) {
		error = CUDA_ERROR_ILLEGAL_STATE;
	} else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		   capture->thread != &thread_mode) {
		error = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	} else if (capture->origin != stream) {
		capture_invalidate(capture);
		error = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	} else {
		if (capture->invalid)
			error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		else if (capture_has_unjoined(capture))
			error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		if (!error)
			*ret_graph = capture->graph;
		else if (!capture->to_graph)
			lost = capture->graph;
		capture_end(capture);
	}
	pthread_mutex_unlock(&capture_lock);
	graph_free(lost);
	return error;
}

CUresult capture_describe(struct sim_stream *stream, struct capture_info *ret_info)
{
	struct sim_capture *capture;

	*ret_info = (struct capture_info){.status = CU_STREAM_CAPTURE_STATUS_NONE};
	if (capture_is_none())
		return CUDA_SUCCESS;
	if (stream == stream->exec->legacy)
		return capture_forbid_implicit(stream->exec, true, false,
					       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (capture)
		*ret_info = (struct capture_info){
			.status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
						   : CU_STREAM_CAPTURE_STATUS_ACTIVE,
			.id = capture->id,
			.graph = (CUgraph)capture->graph,
			.deps = stream->deps,
			.n_deps = stream->n_deps,
		};
	pthread_mutex_unlock(&capture_lock);
	return CUDA_SUCCESS;
}

CUresult capture_update(struct sim_stream *stream, const CUgraphNode *deps, size_t n_deps,
			bool replace)
{
	struct sim_capture *capture;
	CUresult error = CUDA_SUCCESS;

	pthread_mutex_lock(&capture_lock);
	capture = atomic_load(&stream->capture);
	if (!capture)
		error = CUDA_ERROR_ILLEGAL_STATE;
	else if (capture->invalid)
		error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	for (size_t i = 0; i < n_deps && !error; i++) {
		struct sim_node *node;

		if (node_lookup(deps[i], &node) || node->graph != capture->graph)
			error = CUDA_ERROR_INVALID_VALUE;
	}
	if (!error)
		error = (replace ? capture_deps_set
				 : capture_deps_add)(&stream->deps, &stream->n_deps, deps, n_deps);
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUstreamCaptureMode capture_mode_exchange(CUstreamCaptureMode mode)
{
	CUstreamCaptureMode before = thread_mode;

	thread_mode = mode;
	return before;
}
