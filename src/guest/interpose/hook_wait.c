/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the program waits, and where it has a stream wait: work is measured to its end there. The
 * driver gives unused pool memory back when a stream is synchronized, and so do we.
 */
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/launch/admission.h"
#include "guest/launch/waits.h"
#include "guest/memory/allocator.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/meter/capture.h"

#define WAIT_NOTING(name, params, args, note, before, after)      \
	CUresult hook_##name params                              \
	{                                                        \
		GUEST_OR_PASS(name, args);                       \
		note;                                            \
		CUresult e;                                      \
                                                                 \
		if (!admission_is_open(guest))                   \
			before;                                  \
		e = PASS_WORK(guest, DRIVER(name, args));                \
		if (!e)                                          \
			after;                                   \
		return e;                                        \
	}

#define WAIT(name, params, args, before, after) \
	WAIT_NOTING(name, params, args, (void)0, before, after)

/* Behind it, `freed` says which frees it may have covered. */
#define WAIT_TO_END(name, params, args, before, after) \
	WAIT_NOTING(name, params, args, uint64_t freed = guest->allocator->frees(guest), \
		     before, after)

#define STREAM(why, own) waits_stream(guest, hStream, own, why)

static void wait_settle(struct guest *guest)
{
	memory_reap(guest);
	pool_settle_all(guest);
	guest->allocator->settle(guest);
}

static void wait_synchronized(struct guest *guest, CUstream stream, bool own, uint64_t freed)
{
	if (!admission_is_open(guest))
		waits_over(guest, stream, own);
	guest->allocator->waited(guest, launch_stream(stream, own), freed);
	wait_settle(guest);
}

static void wait_answered(struct guest *guest)
{
	if (!admission_is_open(guest))
		waits_answered(guest);
}

static void wait_synchronized_context(struct guest *guest, CUcontext context, uint64_t freed)
{
	if (!admission_is_open(guest))
		waits_context_over(guest, context);
	guest->allocator->waited_context(guest, context, freed);
	wait_settle(guest);
}

static void wait_reached(struct guest *guest, CUevent event)
{
	if (!admission_is_open(guest))
		waits_event_over(guest, event);
}

static void wait_synchronized_event(struct guest *guest, CUevent event)
{
	wait_reached(guest, event);
	wait_settle(guest);
}

WAIT_TO_END(cuCtxSynchronize, (void), (), waits_context(guest, NULL, METER_WAIT),
	    wait_synchronized_context(guest, NULL, freed))
WAIT_TO_END(cuCtxSynchronize_v2, (CUcontext ctx), (ctx), waits_context(guest, ctx, METER_WAIT),
	    wait_synchronized_context(guest, ctx, freed))
WAIT_TO_END(cuStreamSynchronize, (CUstream hStream), (hStream), STREAM(METER_WAIT, false),
	    wait_synchronized(guest, hStream, false, freed))
WAIT_TO_END(cuStreamSynchronize_ptsz, (CUstream hStream), (hStream), STREAM(METER_WAIT, true),
	    wait_synchronized(guest, hStream, true, freed))
WAIT(cuStreamQuery, (CUstream hStream), (hStream), STREAM(METER_ASK, false), wait_answered(guest))
WAIT(cuStreamQuery_ptsz, (CUstream hStream), (hStream), STREAM(METER_ASK, true),
     wait_answered(guest))

/* Work before an event was closed when the program recorded that. */
WAIT(cuEventSynchronize, (CUevent hEvent), (hEvent), (void)0,
     wait_synchronized_event(guest, hEvent))
WAIT(cuEventQuery, (CUevent hEvent), (hEvent), (void)0, wait_reached(guest, hEvent))

#define RECORD(name, own)                                                                     \
	WAIT(name, (CUevent hEvent, CUstream hStream), (hEvent, hStream),                     \
	     waits_record(guest, hEvent, hStream, own), (void)0)
#define RECORD_WITH_FLAGS(name, own)                                                \
	WAIT(name, (CUevent hEvent, CUstream hStream, unsigned int flags),          \
	     (hEvent, hStream, flags), waits_record(guest, hEvent, hStream, own), (void)0)
RECORD(cuEventRecord, false)
RECORD(cuEventRecord_ptsz, true)
RECORD_WITH_FLAGS(cuEventRecordWithFlags, false)
RECORD_WITH_FLAGS(cuEventRecordWithFlags_ptsz, true)

/*
 * An event that is done makes nothing wait. To ask for it would end a capture of any thread, but in
 * relaxed mode; and one of which the event is part in any mode, so where the program captures it
 * counts as not done.
 */
static void wait_for_event(struct guest *guest, CUstream stream, bool own, CUevent event)
{
	CUresult e = CUDA_ERROR_NOT_READY;

	if (!atomic_load(&guest->captures)) {
		struct capture_mode mode = capture_relax();

		e = DRIVER(cuEventQuery, (event));
		capture_restore(mode);
	}
	if (e)
		waits_for_event(guest, event, stream, own);
}

#define WAIT_EVENT(name, own)                                                                      \
	WAIT(name, (CUstream hStream, CUevent hEvent, unsigned int Flags),                         \
	     (hStream, hEvent, Flags), wait_for_event(guest, hStream, own, hEvent), (void)0)
WAIT_EVENT(cuStreamWaitEvent, false)
WAIT_EVENT(cuStreamWaitEvent_ptsz, true)

#define HOST_FUNC(name, own)                                                           \
	WAIT(name, (CUstream hStream, CUhostFn fn, void *userData), (hStream, fn, userData), \
	     STREAM(METER_PARK, own), (void)0)
HOST_FUNC(cuLaunchHostFunc, false)
HOST_FUNC(cuLaunchHostFunc_ptsz, true)

#define CALLBACK(name, own)                                                                        \
	WAIT(name,                                                                                 \
	     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),    \
	     (hStream, callback, userData, flags), STREAM(METER_PARK, own), (void)0)
CALLBACK(cuStreamAddCallback, false)
CALLBACK(cuStreamAddCallback_ptsz, true)

#define WAIT_VALUE(name, type, own)                                                    \
	WAIT(name, (CUstream stream, CUdeviceptr addr, type value, unsigned int flags), \
	     (stream, addr, value, flags), waits_stream(guest, stream, own, METER_PARK), (void)0)
WAIT_VALUE(cuStreamWaitValue32, cuuint32_t, false)
WAIT_VALUE(cuStreamWaitValue32_ptsz, cuuint32_t, true)
WAIT_VALUE(cuStreamWaitValue32_v2, cuuint32_t, false)
WAIT_VALUE(cuStreamWaitValue32_v2_ptsz, cuuint32_t, true)
WAIT_VALUE(cuStreamWaitValue64, cuuint64_t, false)
WAIT_VALUE(cuStreamWaitValue64_ptsz, cuuint64_t, true)
WAIT_VALUE(cuStreamWaitValue64_v2, cuuint64_t, false)
WAIT_VALUE(cuStreamWaitValue64_v2_ptsz, cuuint64_t, true)

/* One of the operations may be a wait. */
#define BATCH_MEM_OP(name, own)                                                                  \
	WAIT(name, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray,   \
		    unsigned int flags),                                                         \
	     (stream, count, paramArray, flags), waits_stream(guest, stream, own, METER_PARK),  \
	     (void)0)
BATCH_MEM_OP(cuStreamBatchMemOp, false)
BATCH_MEM_OP(cuStreamBatchMemOp_ptsz, true)
BATCH_MEM_OP(cuStreamBatchMemOp_v2, false)
BATCH_MEM_OP(cuStreamBatchMemOp_v2_ptsz, true)

/* Another API counts it, or another process: the stream waits for neither in our name. */
#define WAIT_SEMAPHORES(name, own)                                                              \
	WAIT(name,                                                                              \
	     (const CUexternalSemaphore *extSemArray,                                           \
	      const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray, unsigned int numExtSems,  \
	      CUstream hStream),                                                                \
	     (extSemArray, paramsArray, numExtSems, hStream), STREAM(METER_PARK, own), (void)0)
WAIT_SEMAPHORES(cuWaitExternalSemaphoresAsync, false)
WAIT_SEMAPHORES(cuWaitExternalSemaphoresAsync_ptsz, true)

#define STREAM_END(name)                                                \
	CUresult hook_##name(CUstream hStream)                          \
	{                                                               \
		GUEST_OR_PASS(name, (hStream));                         \
		CUresult e;                                             \
                                                                        \
		waits_stream_leaves(guest, hStream);                    \
		guest->allocator->stream_ends(guest, hStream);          \
		capturing_end(guest, hStream);                          \
		e = DRIVER(name, (hStream));                            \
		waits_stream_left(guest, hStream, !e);                  \
		return e;                                               \
	}
STREAM_END(cuStreamDestroy)
STREAM_END(cuStreamDestroy_v2)
