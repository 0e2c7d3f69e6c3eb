/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and memsets. On the device they take its time as kernels do: they pass the gate and are
 * metered. To and from the host they are not charged, since the device computes beside them: what
 * is before them ends there, what is behind them begins anew, and their bytes are counted.
 */
#include "guest/core/hook.h"
#include "guest/launch/admission.h"
#include "guest/launch/waits.h"
#include "sched/tuning.h"

/* As keys of what is launched: no function has such an address. */
#define COPY_KEY 1
#define SET_KEY	 2

/* The kind of memory at an address. */
enum copy_side {
	SIDE_DEVICE,
	SIDE_PINNED,
	SIDE_PAGEABLE,
};

struct copy {
	CUstream stream;
	bool per_thread, async;
	bool host; /* to or from it */
	bool set;
	CUdeviceptr to, from; /* the driver may have to be asked of these */
	bool to_pageable;     /* known of asynchronous ones */
	uint64_t bytes;
};

static enum copy_side copy_side(CUdeviceptr at)
{
	CUmemorytype type;

	if (DRIVER(cuPointerGetAttribute, (&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at)))
		return SIDE_PAGEABLE;
	return type == CU_MEMORYTYPE_HOST ? SIDE_PINNED : SIDE_DEVICE;
}

static bool copy_is_host(CUdeviceptr at)
{
	return copy_side(at) != SIDE_DEVICE;
}

/*
 * Finds out what the call does not say by itself. Asks the driver once about an address, or not at
 * all.
 */
static void copy_ask(struct copy *copy)
{
	if (copy->to && (copy->async || !copy->host)) {
		enum copy_side side = copy_side(copy->to);

		copy->host |= side != SIDE_DEVICE;
		copy->to_pageable = side == SIDE_PAGEABLE;
	}
	if (copy->from && !copy->host)
		copy->host = copy_is_host(copy->from);
}

/* The address of one of a copy's two sides, for those structs that name both. */
#define SIDE(copy, side)                                                   \
	(!(copy)                                         ? 0               \
	 : (copy)->side##MemoryType == CU_MEMORYTYPE_HOST                  \
		 ? (CUdeviceptr)(uintptr_t)(copy)->side##Host              \
	 : (copy)->side##MemoryType == CU_MEMORYTYPE_UNIFIED               \
		 ? (copy)->side##Device                                    \
		 : 0)
#define BY_STRUCT(copy)                                                    \
	.host = (copy) && ((copy)->srcMemoryType == CU_MEMORYTYPE_HOST ||  \
			   (copy)->dstMemoryType == CU_MEMORYTYPE_HOST),   \
	.to = SIDE(copy, dst), .from = SIDE(copy, src)

static uint64_t copy_bytes_2d(const CUDA_MEMCPY2D *copy)
{
	return copy ? copy->WidthInBytes * copy->Height : 0;
}

static uint64_t copy_bytes_3d(const CUDA_MEMCPY3D *copy)
{
	return copy ? copy->WidthInBytes * copy->Height * copy->Depth : 0;
}

static uint64_t copy_bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy)
{
	return copy ? copy->WidthInBytes * copy->Height * copy->Depth : 0;
}

/* A batch is to or from the host if all of it is. */
static bool copy_is_host_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, size_t count)
{
	for (size_t i = 0; dsts && srcs && i < count; i++)
		if (!copy_is_host(dsts[i]) && !copy_is_host(srcs[i]))
			return false;
	return true;
}

static uint64_t copy_bytes_batch(const size_t *sizes, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; sizes && i < count; i++)
		bytes += sizes[i];
	return bytes;
}

static bool copy_is_host_operand(const CUmemcpy3DOperand *operand)
{
	return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER && copy_is_host(operand->op.ptr.ptr);
}

static bool copy_is_host_batch_3d(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
	for (size_t i = 0; ops && i < count; i++)
		if (!copy_is_host_operand(&ops[i].src) && !copy_is_host_operand(&ops[i].dst))
			return false;
	return true;
}

/* Of arrays these are elements: which size they have does not matter here. */
static uint64_t copy_bytes_batch_3d(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; ops && i < count; i++)
		bytes += ops[i].extent.width * ops[i].extent.height * ops[i].extent.depth;
	return bytes;
}

/* A copy to pageable memory is done when the driver returns, whatever its name says. */
static bool copy_is_done(const struct copy *copy)
{
	return !copy->async || copy->to_pageable;
}

/*
 * A copy that is not asynchronous waits for all that is before it in its context. A copy that takes
 * no longer than a gap between launches counts as such a gap.
 */
static void copy_before_host(struct guest *guest, const struct copy *copy)
{
	bool brief = copy->bytes < TUNING_COPY_BYTES;

	if (!copy->async)
		waits_context(guest, NULL, brief ? METER_COPY : METER_ASK);
	waits_stream(guest, copy->stream, copy->per_thread,
		     !brief ? METER_SPLIT : copy_is_done(copy) ? METER_COPIED : METER_COPY);
	waits_host_copy(guest, copy->bytes);
}

static CUresult copy_before(struct guest *guest, struct copy *copy, struct launch *launch)
{
	copy_ask(copy);
	*launch = (struct launch){
		.stream = copy->stream,
		.per_thread = copy->per_thread,
		.kind = LAUNCH_COPY,
		.key = copy->set ? SET_KEY : COPY_KEY,
		.blocks = copy->bytes,
	};
	if (!copy->host)
		return admission_enter(guest, launch);
	copy_before_host(guest, copy);
	return CUDA_SUCCESS;
}

static void copy_after(struct guest *guest, const struct copy *copy, struct launch *launch,
		       CUresult e)
{
	admission_leave(guest, launch, e);
	if (copy->host && !e && !admission_is_open(guest) && copy_is_done(copy))
		waits_copied(guest, copy->stream, copy->per_thread);
}

#define COPY(name, params, args)                                                                   \
	CUresult hook_##name params                                                                \
	{                                                                                          \
		GUEST_ALONE(name, args);                                                           \
		if (admission_is_open(guest))                                                      \
			return DRIVER(name, args);                                                 \
		HOLD_MEMORY(name);                                                                 \
		struct copy copy = {HOW_##name};                                                   \
		struct launch launch;                                                              \
		CUresult e = copy_before(guest, &copy, &launch);                                   \
                                                                                                   \
		if (e)                                                                             \
			return e;                                                                  \
		e = copy.async ? DRIVER(name, args) : PASS_WORK(guest, DRIVER(name, args));        \
		copy_after(guest, &copy, &launch, e);                                              \
		return e;                                                                          \
	}

#define HOW_cuMemcpy .to = dst, .from = src, .bytes = ByteCount
#define HOW_cuMemcpy2DAsync_v2                                                                     \
	.stream = hStream, .async = true, BY_STRUCT(pCopy), .bytes = copy_bytes_2d(pCopy)
#define HOW_cuMemcpy2DAsync_v2_ptsz HOW_cuMemcpy2DAsync_v2, .per_thread = true
#define HOW_cuMemcpy2DUnaligned_v2 BY_STRUCT(pCopy), .bytes = copy_bytes_2d(pCopy)
#define HOW_cuMemcpy2DUnaligned_v2_ptds HOW_cuMemcpy2DUnaligned_v2, .per_thread = true
#define HOW_cuMemcpy2D_v2 HOW_cuMemcpy2DUnaligned_v2
#define HOW_cuMemcpy2D_v2_ptds HOW_cuMemcpy2D_v2, .per_thread = true
#define HOW_cuMemcpy3DAsync_v2                                                                     \
	.stream = hStream, .async = true, BY_STRUCT(pCopy), .bytes = copy_bytes_3d(pCopy)
#define HOW_cuMemcpy3DAsync_v2_ptsz HOW_cuMemcpy3DAsync_v2, .per_thread = true
#define HOW_cuMemcpy3DBatchAsync                                                                   \
	.stream = hStream, .async = true, .host = copy_is_host_batch_3d(opList, numOps),           \
	.bytes = copy_bytes_batch_3d(opList, numOps)
#define HOW_cuMemcpy3DBatchAsync_ptsz HOW_cuMemcpy3DBatchAsync, .per_thread = true
#define HOW_cuMemcpy3DBatchAsync_v2 HOW_cuMemcpy3DBatchAsync
#define HOW_cuMemcpy3DBatchAsync_v2_ptsz HOW_cuMemcpy3DBatchAsync, .per_thread = true
#define HOW_cuMemcpy3DPeer .bytes = copy_bytes_3d_peer(pCopy)
#define HOW_cuMemcpy3DPeerAsync .stream = hStream, .async = true, .bytes = copy_bytes_3d_peer(pCopy)
#define HOW_cuMemcpy3DPeerAsync_ptsz HOW_cuMemcpy3DPeerAsync, .per_thread = true
#define HOW_cuMemcpy3DPeer_ptds HOW_cuMemcpy3DPeer, .per_thread = true
#define HOW_cuMemcpy3D_v2 BY_STRUCT(pCopy), .bytes = copy_bytes_3d(pCopy)
#define HOW_cuMemcpy3D_v2_ptds HOW_cuMemcpy3D_v2, .per_thread = true
#define HOW_cuMemcpyAsync                                                                          \
	.stream = hStream, .async = true, .to = dst, .from = src, .bytes = ByteCount
#define HOW_cuMemcpyAsync_ptsz HOW_cuMemcpyAsync, .per_thread = true
#define HOW_cuMemcpyAtoA .bytes = ByteCount
#define HOW_cuMemcpyAtoA_v2 .bytes = ByteCount
#define HOW_cuMemcpyAtoA_v2_ptds HOW_cuMemcpyAtoA_v2, .per_thread = true
#define HOW_cuMemcpyAtoD_v2 .bytes = ByteCount
#define HOW_cuMemcpyAtoD_v2_ptds HOW_cuMemcpyAtoD_v2, .per_thread = true
#define HOW_cuMemcpyAtoH .host = true, .bytes = ByteCount
#define HOW_cuMemcpyAtoHAsync .stream = hStream, .async = true, .host = true, \
	.to = (CUdeviceptr)(uintptr_t)dstHost, .bytes = ByteCount
#define HOW_cuMemcpyAtoHAsync_v2 HOW_cuMemcpyAtoHAsync
#define HOW_cuMemcpyAtoHAsync_v2_ptsz HOW_cuMemcpyAtoHAsync_v2, .per_thread = true
#define HOW_cuMemcpyAtoH_v2 HOW_cuMemcpyAtoH
#define HOW_cuMemcpyAtoH_v2_ptds HOW_cuMemcpyAtoH_v2, .per_thread = true
#define HOW_cuMemcpyBatchAsync                                                                     \
	.stream = hStream, .async = true, .host = copy_is_host_batch(dsts, srcs, count),           \
	.bytes = copy_bytes_batch(sizes, count)
#define HOW_cuMemcpyBatchAsync_ptsz HOW_cuMemcpyBatchAsync, .per_thread = true
#define HOW_cuMemcpyBatchAsync_v2 HOW_cuMemcpyBatchAsync
#define HOW_cuMemcpyBatchAsync_v2_ptsz HOW_cuMemcpyBatchAsync, .per_thread = true
#define HOW_cuMemcpyDtoA_v2 .bytes = ByteCount
#define HOW_cuMemcpyDtoA_v2_ptds HOW_cuMemcpyDtoA_v2, .per_thread = true
#define HOW_cuMemcpyDtoDAsync_v2 .stream = hStream, .async = true, .bytes = ByteCount
#define HOW_cuMemcpyDtoDAsync_v2_ptsz HOW_cuMemcpyDtoDAsync_v2, .per_thread = true
#define HOW_cuMemcpyDtoD_v2 .bytes = ByteCount
#define HOW_cuMemcpyDtoD_v2_ptds HOW_cuMemcpyDtoD_v2, .per_thread = true
#define HOW_cuMemcpyDtoHAsync_v2 HOW_cuMemcpyAtoHAsync
#define HOW_cuMemcpyDtoHAsync_v2_ptsz HOW_cuMemcpyDtoHAsync_v2, .per_thread = true
#define HOW_cuMemcpyDtoH_v2 HOW_cuMemcpyAtoH
#define HOW_cuMemcpyDtoH_v2_ptds HOW_cuMemcpyDtoH_v2, .per_thread = true
#define HOW_cuMemcpyHtoA HOW_cuMemcpyAtoH
#define HOW_cuMemcpyHtoAAsync .stream = hStream, .async = true, .host = true, .bytes = ByteCount
#define HOW_cuMemcpyHtoAAsync_v2 HOW_cuMemcpyHtoAAsync
#define HOW_cuMemcpyHtoAAsync_v2_ptsz HOW_cuMemcpyHtoAAsync_v2, .per_thread = true
#define HOW_cuMemcpyHtoA_v2 HOW_cuMemcpyAtoH
#define HOW_cuMemcpyHtoA_v2_ptds HOW_cuMemcpyHtoA_v2, .per_thread = true
#define HOW_cuMemcpyHtoDAsync_v2 HOW_cuMemcpyHtoAAsync
#define HOW_cuMemcpyHtoDAsync_v2_ptsz HOW_cuMemcpyHtoDAsync_v2, .per_thread = true
#define HOW_cuMemcpyHtoD_v2 HOW_cuMemcpyAtoH
#define HOW_cuMemcpyHtoD_v2_ptds HOW_cuMemcpyHtoD_v2, .per_thread = true
#define HOW_cuMemcpyPeer .bytes = ByteCount
#define HOW_cuMemcpyPeerAsync HOW_cuMemcpyDtoDAsync_v2
#define HOW_cuMemcpyPeerAsync_ptsz HOW_cuMemcpyPeerAsync, .per_thread = true
#define HOW_cuMemcpyPeer_ptds HOW_cuMemcpyPeer, .per_thread = true
#define HOW_cuMemcpy_ptds HOW_cuMemcpy, .per_thread = true
#define HOW_cuMemsetD16Async .stream = hStream, .async = true, .set = true, .bytes = N * 2
#define HOW_cuMemsetD16Async_ptsz HOW_cuMemsetD16Async, .per_thread = true
#define HOW_cuMemsetD16_v2 .set = true, .bytes = N * 2
#define HOW_cuMemsetD16_v2_ptds HOW_cuMemsetD16_v2, .per_thread = true
#define HOW_cuMemsetD2D16Async .stream = hStream, .async = true, .set = true, \
	.bytes = Width * Height * 2
#define HOW_cuMemsetD2D16Async_ptsz HOW_cuMemsetD2D16Async, .per_thread = true
#define HOW_cuMemsetD2D16_v2 .set = true, .bytes = Width * Height * 2
#define HOW_cuMemsetD2D16_v2_ptds HOW_cuMemsetD2D16_v2, .per_thread = true
#define HOW_cuMemsetD2D32Async .stream = hStream, .async = true, .set = true, \
	.bytes = Width * Height * 4
#define HOW_cuMemsetD2D32Async_ptsz HOW_cuMemsetD2D32Async, .per_thread = true
#define HOW_cuMemsetD2D32_v2 .set = true, .bytes = Width * Height * 4
#define HOW_cuMemsetD2D32_v2_ptds HOW_cuMemsetD2D32_v2, .per_thread = true
#define HOW_cuMemsetD2D8Async .stream = hStream, .async = true, .set = true, .bytes = Width * Height
#define HOW_cuMemsetD2D8Async_ptsz HOW_cuMemsetD2D8Async, .per_thread = true
#define HOW_cuMemsetD2D8_v2 .set = true, .bytes = Width * Height
#define HOW_cuMemsetD2D8_v2_ptds HOW_cuMemsetD2D8_v2, .per_thread = true
#define HOW_cuMemsetD32Async .stream = hStream, .async = true, .set = true, .bytes = N * 4
#define HOW_cuMemsetD32Async_ptsz HOW_cuMemsetD32Async, .per_thread = true
#define HOW_cuMemsetD32_v2 .set = true, .bytes = N * 4
#define HOW_cuMemsetD32_v2_ptds HOW_cuMemsetD32_v2, .per_thread = true
#define HOW_cuMemsetD8Async .stream = hStream, .async = true, .set = true, .bytes = N
#define HOW_cuMemsetD8Async_ptsz HOW_cuMemsetD8Async, .per_thread = true
#define HOW_cuMemsetD8_v2 .set = true, .bytes = N
#define HOW_cuMemsetD8_v2_ptds HOW_cuMemsetD8_v2, .per_thread = true

/* The list says which: each row of this kind is such a hook. */
#include "guest/interpose/no_rows.h"
#undef ROW_COPY
#define ROW_COPY(name, params, args) COPY(name, params, args)
#include "nvidia/cuda_api.def"
