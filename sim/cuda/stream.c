/* SPDX-License-Identifier: Apache-2.0 */
/* A context's execution state, and its streams: what goes into them, and who waits for it. */
#include "sim/cuda/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "sim/cuda/exec.h"

/* All executions of the process, for threads that end. Taken before an exec->lock. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_exec *all;
static struct sim_exec *dead; /* kept, as stale handles point here */
static _Atomic uint64_t last_thread;

static __thread uint64_t this_thread; /* never 0 once it has a stream of its own */
static __thread struct {
	struct sim_exec *exec;
	struct sim_stream *stream;
	uint64_t id;
} cached;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

CUresult exec_start(struct sim_exec *exec)
{
	int err = 0;

	pthread_mutex_lock(&exec->lock);
	if (!exec->started)
		err = executor_start(exec);
	pthread_mutex_unlock(&exec->lock);
	return err ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void stream_push(struct sim_stream *stream, struct sim_op *first, struct sim_op *last, uint32_t n)
{
	struct sim_exec *exec = stream->exec;
	bool ring;

	pthread_mutex_lock(&exec->lock);
	while (atomic_load(&stream->pending) >= STREAM_DEPTH && !executor_is_me())
		pthread_cond_wait(&exec->space, &exec->lock);
	ring = stream_append(stream, first, last, n);
	pthread_mutex_unlock(&exec->lock);
	if (ring)
		executor_ring(exec);
}

static CUresult stream_submit_work(struct sim_stream *stream, const struct sim_work *work)
{
	struct sim_op *op;
	CUresult error = capture_forbids_legacy(stream);

	if (error)
		return error;
	if (stream_is_capturing(stream))
		return capture_work(stream, work);
	error = exec_start(stream->exec);
	if (error)
		return error;
	op = op_new(work);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream_push(stream, op, op, 1);
	return CUDA_SUCCESS;
}

void work_drop(const struct sim_work *work)
{
	if (work->kind == WORK_MARK) /* whoever waits for it already must not wait for ever */
		mark_set(work->mark, now_monotonic_ns());
	if (work->kind == WORK_MARK || work->kind == WORK_WAIT)
		mark_unref(work->mark);
}

CUresult work_submit(struct sim_stream *stream, const struct sim_work *work)
{
	CUresult error = stream_submit_work(stream, work);

	if (error)
		work_drop(work);
	return error;
}

CUresult stream_enqueue(struct sim_stream *stream, void (*fn)(void *arg), void *arg)
{
	struct sim_work work = {.kind = WORK_CALL, .call = {fn, arg}};
	struct sim_op *op = op_new(&work);

	if (!op || exec_start(stream->exec)) {
		op_free(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream_push(stream, op, op, 1);
	return CUDA_SUCCESS;
}

bool stream_idle(struct sim_stream *stream)
{
	return !atomic_load(&stream->pending);
}

/* A work that sets the mark or waits for it; takes a reference of its own. */
static struct sim_op *stream_mark_op(enum work_kind kind, struct sim_mark *mark)
{
	struct sim_work work = {.kind = kind, .mark = mark};
	struct sim_op *op = op_new(&work);

	if (op)
		mark_ref(mark);
	return op;
}

static bool stream_exec_idle(struct sim_exec *exec)
{
	bool idle;

	pthread_mutex_lock(&exec->lock);
	idle = !exec->pending;
	pthread_mutex_unlock(&exec->lock);
	return idle;
}

CUresult stream_synchronize(struct sim_stream *stream)
{
	struct sim_exec *exec = stream->exec;
	struct sim_mark *mark;
	struct sim_op *op;

	/* The legacy stream may have nothing of its own and still wait for the blocking ones. */
	if (stream == exec->legacy ? !stream_exec_idle(exec) : !stream_idle(stream)) {
		mark = mark_new();
		op = mark ? stream_mark_op(WORK_MARK, mark) : NULL;
		if (!op) {
			mark_unref(mark);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		stream_push(stream, op, op, 1);
		mark_wait(mark);
		mark_unref(mark);
	}
	sim_pool_synchronized(exec->device);
	return exec_error(exec);
}

struct sim_context *stream_context(struct sim_stream *stream)
{
	return stream->exec->ctx;
}

unsigned int stream_device(struct sim_stream *stream)
{
	return stream->exec->device;
}

uint64_t stream_id(struct sim_stream *stream)
{
	return stream->id;
}

/* ---- A context's execution state ---- */

struct sim_exec *exec_create(struct sim_context *ctx, unsigned int device)
{
	struct sim_exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		return NULL;
	exec->ctx = ctx;
	exec->device = device;
	pthread_mutex_init(&exec->lock, NULL);
	pthread_cond_init(&exec->space, NULL);
	pthread_cond_init(&exec->host_work, NULL);
	exec->legacy = stream_new(exec, CU_STREAM_DEFAULT, 0, 0);
	if (!exec->legacy) {
		free(exec);
		return NULL;
	}
	pthread_mutex_lock(&all_lock);
	exec->next = all;
	all = exec;
	pthread_mutex_unlock(&all_lock);
	return exec;
}

/*
 * A mark behind what the busy stream with the lowest id beyond *after has now; NULL when no such
 * stream is left. So all streams are gone through while they come and go.
 */
static CUresult stream_next_busy_mark(struct sim_exec *exec, uint64_t *after,
				      struct sim_mark **ret_mark)
{
	struct sim_stream *stream = NULL;
	struct sim_mark *mark = NULL;
	struct sim_op *op = NULL;

	pthread_mutex_lock(&exec->lock);
	for (struct sim_stream *s = exec->streams; s; s = s->next)
		if (s->head && s->id > *after && (!stream || s->id < stream->id))
			stream = s;
	if (stream) {
		*after = stream->id;
		mark = mark_new();
		op = mark ? stream_mark_op(WORK_MARK, mark) : NULL;
	}
	if (op)
		stream_append(stream, op, op, 1); /* behind others: no ring */
	pthread_mutex_unlock(&exec->lock);
	if (stream && !op) {
		mark_unref(mark);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_mark = mark;
	return CUDA_SUCCESS;
}

CUresult exec_drain(struct sim_exec *exec)
{
	struct sim_mark *mark;
	uint64_t after = 0;
	CUresult error;

	while (!(error = stream_next_busy_mark(exec, &after, &mark)) && mark) {
		mark_wait(mark);
		mark_unref(mark);
	}
	return error ? error : exec_error(exec);
}

CUresult exec_synchronize(struct sim_exec *exec)
{
	CUresult error;

	if (!exec)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	error = exec_drain(exec);
	sim_pool_synchronized(exec->device);
	return error;
}

CUresult exec_wait_in(struct sim_exec *exec, struct sim_stream *stream)
{
	struct sim_mark *mark;
	struct sim_op *op;
	uint64_t after = 0;
	CUresult error;

	while (!(error = stream_next_busy_mark(exec, &after, &mark)) && mark) {
		op = stream_mark_op(WORK_WAIT, mark);
		mark_unref(mark);
		if (!op)
			return CUDA_ERROR_OUT_OF_MEMORY;
		stream_push(stream, op, op, 1);
		if (after >= stream->id) /* itself, or younger than this call */
			break;
	}
	return error;
}

CUresult exec_wait_all(struct sim_exec *exec, struct sim_mark *mark)
{
	CUresult error = exec_start(exec);

	if (error)
		return error;
	pthread_mutex_lock(&exec->lock);
	for (struct sim_stream *s = exec->streams; s && !error; s = s->next) {
		struct sim_op *op = stream_mark_op(WORK_WAIT, mark);

		if (op)
			stream_append(s, op, op, 1);
		else
			error = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&exec->lock);
	executor_ring(exec);
	return error;
}

CUresult exec_error(struct sim_exec *exec)
{
	if (!exec)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return (CUresult)atomic_load_explicit(&exec->error, memory_order_relaxed);
}

/* An executor that has ended is not freed: a thread that comes too late still finds it. */
struct sim_exec *exec_hold(struct sim_context *ctx)
{
	struct sim_exec *exec = sim_context_exec(ctx);
	bool ends;

	if (!exec)
		return NULL;
	pthread_mutex_lock(&exec->lock);
	ends = exec->ends;
	exec->waiters += !ends;
	pthread_mutex_unlock(&exec->lock);
	return ends ? NULL : exec;
}

void exec_release(struct sim_exec *exec)
{
	if (!exec)
		return;
	pthread_mutex_lock(&exec->lock);
	exec->waiters--;
	pthread_cond_broadcast(&exec->space);
	pthread_mutex_unlock(&exec->lock);
}

static void exec_await_waiters(struct sim_exec *exec)
{
	pthread_mutex_lock(&exec->lock);
	exec->ends = true;
	while (exec->waiters)
		pthread_cond_wait(&exec->space, &exec->lock);
	pthread_mutex_unlock(&exec->lock);
}

void exec_destroy(struct sim_exec *exec)
{
	if (!exec)
		return;
	exec_await_waiters(exec);
	exec_drain(exec);
	pthread_mutex_lock(&all_lock);
	for (struct sim_exec **link = &all; *link; link = &(*link)->next) {
		if (*link == exec) {
			*link = exec->next;
			break;
		}
	}
	pthread_mutex_unlock(&all_lock);
	executor_stop(exec);
	mark_quiesce();
	while (exec->streams)
		stream_free(exec->streams);
	/* Events may outlive their context: they find out that it is gone. */
	atomic_store(&exec->error, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	pthread_mutex_lock(&all_lock);
	exec->next = dead;
	dead = exec;
	pthread_mutex_unlock(&all_lock);
}

/* ---- Handles ---- */

/* A thread ends: its default streams go when they are empty. */
static void stream_thread_ended(void *thread)
{
	pthread_mutex_lock(&all_lock);
	for (struct sim_exec *exec = all; exec; exec = exec->next) {
		pthread_mutex_lock(&exec->lock);
		for (struct sim_stream *s = exec->streams, *next; s; s = next) {
			next = s->next;
			if (s->thread != (uint64_t)(uintptr_t)thread)
				continue;
			if (s->head)
				s->closing = true;
			else
				stream_free(s);
		}
		pthread_mutex_unlock(&exec->lock);
	}
	pthread_mutex_unlock(&all_lock);
}

static void stream_make_thread_key(void)
{
	pthread_key_create(&thread_key, stream_thread_ended);
}

static struct sim_stream *stream_of_thread(struct sim_exec *exec)
{
	struct sim_stream *stream;

	/* A context's memory may come back as another's: the legacy stream's id tells. */
	if (cached.exec == exec && cached.id == exec->legacy->id)
		return cached.stream;
	if (!this_thread) {
		pthread_once(&thread_once, stream_make_thread_key);
		this_thread = atomic_fetch_add(&last_thread, 1) + 1;
		pthread_setspecific(thread_key, (void *)(uintptr_t)this_thread);
	}
	pthread_mutex_lock(&exec->lock);
	for (stream = exec->streams; stream; stream = stream->next)
		if (stream->thread == this_thread)
			break;
	if (!stream)
		stream = stream_new(exec, CU_STREAM_DEFAULT, 0, this_thread);
	pthread_mutex_unlock(&exec->lock);
	if (stream) {
		cached.exec = exec;
		cached.stream = stream;
		cached.id = exec->legacy->id;
	}
	return stream;
}

CUresult stream_resolve(CUstream handle, bool per_thread, struct sim_stream **ret_stream)
{
	struct sim_stream *stream = (struct sim_stream *)handle;
	struct sim_context *ctx;
	CUresult error = sim_context_current(&ctx);

	if (error)
		return error;
	if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
		stream = stream_of_thread(sim_context_exec(ctx));
	else if (!handle || handle == CU_STREAM_LEGACY)
		stream = sim_context_exec(ctx)->legacy;
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->magic != STREAM_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	error = exec_error(stream->exec);
	if (error)
		return error;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}
