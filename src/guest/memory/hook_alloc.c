/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc and its like, and every free that may meet their memory. */
#include "guest/account/room.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/memory/allocator.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/pool_pointer.h"
#include "guest/movable/linear.h"
#include "guest/movable/own_alloc.h"

CUresult hook_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	GUEST_OR_PASS(cuMemAlloc_v2, (dptr, bytesize));
	struct guest_device *device = guest_current_device(guest);

	if (!device || !dptr)
		return DRIVER(cuMemAlloc_v2, (dptr, bytesize));
	return guest->allocator->alloc(guest, device, bytesize, dptr);
}

/*
 * The 32-bit forms of CUDA 3 and older, which the driver still exports. Addresses of ours have more
 * bits: what such a program holds stays where it is.
 */
CUresult hook_cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	GUEST_OR_PASS(cuMemAlloc, (dptr, bytesize));
	struct guest_device *device = guest_current_device(guest);
	struct charge charge;
	CUresult e;

	if (!device || !dptr)
		return DRIVER(cuMemAlloc, (dptr, bytesize));
	e = charge_reserve(guest, device, memory_need(bytesize), &charge);
	if (e)
		return e;
	e = WITH_ROOM(guest, device, charge.reserved, DRIVER(cuMemAlloc, (dptr, bytesize)));
	return memory_commit(&charge, e, *dptr, bytesize, 0);
}

/* The pitch is the driver's to choose; no device aligns rows to more than this. */
#define PITCH_BYTES 512

static bool alloc_element_is_valid(unsigned int bytes)
{
	return bytes == 4 || bytes == 8 || bytes == 16;
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				 size_t Height, unsigned int ElementSizeBytes)
{
	GUEST_OR_PASS(cuMemAllocPitch_v2, (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	struct guest_device *device = guest_current_device(guest);
	struct charge charge;
	uint64_t bytes;
	CUresult e;

	if (!device || !dptr || !pPitch)
		return DRIVER(cuMemAllocPitch_v2,
			      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	if (__builtin_mul_overflow(round_up(WidthInBytes, PITCH_BYTES), Height, &bytes))
		bytes = UINT64_MAX;
	if (guest->swappable && alloc_element_is_valid(ElementSizeBytes)) {
		e = guest->allocator->alloc(guest, device, bytes, dptr);
		if (!e)
			*pPitch = round_up(WidthInBytes, PITCH_BYTES);
		return e;
	}
	e = charge_reserve(guest, device, memory_need(bytes), &charge);
	if (e)
		return e;
	e = WITH_ROOM(guest, device, charge.reserved,
		      DRIVER(cuMemAllocPitch_v2,
			     (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes)));
	return memory_commit(&charge, e, *dptr, *pPitch * Height, 0);
}

CUresult hook_cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
			      unsigned int Height, unsigned int ElementSizeBytes)
{
	GUEST_OR_PASS(cuMemAllocPitch, (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	struct guest_device *device = guest_current_device(guest);
	struct charge charge;
	CUresult e;

	if (!device || !dptr || !pPitch)
		return DRIVER(cuMemAllocPitch,
			      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	e = charge_reserve(guest, device,
			   memory_need(round_up(WidthInBytes, PITCH_BYTES) * Height), &charge);
	if (e)
		return e;
	e = WITH_ROOM(guest, device, charge.reserved,
		      DRIVER(cuMemAllocPitch,
			     (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes)));
	return memory_commit(&charge, e, *dptr, (uint64_t)*pPitch * Height, 0);
}

/*
 * Managed memory moves to the device when it is touched there, and the driver's per-process figure
 * never shows it. It is charged in full: all of it may come.
 */
CUresult hook_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	GUEST_OR_PASS(cuMemAllocManaged, (dptr, bytesize, flags));
	struct guest_device *device = guest_current_device(guest);
	struct charge charge;
	CUresult e;

	if (!device || !dptr)
		return DRIVER(cuMemAllocManaged, (dptr, bytesize, flags));
	e = charge_reserve(guest, device, memory_need(bytesize), &charge);
	if (e)
		return e;
	e = DRIVER(cuMemAllocManaged, (dptr, bytesize, flags));
	return memory_commit(&charge, e, *dptr, bytesize, OBJECT_UNSEEN);
}

/* A pool's memory is no object of ours: its reserve is followed, see pool.h. */
CUresult hook_cuMemFree_v2(CUdeviceptr dptr)
{
	GUEST_OR_PASS(cuMemFree_v2, (dptr));
	struct object object;
	bool shared;
	CUresult e;

	if (guest->swappable && own_free(guest, dptr, &e))
		return e;
	if (!memory_take(guest, OBJECT_MEMORY, dptr, &object) &&
	    !memory_take(guest, OBJECT_VIEW, dptr, &object)) {
		shared = pool_pointer_take(guest, dptr, &object);
		e = DRIVER(cuMemFree_v2, (dptr));
		if (shared)
			pool_pointer_done(guest, &object, !e);
		/* Memory of a pool: freed so, it may leave the pool's reserve at once. */
		pool_settle_all(guest);
		return e;
	}
	if (object.flags & OBJECT_BACKED)
		return linear_free(guest, &object);
	e = DRIVER(cuMemFree_v2, (dptr));
	if (e)
		memory_keep(guest, &object);
	else
		memory_freed(guest, &object);
	return e;
}

CUresult hook_cuMemFree(CUdeviceptr_v1 dptr)
{
	GUEST_OR_PASS(cuMemFree, (dptr));
	struct object object;
	CUresult e;

	if (!memory_take(guest, OBJECT_MEMORY, dptr, &object))
		return DRIVER(cuMemFree, (dptr)); /* pools have no such addresses */
	e = DRIVER(cuMemFree, (dptr));
	if (e)
		memory_keep(guest, &object);
	else
		memory_freed(guest, &object);
	return e;
}

typedef CUresult free_async_fn(CUdeviceptr dptr, CUstream stream);

static CUresult alloc_free_in_stream(struct guest *guest, CUdeviceptr dptr, CUstream stream,
				     CUstream order, free_async_fn *real)
{
	struct object object;
	CUevent before = NULL;
	/* In a capture it becomes a node, of a graph's memory; ours is none, and the driver says so. */
	bool node = guest->swappable && capturing_stream(guest, order), ours, shared;
	CUresult e;

	if (guest->swappable && !node && own_free_async(guest, dptr, order, &e))
		return e;
	ours = !node && (memory_take(guest, OBJECT_MEMORY, dptr, &object) ||
			 memory_take(guest, OBJECT_VIEW, dptr, &object));
	shared = !node && !ours && pool_pointer_take(guest, dptr, &object);
	if (ours && object.flags & OBJECT_BACKED) {
		memory_freed_in_stream(guest, &object, order, NULL);
		return CUDA_SUCCESS;
	}
	if (ours)
		before = memory_mark(order);
	guest_depth++;
	e = real(dptr, stream);
	guest_depth--;
	if (!ours) {
		if (shared)
			pool_pointer_done(guest, &object, !e);
	} else if (e) {
		if (before)
			DRIVER(cuEventDestroy_v2, (before));
		memory_keep(guest, &object);
	} else {
		memory_freed_in_stream(guest, &object, order, before);
	}
	return e;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	GUEST_OR_PASS(cuMemFreeAsync, (dptr, hStream));
	return alloc_free_in_stream(guest, dptr, hStream, hStream, cuda_real.cuMemFreeAsync);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	GUEST_OR_PASS(cuMemFreeAsync_ptsz, (dptr, hStream));
	return alloc_free_in_stream(guest, dptr, hStream, hStream ? hStream : CU_STREAM_PER_THREAD,
				    cuda_real.cuMemFreeAsync_ptsz);
}
