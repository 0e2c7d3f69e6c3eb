/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc and its like, and every free that may meet their memory. */
#include "guest/memory/alloc.h"

#include "guest/account/room.h"
#include "guest/core/hook.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/pool_pointer.h"

CUresult alloc_linear(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      CUdeviceptr *ret)
{
	return CHARGE_AND_CALL(guest, device, memory_need(bytes),
			       DRIVER(cuMemAlloc_v2, (ret, bytes)),
			       memory_commit(&charge_, answer_, *ret, bytes, 0));
}

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

	if (!device || !dptr)
		return DRIVER(cuMemAlloc, (dptr, bytesize));
	return CHARGE_AND_CALL(guest, device, memory_need(bytesize),
			       DRIVER(cuMemAlloc, (dptr, bytesize)),
			       memory_commit(&charge_, answer_, *dptr, bytesize, 0));
}

CUresult alloc_pitched(struct guest *guest, struct guest_device *device, CUdeviceptr *ret,
		       size_t *ret_pitch, size_t width, size_t height, unsigned int element)
{
	return CHARGE_AND_CALL(guest, device, memory_need(alloc_pitched_bytes(width, height)),
			       DRIVER(cuMemAllocPitch_v2, (ret, ret_pitch, width, height, element)),
			       memory_commit(&charge_, answer_, *ret, *ret_pitch * height, 0));
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				 size_t Height, unsigned int ElementSizeBytes)
{
	GUEST_OR_PASS(cuMemAllocPitch_v2, (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	struct guest_device *device = guest_current_device(guest);

	if (!device || !dptr || !pPitch)
		return DRIVER(cuMemAllocPitch_v2,
			      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	return guest->allocator->alloc_pitched(guest, device, dptr, pPitch, WidthInBytes, Height,
					       ElementSizeBytes);
}

CUresult hook_cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
			      unsigned int Height, unsigned int ElementSizeBytes)
{
	GUEST_OR_PASS(cuMemAllocPitch, (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	struct guest_device *device = guest_current_device(guest);

	if (!device || !dptr || !pPitch)
		return DRIVER(cuMemAllocPitch,
			      (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
	return CHARGE_AND_CALL(
		guest, device, memory_need(alloc_pitched_bytes(WidthInBytes, Height)),
		DRIVER(cuMemAllocPitch, (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes)),
		memory_commit(&charge_, answer_, *dptr, (uint64_t)*pPitch * Height, 0));
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

/* inline: in this file, on the way of every free. */
inline CUresult alloc_free_taken(struct guest *guest, const struct object *object)
{
	return memory_free_end(guest, object, DRIVER(cuMemFree_v2, (object->key)));
}

/* A pool's memory is no object of ours: its reserve is followed, see pool.h. */
CUresult alloc_free(struct guest *guest, CUdeviceptr at)
{
	struct object object;
	bool shared;
	CUresult e;

	if (memory_take(guest, OBJECT_MEMORY, at, &object) ||
	    memory_take(guest, OBJECT_VIEW, at, &object))
		return alloc_free_taken(guest, &object);
	shared = pool_pointer_take(guest, at, &object);
	e = DRIVER(cuMemFree_v2, (at));
	if (shared)
		pool_pointer_done(guest, &object, !e);
	/* Memory of a pool: freed so, it may leave the pool's reserve at once. */
	pool_settle_all(guest);
	return e;
}

CUresult hook_cuMemFree_v2(CUdeviceptr dptr)
{
	GUEST_OR_PASS(cuMemFree_v2, (dptr));
	return guest->allocator->free(guest, dptr);
}

CUresult hook_cuMemFree(CUdeviceptr_v1 dptr)
{
	GUEST_OR_PASS(cuMemFree, (dptr));
	struct object object;

	if (!memory_take(guest, OBJECT_MEMORY, dptr, &object))
		return DRIVER(cuMemFree, (dptr)); /* pools have no such addresses */
	return memory_free_end(guest, &object, DRIVER(cuMemFree, (dptr)));
}

CUresult alloc_free_taken_in_stream(struct guest *guest, const struct object *object,
				    CUstream stream, CUstream order, free_async_fn *real)
{
	CUevent before = memory_mark(order);
	CUresult e;

	guest_depth++;
	e = real(object->key, stream);
	guest_depth--;
	if (!e) {
		memory_freed_in_stream(guest, object, order, before);
		return e;
	}
	if (before)
		DRIVER(cuEventDestroy_v2, (before));
	memory_keep(guest, object);
	return e;
}

CUresult alloc_free_in_stream(struct guest *guest, CUdeviceptr at, CUstream stream, CUstream order,
			      free_async_fn *real)
{
	struct object object;
	bool shared;
	CUresult e;

	if (memory_take(guest, OBJECT_MEMORY, at, &object) ||
	    memory_take(guest, OBJECT_VIEW, at, &object))
		return alloc_free_taken_in_stream(guest, &object, stream, order, real);
	shared = pool_pointer_take(guest, at, &object);
	guest_depth++;
	e = real(at, stream);
	guest_depth--;
	if (shared)
		pool_pointer_done(guest, &object, !e);
	return e;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	GUEST_OR_PASS(cuMemFreeAsync, (dptr, hStream));
	return guest->allocator->free_in_stream(guest, dptr, hStream, hStream,
						cuda_real.cuMemFreeAsync);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	GUEST_OR_PASS(cuMemFreeAsync_ptsz, (dptr, hStream));
	return guest->allocator->free_in_stream(guest, dptr, hStream,
						hStream ? hStream : CU_STREAM_PER_THREAD,
						cuda_real.cuMemFreeAsync_ptsz);
}
