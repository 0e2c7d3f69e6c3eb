/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of streams, capture apart. */
#include <stdlib.h>

#include "sim/cuda/exec.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/stream.h"

#define PRIORITY_GREATEST (-5)

static CUresult stream_api_create(struct sim_exec *exec, unsigned int flags, int priority,
				  CUstream *ret)
{
	struct sim_stream *stream;

	if (!ret || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	if (exec_error(exec))
		return exec_error(exec);
	if (priority > 0)
		priority = 0;
	if (priority < PRIORITY_GREATEST)
		priority = PRIORITY_GREATEST;
	pthread_mutex_lock(&exec->lock);
	stream = stream_new(exec, flags, priority, 0);
	pthread_mutex_unlock(&exec->lock);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct sim_context *ctx;
	CUresult error = sim_context_current(&ctx);

	return error ? error : stream_api_create(sim_context_exec(ctx), flags, priority, phStream);
}

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
					unsigned int flags, int priority)
{
	struct sim_context *ctx;
	CUresult error = sim_green_context_lookup(greenCtx, &ctx);

	if (error)
		return error;
	if (!(flags & CU_STREAM_NON_BLOCKING)) /* the driver asks for it */
		return CUDA_ERROR_INVALID_VALUE;
	return stream_api_create(sim_context_exec(ctx), flags, priority, phStream);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream)
{
	struct sim_stream *stream = (struct sim_stream *)hStream;
	struct sim_exec *exec;
	CUresult error = sim_ready();

	if (error)
		return error;
	if (!hStream || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->magic != STREAM_MAGIC || stream->thread || stream == stream->exec->legacy)
		return CUDA_ERROR_INVALID_HANDLE;
	exec = stream->exec;
	capture_leave(stream);
	/* Pending works still run; the handle is gone at once. */
	pthread_mutex_lock(&exec->lock);
	if (stream->head)
		stream->closing = true;
	else
		stream_free(stream);
	pthread_mutex_unlock(&exec->lock);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream)
{
	return cuStreamDestroy_v2(hStream);
}

static CUresult stream_api_synchronize(CUstream handle, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (!error)
		error = capture_forbids_sync(stream);
	return error ? error : stream_synchronize(stream);
}

ROWS(cuStreamSynchronize, _ptsz, stream_api_synchronize, (CUstream hStream), hStream)

static bool stream_api_context_idle(struct sim_exec *exec)
{
	bool idle = true;

	pthread_mutex_lock(&exec->lock);
	for (struct sim_stream *s = exec->streams; s; s = s->next)
		if (s->head && !(s->flags & CU_STREAM_NON_BLOCKING))
			idle = false;
	pthread_mutex_unlock(&exec->lock);
	return idle;
}

static CUresult stream_api_query(CUstream handle, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);
	bool idle;

	if (!error)
		error = capture_forbids_sync(stream);
	if (error)
		return error;
	/* The legacy stream is done when all that it would wait for is. */
	idle = stream == stream->exec->legacy ? stream_api_context_idle(stream->exec)
					      : stream_idle(stream);
	if (!idle)
		return CUDA_ERROR_NOT_READY;
	return exec_error(stream->exec);
}

ROWS(cuStreamQuery, _ptsz, stream_api_query, (CUstream hStream), hStream)

static CUresult stream_api_get_ctx(CUstream handle, CUcontext *pctx, CUgreenCtx *green,
				   bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)stream_context(stream);
	if (green)
		*green = NULL;
	return CUDA_SUCCESS;
}

ROWS(cuStreamGetCtx, _ptsz, stream_api_get_ctx, (CUstream hStream, CUcontext *pctx), hStream, pctx,
     NULL)
ROWS(cuStreamGetCtx_v2, _ptsz, stream_api_get_ctx,
     (CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx), hStream, pCtx, pGreenCtx)

static CUresult stream_api_get_device(CUstream handle, CUdevice *device, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	return cuCtxGetDevice_v2(device, (CUcontext)stream_context(stream));
}

ROWS(cuStreamGetDevice, _ptsz, stream_api_get_device, (CUstream hStream, CUdevice *device), hStream,
     device)

static CUresult stream_api_get_flags(CUstream handle, unsigned int *flags, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

ROWS(cuStreamGetFlags, _ptsz, stream_api_get_flags, (CUstream hStream, unsigned int *flags),
     hStream, flags)

static CUresult stream_api_get_priority(CUstream handle, int *priority, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

ROWS(cuStreamGetPriority, _ptsz, stream_api_get_priority, (CUstream hStream, int *priority),
     hStream, priority)

static CUresult stream_api_get_id(CUstream handle, unsigned long long *id, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (error)
		return error;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = stream->id;
	return CUDA_SUCCESS;
}

ROWS(cuStreamGetId, _ptsz, stream_api_get_id, (CUstream hStream, unsigned long long *streamId),
     hStream, streamId)

static CUresult stream_api_submit(CUstream handle, const struct sim_work *work, bool per_thread)
{
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	return error ? error : work_submit(stream, work);
}

static CUresult stream_api_enqueue_host(CUstream handle, CUhostFn fn, void *data, bool per_thread)
{
	struct sim_work work = {.kind = WORK_HOST, .host = {fn, data}};

	return fn ? stream_api_submit(handle, &work, per_thread) : CUDA_ERROR_INVALID_VALUE;
}

ROWS(cuLaunchHostFunc, _ptsz, stream_api_enqueue_host,
     (CUstream hStream, CUhostFn fn, void *userData), hStream, fn, userData)

static CUresult stream_api_add_callback(CUstream handle, CUstreamCallback fn, void *data,
					unsigned int flags, bool per_thread)
{
	struct sim_work work = {.kind = WORK_CALLBACK, .callback = {fn, data, handle}};

	return fn && !flags ? stream_api_submit(handle, &work, per_thread)
			    : CUDA_ERROR_INVALID_VALUE;
}

ROWS(cuStreamAddCallback, _ptsz, stream_api_add_callback,
     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags), hStream,
     callback, userData, flags)

static CUresult stream_api_enqueue_value(CUstream handle, enum work_kind kind, CUdeviceptr address,
					 uint64_t is, unsigned int flags, bool wide,
					 bool per_thread)
{
	struct sim_work work = {.kind = kind, .value = {address, is, flags, wide}};
	size_t bytes = wide ? 8 : 4;

	if (!address || address % bytes || !sim_memory_valid(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return stream_api_submit(handle, &work, per_thread);
}

ROWS(cuStreamWaitValue32_v2, _ptsz, stream_api_enqueue_value,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value_, unsigned int flags), stream,
     WORK_READ_VALUE, addr, value_, flags, false)
ROWS(cuStreamWaitValue64_v2, _ptsz, stream_api_enqueue_value,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value_, unsigned int flags), stream,
     WORK_READ_VALUE, addr, value_, flags, true)
ROWS(cuStreamWriteValue32_v2, _ptsz, stream_api_enqueue_value,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value_, unsigned int flags), stream,
     WORK_WRITE_VALUE, addr, value_, flags, false)
ROWS(cuStreamWriteValue64_v2, _ptsz, stream_api_enqueue_value,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value_, unsigned int flags), stream,
     WORK_WRITE_VALUE, addr, value_, flags, true)

static CUresult stream_api_enqueue_op(CUstream handle, const CUstreamBatchMemOpParams *op,
				      bool per_thread)
{
	bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
		    op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return stream_api_enqueue_value(handle, WORK_READ_VALUE, op->waitValue.address,
						wide ? op->waitValue.value64 : op->waitValue.value,
						op->waitValue.flags, wide, per_thread);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return stream_api_enqueue_value(handle, WORK_WRITE_VALUE, op->writeValue.address,
						wide ? op->writeValue.value64 : op->writeValue.value,
						op->writeValue.flags, wide, per_thread);
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS; /* memory here is one */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* One after the other, which is one of the orders that the driver may choose. */
static CUresult stream_api_enqueue_batch(CUstream handle, unsigned int count,
					 const CUstreamBatchMemOpParams *ops, unsigned int flags,
					 bool per_thread)
{
	CUresult error = !ops || !count || count > 256 || flags ? CUDA_ERROR_INVALID_VALUE
								: CUDA_SUCCESS;

	for (unsigned int i = 0; !error && i < count; i++)
		error = stream_api_enqueue_op(handle, &ops[i], per_thread);
	return error;
}

ROWS(cuStreamBatchMemOp_v2, _ptsz, stream_api_enqueue_batch,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,
      unsigned int flags), stream, count, paramArray, flags)
