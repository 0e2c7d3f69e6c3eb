/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of copies and sets. A copy of one row is a box of height and depth 1. Calls wait as
 * documented for the driver. Copies to or from the host by a plain name wait. Copies within the
 * device and sets do not. Asynchronous copies from or to pageable memory have read it or written it
 * when they return.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/exec.h"
#include "sim/cuda/rows.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/stream.h"

#define STAGED_MOST (64u << 10) /* pageable memory up to here is copied aside instead */

enum where { HOST = CU_MEMORYTYPE_HOST, DEVICE = CU_MEMORYTYPE_DEVICE, ARRAY = CU_MEMORYTYPE_ARRAY,
	     UNIFIED = CU_MEMORYTYPE_UNIFIED };

/* One end of a copy of one row. */
struct end {
	enum where where;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t offset;
};

#define AT_HOST(p) ((struct end){.where = HOST, .host = (p)})
#define AT_DEVICE(p) ((struct end){.where = DEVICE, .device = (p)})
#define AT_ANY(p) ((struct end){.where = UNIFIED, .device = (p)})
#define AT_ARRAY(a, o) ((struct end){.where = ARRAY, .array = (a), .offset = (o)})

static CUDA_MEMCPY3D copy_api_row_of(struct end to, struct end from, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = from.offset,
		.srcMemoryType = (CUmemorytype)from.where,
		.srcHost = from.host,
		.srcDevice = from.device,
		.srcArray = from.array,
		.dstXInBytes = to.offset,
		.dstMemoryType = (CUmemorytype)to.where,
		.dstHost = (void *)(uintptr_t)to.host,
		.dstDevice = to.device,
		.dstArray = to.array,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

/* Does the host own this end, and can the device not reach it at any time? */
static bool copy_api_is_pageable(CUmemorytype type, const void *host, CUdeviceptr device)
{
	if (!copy_side_is_host(type, device))
		return false;
	return !sim_memory_valid(type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(uintptr_t)host : device,
				 1);
}

/* Pageable source memory of a small row: the program may change it as soon as the call is over. */
static bool copy_api_stage(struct sim_op *op)
{
	CUDA_MEMCPY3D *copy = &op->work.copy;
	const void *from = copy->srcMemoryType == CU_MEMORYTYPE_HOST ?
				   copy->srcHost : (const void *)(uintptr_t)copy->srcDevice;

	if (copy->Height != 1 || copy->Depth != 1 || copy->WidthInBytes > STAGED_MOST ||
	    copy->srcXInBytes || copy->srcY || copy->srcZ)
		return false;
	op->staged = malloc(copy->WidthInBytes + 1);
	if (!op->staged)
		return false;
	memcpy(op->staged, from, copy->WidthInBytes);
	copy->srcMemoryType = CU_MEMORYTYPE_HOST;
	copy->srcHost = op->staged;
	return true;
}

static CUresult copy_api_enqueue(const CUDA_MEMCPY3D *what, CUstream handle, bool async,
				 bool per_thread)
{
	struct sim_work work = {.kind = WORK_COPY};
	struct sim_stream *stream;
	struct sim_op *op;
	bool waits;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (!error)
		error = copy_check(what, !stream_is_capturing(stream));
	if (!error && !async)
		error = capture_forbids();
	if (!error)
		error = capture_forbids_legacy(stream);
	if (error || !what->WidthInBytes || !what->Height || !what->Depth)
		return error;
	work.copy = *what;
	if (stream_is_capturing(stream))
		return async ? capture_work(stream, &work) : capture_forbids_sync(stream);
	error = exec_start(stream->exec);
	if (error)
		return error;
	op = op_new(&work);
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!async) {
		waits = copy_side_is_host(what->srcMemoryType, what->srcDevice) ||
			copy_side_is_host(what->dstMemoryType, what->dstDevice);
	} else {
		waits = copy_api_is_pageable(what->dstMemoryType, what->dstHost, what->dstDevice);
		if (copy_api_is_pageable(what->srcMemoryType, what->srcHost, what->srcDevice))
			waits |= !copy_api_stage(op);
	}
	stream_push(stream, op, op, 1);
	return waits ? stream_synchronize(stream) : CUDA_SUCCESS;
}

static CUresult copy_api_enqueue_row(struct end to, struct end from, size_t bytes, CUstream handle,
				     bool async, bool per_thread)
{
	const CUDA_MEMCPY3D what = copy_api_row_of(to, from, bytes);

	return copy_api_enqueue(&what, handle, async, per_thread);
}

struct attributes {
	const CUmemcpyAttributes *attributes;
	const size_t *firsts;
	size_t n;
};

/*
 * The copies are made one after the other. Their attributes, of order and place, change nothing
 * here, but have to be given. The legacy stream takes no batch.
 */
static CUresult copy_api_enqueue_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
				       const size_t *sizes, size_t count, struct attributes how,
				       size_t *ret_failed, CUstream handle, bool per_thread)
{
	if (!handle && !per_thread)
		return CUDA_ERROR_INVALID_VALUE;
	if (ret_failed)
		*ret_failed = SIZE_MAX; /* none of them in particular */
	if (!dsts || !srcs || !sizes || !count || (how.n && (!how.attributes || !how.firsts)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		CUresult error = copy_api_enqueue_row(AT_ANY(dsts[i]), AT_ANY(srcs[i]), sizes[i],
						      handle, true, per_thread);

		if (error && ret_failed)
			*ret_failed = i;
		if (error)
			return error;
	}
	return CUDA_SUCCESS;
}

#define HOW ((struct attributes){attrs, attrsIdxs, numAttrs})

ROWS(cuMemcpyBatchAsync, _ptsz, copy_api_enqueue_batch,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
      size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream),
     dsts, srcs, sizes, count, HOW, failIdx, hStream)

/* Of these the second form wants a stream, too. */
CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				       size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				       size_t numAttrs, CUstream hStream)
{
	return copy_api_enqueue_batch(dsts, srcs, sizes, count, HOW, NULL, hStream, false);
}

CUresult CUDAAPI cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
					    size_t count, CUmemcpyAttributes *attrs,
					    size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
	return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

#define SYNC(name, to, from, bytes, params)                                                        \
	ROWS(name, _ptds, copy_api_enqueue_row, params, to, from, bytes, NULL, false)
#define ASYNC(name, to, from, bytes, params)                                                       \
	ROWS(name, _ptsz, copy_api_enqueue_row, params, to, from, bytes, hStream, true)

SYNC(cuMemcpy, AT_ANY(dst), AT_ANY(src), ByteCount,
     (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount))
ASYNC(cuMemcpyAsync, AT_ANY(dst), AT_ANY(src), ByteCount,
      (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream))
SYNC(cuMemcpyHtoD_v2, AT_DEVICE(dstDevice), AT_HOST(srcHost), ByteCount,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount))
ASYNC(cuMemcpyHtoDAsync_v2, AT_DEVICE(dstDevice), AT_HOST(srcHost), ByteCount,
      (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream))
SYNC(cuMemcpyDtoH_v2, AT_HOST(dstHost), AT_DEVICE(srcDevice), ByteCount,
     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount))
ASYNC(cuMemcpyDtoHAsync_v2, AT_HOST(dstHost), AT_DEVICE(srcDevice), ByteCount,
      (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream))
SYNC(cuMemcpyDtoD_v2, AT_DEVICE(dstDevice), AT_DEVICE(srcDevice), ByteCount,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount))
ASYNC(cuMemcpyDtoDAsync_v2, AT_DEVICE(dstDevice), AT_DEVICE(srcDevice), ByteCount,
      (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream))

SYNC(cuMemcpyAtoA_v2, AT_ARRAY(dstArray, dstOffset), AT_ARRAY(srcArray, srcOffset), ByteCount,
     (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount))
SYNC(cuMemcpyAtoD_v2, AT_DEVICE(dstDevice), AT_ARRAY(srcArray, srcOffset), ByteCount,
     (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount))
SYNC(cuMemcpyDtoA_v2, AT_ARRAY(dstArray, dstOffset), AT_DEVICE(srcDevice), ByteCount,
     (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount))
SYNC(cuMemcpyAtoH_v2, AT_HOST(dstHost), AT_ARRAY(srcArray, srcOffset), ByteCount,
     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount))
ASYNC(cuMemcpyAtoHAsync_v2, AT_HOST(dstHost), AT_ARRAY(srcArray, srcOffset), ByteCount,
      (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream))
SYNC(cuMemcpyHtoA_v2, AT_ARRAY(dstArray, dstOffset), AT_HOST(srcHost), ByteCount,
     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount))
ASYNC(cuMemcpyHtoAAsync_v2, AT_ARRAY(dstArray, dstOffset), AT_HOST(srcHost), ByteCount,
      (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream))

/* The first versions of the array rows, which have 32-bit sizes and no second name. */
CUresult CUDAAPI cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset, CUarray srcArray,
			      unsigned int srcOffset, unsigned int ByteCount)
{
	return cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}

CUresult CUDAAPI cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned int srcOffset,
			      unsigned int ByteCount)
{
	return cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}

CUresult CUDAAPI cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray, unsigned int srcOffset,
				   unsigned int ByteCount, CUstream hStream)
{
	return cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
			      unsigned int ByteCount)
{
	return cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}

CUresult CUDAAPI cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
				   unsigned int ByteCount, CUstream hStream)
{
	return cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}

/*
 * All devices' memory is in one address space here: contexts only have to exist. One that is left
 * out is the current one.
 */
static CUresult copy_api_enqueue_peer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
				      CUcontext from_ctx, size_t bytes, CUstream handle, bool async,
				      bool per_thread)
{
	struct sim_context *ctx;
	CUresult error = sim_ready();

	if (!error && to_ctx)
		error = sim_context_lookup(to_ctx, &ctx);
	if (!error && from_ctx)
		error = sim_context_lookup(from_ctx, &ctx);
	if (error)
		return error;
	return copy_api_enqueue_row(AT_DEVICE(to), AT_DEVICE(from), bytes, handle, async,
				    per_thread);
}

ROWS(cuMemcpyPeer, _ptds, copy_api_enqueue_peer,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount),
     dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, false)
ROWS(cuMemcpyPeerAsync, _ptsz, copy_api_enqueue_peer,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount, CUstream hStream),
     dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true)

static CUresult copy_api_enqueue_2d(const CUDA_MEMCPY2D *p, CUstream handle, bool async,
				    bool per_thread)
{
	CUDA_MEMCPY3D box;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	box = (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcXInBytes,
		.srcY = p->srcY,
		.srcMemoryType = p->srcMemoryType,
		.srcHost = p->srcHost,
		.srcDevice = p->srcDevice,
		.srcArray = p->srcArray,
		.srcPitch = p->srcPitch,
		.dstXInBytes = p->dstXInBytes,
		.dstY = p->dstY,
		.dstMemoryType = p->dstMemoryType,
		.dstHost = p->dstHost,
		.dstDevice = p->dstDevice,
		.dstArray = p->dstArray,
		.dstPitch = p->dstPitch,
		.WidthInBytes = p->WidthInBytes,
		.Height = p->Height,
		.Depth = 1,
	};
	return copy_api_enqueue(&box, handle, async, per_thread);
}

ROWS(cuMemcpy2DUnaligned_v2, _ptds, copy_api_enqueue_2d, (const CUDA_MEMCPY2D *pCopy), pCopy, NULL,
     false)
ROWS(cuMemcpy2D_v2, _ptds, copy_api_enqueue_2d, (const CUDA_MEMCPY2D *pCopy), pCopy, NULL, false)
ROWS(cuMemcpy2DAsync_v2, _ptsz, copy_api_enqueue_2d, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
     pCopy, hStream, true)

static CUresult copy_api_enqueue_3d(const CUDA_MEMCPY3D *p, CUstream handle, bool async,
				    bool per_thread)
{
	if (!p || p->srcLOD || p->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	return copy_api_enqueue(p, handle, async, per_thread);
}

ROWS(cuMemcpy3D_v2, _ptds, copy_api_enqueue_3d, (const CUDA_MEMCPY3D *pCopy), pCopy, NULL, false)
ROWS(cuMemcpy3DAsync_v2, _ptsz, copy_api_enqueue_3d, (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
     pCopy, hStream, true)

/* The same layout, with contexts where the plain one has reserved pointers. */
static CUresult copy_api_enqueue_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream handle, bool async,
					 bool per_thread)
{
	CUDA_MEMCPY3D box;

	_Static_assert(sizeof(*p) == sizeof(box), "the two describe a copy alike");
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&box, p, sizeof(box));
	box.reserved0 = box.reserved1 = NULL;
	return copy_api_enqueue_3d(&box, handle, async, per_thread);
}

/* A box between addresses. A length of 0 is the box's own. */
static void copy_api_box(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *ret)
{
	*ret = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = op->src.op.ptr.ptr,
		.srcPitch = op->src.op.ptr.rowLength,
		.srcHeight = op->src.op.ptr.layerHeight,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = op->dst.op.ptr.ptr,
		.dstPitch = op->dst.op.ptr.rowLength,
		.dstHeight = op->dst.op.ptr.layerHeight,
		.WidthInBytes = op->extent.width,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};
}

/* Of arrays, which are measured in elements, none is simulated. */
static CUresult copy_api_enqueue_batch_3d(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t n,
					  size_t *ret_failed, CUstream handle, bool per_thread)
{
	if (!handle && !per_thread)
		return CUDA_ERROR_INVALID_VALUE;
	if (ret_failed)
		*ret_failed = SIZE_MAX;
	if (!ops || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		CUDA_MEMCPY3D box;
		CUresult error = CUDA_ERROR_NOT_SUPPORTED;

		if (ops[i].src.type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
		    ops[i].dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
			copy_api_box(&ops[i], &box);
			error = copy_api_enqueue(&box, handle, true, per_thread);
		}
		if (error && ret_failed)
			*ret_failed = i;
		if (error)
			return error;
	}
	return CUDA_SUCCESS;
}

ROWS(cuMemcpy3DBatchAsync, _ptsz, copy_api_enqueue_batch_3d,
     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
      CUstream hStream),
     opList, numOps, failIdx, hStream)

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
					 unsigned long long flags, CUstream hStream)
{
	return copy_api_enqueue_batch_3d(opList, numOps, NULL, hStream, false);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
					      unsigned long long flags, CUstream hStream)
{
	return cuMemcpy3DBatchAsync_v2(numOps, opList, flags, hStream);
}

ROWS(cuMemcpy3DPeer, _ptds, copy_api_enqueue_3d_peer, (const CUDA_MEMCPY3D_PEER *pCopy), pCopy,
     NULL, false)
ROWS(cuMemcpy3DPeerAsync, _ptsz, copy_api_enqueue_3d_peer,
     (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream), pCopy, hStream, true)

static CUresult copy_api_enqueue_set(CUdeviceptr ptr, size_t pitch, unsigned int is,
				     unsigned int element, size_t width, size_t height,
				     CUstream handle, bool async, bool per_thread)
{
	struct sim_work work = {.kind = WORK_SET, .set = {ptr, pitch, is, element, width, height}};
	struct sim_stream *stream;
	CUresult error = stream_resolve(handle, per_thread, &stream);

	if (!error)
		error = set_check(&work.set, !stream_is_capturing(stream));
	if (!error && !async)
		error = capture_forbids();
	if (error || !width || !height)
		return error;
	return work_submit(stream, &work);
}

#define SET(name, type, element)                                                                   \
	ROWS(name##_v2, _ptds, copy_api_enqueue_set, (CUdeviceptr dstDevice, type is, size_t N),   \
	     dstDevice, 0, is, element, N, 1, NULL, false)                                         \
	ROWS(name##Async, _ptsz, copy_api_enqueue_set,                                             \
	     (CUdeviceptr dstDevice, type is, size_t N, CUstream hStream), dstDevice, 0, is,       \
	     element, N, 1, hStream, true)

#define SET_2D(name, type, element)                                                                \
	ROWS(name##_v2, _ptds, copy_api_enqueue_set,                                               \
	     (CUdeviceptr dstDevice, size_t dstPitch, type is, size_t Width, size_t Height),       \
	     dstDevice, dstPitch, is, element, Width, Height, NULL, false)                         \
	ROWS(name##Async, _ptsz, copy_api_enqueue_set,                                             \
	     (CUdeviceptr dstDevice, size_t dstPitch, type is, size_t Width, size_t Height,        \
	      CUstream hStream),                                                                   \
	     dstDevice, dstPitch, is, element, Width, Height, hStream, true)

SET(cuMemsetD8, unsigned char, 1)
SET(cuMemsetD16, unsigned short, 2)
SET(cuMemsetD32, unsigned int, 4)
SET_2D(cuMemsetD2D8, unsigned char, 1)
SET_2D(cuMemsetD2D16, unsigned short, 2)
SET_2D(cuMemsetD2D32, unsigned int, 4)
