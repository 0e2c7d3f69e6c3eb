/* SPDX-License-Identifier: Apache-2.0 */
/*
 * External semaphores that count up (timelines). The descriptor stands for the one that Vulkan would
 * export. It is of a file in memory, whose first word is the count. Any process that has the file
 * can raise the count.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/work.h"

#define SEMAPHORE_BYTES sizeof(uint64_t)

CUresult cuImportExternalSemaphore(CUexternalSemaphore *extSem_out,
				   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
	void *count;
	struct sim_context *ctx;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	if (!extSem_out || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	count = mmap(NULL, SEMAPHORE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd, 0);
	if (count == MAP_FAILED)
		return CUDA_ERROR_INVALID_HANDLE;
	close(desc->handle.fd); /* the descriptor is the driver's from now on */
	*extSem_out = (CUexternalSemaphore)count;
	return CUDA_SUCCESS;
}

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore extSem)
{
	if (!extSem)
		return CUDA_ERROR_INVALID_VALUE;
	return munmap((void *)extSem, SEMAPHORE_BYTES) ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult semaphore_submit(CUstream handle, enum work_kind kind, CUexternalSemaphore semaphore,
				 uint64_t value, bool per_thread)
{
	struct sim_work work = {
		.kind = kind,
		.value = {(CUdeviceptr)(uintptr_t)semaphore, value, 0, true},
	};
	struct sim_stream *stream;
	CUresult r = stream_resolve(handle, per_thread, &stream);

	if (r)
		return r;
	return semaphore ? work_submit(stream, &work) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult semaphore_signal(const CUexternalSemaphore *semaphore,
				 const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int n,
				 CUstream stream, bool per_thread)
{
	CUresult r = semaphore && params && n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	for (unsigned int i = 0; !r && i < n; i++)
		r = semaphore_submit(stream, WORK_WRITE_VALUE, semaphore[i],
				     params[i].params.fence.value, per_thread);
	return r;
}

static CUresult semaphore_wait(const CUexternalSemaphore *semaphore,
			       const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int n,
			       CUstream stream, bool per_thread)
{
	CUresult r = semaphore && params && n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	for (unsigned int i = 0; !r && i < n; i++)
		r = semaphore_submit(stream, WORK_READ_VALUE, semaphore[i],
				     params[i].params.fence.value, per_thread);
	return r;
}

ROWS(cuSignalExternalSemaphoresAsync, _ptsz, semaphore_signal,
     (const CUexternalSemaphore *extSemArray,
      const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray, unsigned int numExtSems,
      CUstream stream),
     extSemArray, paramsArray, numExtSems, stream)
ROWS(cuWaitExternalSemaphoresAsync, _ptsz, semaphore_wait,
     (const CUexternalSemaphore *extSemArray,
      const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray, unsigned int numExtSems,
      CUstream stream),
     extSemArray, paramsArray, numExtSems, stream)
