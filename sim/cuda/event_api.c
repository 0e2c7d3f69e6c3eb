/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may do with events. */
#include "sim/cuda/event.h"

#include <stdlib.h>

#include "base/now.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/settings.h"
#include "sim/cuda/stream.h"

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct sim_context *ctx;
	struct sim_event *event;
	CUresult error = sim_context_current(&ctx);

	if (error)
		return error;
	if (!phEvent || Flags & ~(unsigned int)EVENT_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_EVENT_INTERPROCESS && !(Flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	error = exec_error(sim_context_exec(ctx));
	if (error)
		return error;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->magic = EVENT_MAGIC;
	event->flags = Flags;
	event->exec = sim_context_exec(ctx);
	pthread_mutex_init(&event->lock, NULL);
	*phEvent = (CUevent)event;
	return CUDA_SUCCESS;
}

/* The last events that were destroyed are kept, so that it is seen when one is used again. */
#define GONE 256

static void event_api_bury(struct sim_event *event)
{
	static struct sim_event *_Atomic gone[GONE];
	static _Atomic uint32_t n;

	event->magic = EVENT_GONE;
	free(atomic_exchange(&gone[atomic_fetch_add(&n, 1) % GONE], event));
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent)
{
	struct sim_event *event;
	CUresult error = event_lookup(hEvent, &event);

	if (error)
		return error;
	capture_forget(event);
	mark_unref(event->mark);
	pthread_mutex_destroy(&event->lock);
	event_api_bury(event);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent)
{
	return cuEventDestroy_v2(hEvent);
}

/* A record is a call of the driver's that writes commands: it keeps the processor. */
static void event_api_take_processor(void)
{
	uint64_t ns = sim_settings()->event_ns, from = ns ? now_monotonic_ns() : 0;

	while (ns && now_monotonic_ns() - from < ns)
		;
}

/* What a call names, whose flags may be the one that makes a node of a captured call. */
static CUresult event_api_find(CUevent event, CUstream stream, unsigned int flags, bool per_thread,
			       struct sim_event **ret_event, struct sim_stream **ret_stream)
{
	CUresult error = event_lookup(event, ret_event);

	if (!error)
		error = stream_resolve(stream, per_thread, ret_stream);
	return !error && flags & ~1u ? CUDA_ERROR_INVALID_VALUE : error;
}

static CUresult event_api_enqueue_record(CUevent handle, CUstream stream_handle, unsigned int flags,
					 bool per_thread)
{
	struct sim_work work = {.kind = WORK_MARK, .recorded = true};
	struct sim_stream *stream;
	struct sim_event *event;
	CUresult error = event_api_find(handle, stream_handle, flags, per_thread, &event, &stream);

	if (error)
		return error;
	event_api_take_processor();
	if (event->exec != stream->exec)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream_is_capturing(stream)) {
		if (flags) { /* CU_EVENT_RECORD_EXTERNAL: a node of the graph */
			work.kind = WORK_RECORD_EVENT;
			work.event = event;
			return capture_work(stream, &work);
		}
		return capture_record(stream, event);
	}
	error = capture_forbids_legacy(stream);
	if (error)
		return error;
	capture_forget(event);
	work.mark = event_record(event);
	if (!work.mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return work_submit(stream, &work);
}

ROWS(cuEventRecord, _ptsz, event_api_enqueue_record, (CUevent hEvent, CUstream hStream), hEvent,
     hStream, 0)
ROWS(cuEventRecordWithFlags, _ptsz, event_api_enqueue_record,
     (CUevent hEvent, CUstream hStream, unsigned int flags), hEvent, hStream, flags)

static CUresult event_api_enqueue_wait(CUstream stream_handle, CUevent handle, unsigned int flags,
				       bool per_thread)
{
	struct sim_work work = {.kind = WORK_WAIT};
	struct sim_stream *stream;
	struct sim_event *event;
	bool handled;
	CUresult error = event_api_find(handle, stream_handle, flags, per_thread, &event, &stream);

	if (error)
		return error;
	error = capture_wait(stream, event, flags, &handled);
	if (error || handled)
		return error;
	work.mark = event_mark(event);
	if (!work.mark)
		return CUDA_SUCCESS; /* never recorded */
	if (mark_done(work.mark)) {
		mark_unref(work.mark);
		return CUDA_SUCCESS;
	}
	return work_submit(stream, &work);
}

ROWS(cuStreamWaitEvent, _ptsz, event_api_enqueue_wait,
     (CUstream hStream, CUevent hEvent, unsigned int Flags), hStream, hEvent, Flags)

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
	struct sim_event *event;
	struct sim_mark *mark;
	CUresult error = event_lookup(hEvent, &event);
	bool done;

	if (error)
		return error;
	if (event_captured(event))
		return CUDA_ERROR_CAPTURED_EVENT;
	error = capture_forbids();
	if (error)
		return error;
	mark = event_mark(event);
	done = !mark || mark_done(mark);
	mark_unref(mark);
	error = exec_error(event->exec);
	return error ? error : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
	struct sim_event *event;
	struct sim_mark *mark;
	CUresult error = event_lookup(hEvent, &event);

	if (error)
		return error;
	if (event_captured(event))
		return CUDA_ERROR_CAPTURED_EVENT;
	error = capture_forbids();
	if (error)
		return error;
	mark = event_mark(event);
	if (mark) {
		mark_wait(mark);
		mark_unref(mark);
	}
	sim_pool_synchronized(event->exec->device);
	return exec_error(event->exec);
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct sim_event *start, *end;
	struct sim_mark *from, *to;
	CUresult error = event_lookup(hStart, &start);

	if (!error)
		error = event_lookup(hEnd, &end);
	if (error)
		return error;
	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || start->exec != end->exec)
		return CUDA_ERROR_INVALID_HANDLE;
	from = event_mark(start);
	to = event_mark(end);
	if (!from || !to)
		error = CUDA_ERROR_INVALID_HANDLE;
	else if (!mark_done(from) || !mark_done(to))
		error = CUDA_ERROR_NOT_READY;
	else
		*pMilliseconds = (float)((double)(int64_t)(to->ns - from->ns) / 1e6);
	mark_unref(from);
	mark_unref(to);
	return error;
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

/* A row for contexts and one for green contexts; impl(context, event) is what both call. */
#define CONTEXT_ROWS(name, impl)                                                                   \
	CUresult CUDAAPI cuCtx##name(CUcontext hCtx, CUevent hEvent)                               \
	{                                                                                          \
		struct sim_context *ctx;                                                           \
		CUresult error = sim_context_lookup(hCtx, &ctx);                                   \
                                                                                                   \
		return error ? error : impl(ctx, hEvent);                                          \
	}                                                                                          \
	CUresult CUDAAPI cuGreenCtx##name(CUgreenCtx hCtx, CUevent hEvent)                         \
	{                                                                                          \
		struct sim_context *ctx;                                                           \
		CUresult error = sim_green_context_lookup(hCtx, &ctx);                             \
                                                                                                   \
		return error ? error : impl(ctx, hEvent);                                          \
	}

/*
 * All work of the context at once: a stream of its own waits for each of the others, then the
 * event is recorded in it.
 */
static CUresult event_api_context_record(struct sim_context *ctx, CUevent handle)
{
	struct sim_exec *exec = sim_context_exec(ctx);
	struct sim_work work = {.kind = WORK_MARK, .recorded = true};
	struct sim_stream *stream;
	struct sim_event *event;
	CUresult error = event_lookup(handle, &event);

	if (error)
		return error;
	event_api_take_processor();
	pthread_mutex_lock(&exec->lock);
	stream = stream_new(exec, CU_STREAM_NON_BLOCKING, 0, 0);
	pthread_mutex_unlock(&exec->lock);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = exec_wait_in(exec, stream);
	if (!error) {
		capture_forget(event);
		work.mark = event_record(event);
		error = work.mark ? work_submit(stream, &work) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	cuStreamDestroy_v2((CUstream)stream);
	return error;
}

CONTEXT_ROWS(RecordEvent, event_api_context_record)

static CUresult event_api_context_wait(struct sim_context *ctx, CUevent handle)
{
	struct sim_event *event;
	struct sim_mark *mark;
	CUresult error = event_lookup(handle, &event);

	if (error)
		return error;
	mark = event_mark(event);
	if (mark)
		error = exec_wait_all(sim_context_exec(ctx), mark);
	mark_unref(mark);
	return error;
}

CONTEXT_ROWS(WaitEvent, event_api_context_wait)
