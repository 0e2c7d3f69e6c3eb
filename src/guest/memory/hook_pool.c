/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations from pools, and what changes pools. Allocations that the driver makes for itself, as
 * nodes of a captured graph, are charged when the graph is backed.
 */
#include "guest/account/figure.h"
#include "guest/account/holder.h"
#include "guest/account/later.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/core/trace.h"
#include "guest/memory/allocator.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"

/*
 * Frees an allocation that made the pool grow beyond the quota, and trims the pool. The free waits
 * for the work before it in the stream; the driver's own allocation does the same on a device that
 * is full.
 */
static CUresult pool_undo(struct guest *guest, struct guest_device *device,
			  const struct pool_request *request)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	/* This stream is in no capture, another of this thread's may be. */
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	DRIVER(cuMemFreeAsync, (*request->dptr, request->order));
	DRIVER(cuStreamSynchronize, (request->order));
	DRIVER(cuMemPoolTrimTo, (request->pool, 0));
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	pool_settle(guest, request->pool);
	quota_count_refusal(atomic_load(&guest->slot), device->ledger);
	trace(guest, TRACE_REFUSED, device->ledger, request->bytes,
	      quota_used(guest->ledger, device->ledger), guest_limit(guest, device));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * A pool that grew had no piece as large as what was asked for. Now it has the rest of what it grew
 * by. The smallest size for which it has no piece is remembered, and how much was in use then:
 * until less is in use, a request of that size makes the pool grow again, however much room it has
 * in all. An example: for 20 MiB a pool grew by 32 MiB, of which 12 MiB are left; 20 MiB or more do
 * not fit.
 */
static bool pool_set_unfit(struct object *pool, void *arg)
{
	const uint64_t *seen = arg; /* size, use */

	pool->pool.unfit_bytes = seen[0];
	pool->pool.unfit_used = seen[1];
	return true;
}

static bool pool_raise_largest(struct object *pool, void *arg)
{
	uint64_t growth = *(const uint64_t *)arg;

	if (pool->pool.largest < growth)
		pool->pool.largest = growth;
	return true;
}

/* Of a pool that others may have pointers of: they would keep that much for one. */
static void pool_note_largest(struct guest *guest, CUmemoryPool pool, const struct pool_seen *seen,
			      uint64_t growth)
{
	if (seen->exportable && growth > seen->largest)
		object_change(guest->objects, OBJECT_POOL, KEY(pool), false, pool_raise_largest,
			      &growth);
}

static void pool_note_growth(struct guest *guest, const struct pool_request *request,
			     uint64_t growth)
{
	uint64_t used = pool_attribute(request->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	uint64_t rest = growth > request->bytes ? growth - request->bytes + 1 : 0;

	object_change(guest->objects, OBJECT_POOL, KEY(request->pool), false, pool_set_unfit,
		      (uint64_t[2]){rest > request->bytes ? rest : request->bytes, used});
}

/* Has the pool room for it, in one piece as far as is known? */
static bool pool_has_room(const struct pool_request *request, const struct object *pool)
{
	uint64_t reserved = pool_reserved(request->pool);
	uint64_t used = pool_attribute(request->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	if (pool->pool.unfit_bytes && request->bytes >= pool->pool.unfit_bytes &&
	    used >= pool->pool.unfit_used)
		return false;
	return reserved >= used && reserved - used >= request->bytes;
}

/*
 * The quota has no room for what the pool may grow by. A request of up to a step goes on if the
 * pool has room for it, though the room may be in pieces: then the tenant is above its quota by a
 * step, until that is seen and undone.
 */
static bool pool_reserve_in_room(struct guest *guest, struct guest_device *device,
				 const struct pool_request *request, struct charge *charge)
{
	struct object object;

	if (round_up(request->bytes, POOL_BYTES) > POOL_BYTES ||
	    !pool_object(guest, request->pool, &object) || !pool_has_room(request, &object) ||
	    !charge_try_doubtful(guest, device, POOL_BYTES, charge))
		return false;
	if (pool_has_room(request, &object))
		return true;
	charge_cancel(charge); /* it went to another while this thread waited */
	return false;
}

/*
 * A larger request would go as far beyond the quota as it is large. So the pool must give back what
 * it may grow by. Where it has the room, it may only have to wait for frees in the same stream, as
 * the driver's own allocation does on a device that is full.
 */
static CUresult pool_reserve(struct guest *guest, struct guest_device *device,
			     const struct pool_request *request, struct charge *charge)
{
	uint64_t need = round_up(request->bytes, POOL_BYTES);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct object object;

	if (pool_object(guest, request->pool, &object) && pool_has_room(request, &object)) {
		holder_give_back(guest, device);
		if (charge_try(guest, device, need, charge))
			return CUDA_SUCCESS;
		DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
		DRIVER(cuStreamSynchronize, (request->order));
		DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	}
	return charge_reserve(guest, device, need, charge);
}

static CUresult pool_allocate_from(struct guest *guest, const struct pool_request *request,
				   struct pool_seen seen)
{
	struct guest_device *device = seen.device;
	struct charge charge;
	bool doubtful = false;
	uint64_t now;
	CUresult e;

	if (!device)
		return request->call(request);
	/* Though most pools have room: it may be in pieces, and then the pool grows. */
	if (!charge_try(guest, device, round_up(request->bytes, POOL_BYTES), &charge)) {
		doubtful = pool_reserve_in_room(guest, device, request, &charge);
		e = doubtful ? CUDA_SUCCESS : pool_reserve(guest, device, request, &charge);
		if (e)
			return e;
		pool_look_up(guest, request->pool, &seen); /* reserving may have settled it */
	}
	pool_note_largest(guest, request->pool, &seen, round_up(request->bytes, POOL_BYTES));
	e = request->call(request);
	/*
	 * Where both are as they were there is nothing to settle. A thread that records less after
	 * this looks at the reserve again, and finds our growth.
	 */
	now = pool_reserved(request->pool);
	if (now != seen.charged || !pool_is_unchanged(guest, &seen))
		now = pool_settle(guest, request->pool);
	charge_cancel(&charge);
	if (e || now <= seen.charged)
		return e;
	pool_note_growth(guest, request, now - seen.charged);
	pool_note_largest(guest, request->pool, &seen, now - seen.charged);
	return doubtful && charge_over(guest, device) ? pool_undo(guest, device, request)
						      : CUDA_SUCCESS;
}

CUresult pool_alloc(struct guest *guest, struct pool_request *request)
{
	struct pool_seen seen;
	CUresult e;

	if (request->pool)
		e = pool_look_up(guest, request->pool, &seen) ? CUDA_SUCCESS
							      : CUDA_ERROR_OUT_OF_MEMORY;
	else
		e = pool_current(guest, request->order, &request->pool, &seen);
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return e; /* no room for our own record: what cannot be charged is not given out */
	if (!e && seen.ended)
		return CUDA_ERROR_INVALID_VALUE;
	return e ? request->call(request) : pool_allocate_from(guest, request, seen);
}

/* In a capture it becomes a node; its memory is charged when the graph backs it. */
static CUresult pool_allocate(struct guest *guest, struct pool_request request)
{
	if (!request.dptr || capturing_stream(guest, request.order))
		return request.call(&request);
	return guest->allocator->alloc_from_pool(guest, &request);
}

#define CALL(name, args)                                                                           \
	static CUresult pool_call_##name(const struct pool_request *r)                             \
	{                                                                                          \
		return DRIVER(name, args);                                                         \
	}
CALL(cuMemAllocAsync, (r->dptr, r->bytes, r->stream))
CALL(cuMemAllocAsync_ptsz, (r->dptr, r->bytes, r->stream))
CALL(cuMemAllocFromPoolAsync, (r->dptr, r->bytes, r->pool, r->stream))
CALL(cuMemAllocFromPoolAsync_ptsz, (r->dptr, r->bytes, r->pool, r->stream))

CUresult hook_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocAsync, (dptr, bytesize, hStream));
	return pool_allocate(guest, (struct pool_request){dptr, bytesize, NULL, hStream, hStream,
						     pool_call_cuMemAllocAsync});
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocAsync_ptsz, (dptr, bytesize, hStream));
	return pool_allocate(guest, (struct pool_request){dptr, bytesize, NULL, hStream,
						     hStream ? hStream : CU_STREAM_PER_THREAD,
						     pool_call_cuMemAllocAsync_ptsz});
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocFromPoolAsync, (dptr, bytesize, pool, hStream));
	if (!pool)
		return DRIVER(cuMemAllocFromPoolAsync, (dptr, bytesize, pool, hStream));
	return pool_allocate(guest, (struct pool_request){dptr, bytesize, pool, hStream, hStream,
						     pool_call_cuMemAllocFromPoolAsync});
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
					   CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocFromPoolAsync_ptsz, (dptr, bytesize, pool, hStream));
	if (!pool)
		return DRIVER(cuMemAllocFromPoolAsync_ptsz, (dptr, bytesize, pool, hStream));
	return pool_allocate(guest, (struct pool_request){dptr, bytesize, pool, hStream,
						     hStream ? hStream : CU_STREAM_PER_THREAD,
						     pool_call_cuMemAllocFromPoolAsync_ptsz});
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	GUEST_OR_PASS(cuMemPoolCreate, (pool, poolProps));
	CUresult e = DRIVER(cuMemPoolCreate, (pool, poolProps));
	struct object object = {.kind = OBJECT_POOL, .category = CAT_POOL, .device = -1,
				.pool.id = object_generation()};
	struct guest_device *device;

	if (e)
		return e;
	object.key = KEY(*pool);
	object.pool.exportable = poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	if (poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		object.device = (int16_t)poolProps->location.id;
	/* All of it may come to the device, as of other managed memory. */
	if (poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) {
		device = guest_current_device(guest);
		object.flags = OBJECT_UNSEEN;
		if (object.device < 0 && device)
			object.device = (int16_t)device->ordinal;
	}
	if (object_put(guest->objects, &object)) {
		DRIVER(cuMemPoolDestroy, (*pool));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e = guest->allocator->pool_made(guest, *pool, poolProps);
	if (e)
		pool_end(guest, *pool);
	else
		pool_settle(guest, *pool);
	return e;
}

/*
 * A pool that ended with frees pending in a stream stays charged until the next look at it. An idle
 * program takes no look, so a thread of ours does.
 */
static void pool_look_later(struct guest *guest, CUmemoryPool pool, struct guest_device *device)
{
	if (guest_by_driver(guest) || !pool_is_ended(guest, pool))
		return;
	later_released(device);
	later_begin(guest, device, figure_reconcile);
}

/* The record goes before the driver's call, which makes the handle free for another pool. */
static CUresult pool_end_unmeasured(struct guest *guest, CUmemoryPool pool)
{
	struct object object;
	bool known = object_take(guest->objects, OBJECT_POOL, KEY(pool), &object);
	CUresult e = DRIVER(cuMemPoolDestroy, (pool));

	if (e && known)
		object_put(guest->objects, &object);
	pool_changed(guest); /* it may have been a device's current one */
	return e;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool pool)
{
	GUEST_OR_PASS(cuMemPoolDestroy, (pool));
	struct guest_device *device;
	struct object object;
	CUresult e;

	if (pool_is_ended(guest, pool))
		return CUDA_ERROR_INVALID_VALUE;
	if (pool_default_device(guest, pool) >= 0) /* the driver refuses that */
		return DRIVER(cuMemPoolDestroy, (pool));
	if (!object_get(guest->objects, OBJECT_POOL, KEY(pool), &object))
		return pool_end_unmeasured(guest, pool);
	if (object.flags & OBJECT_IMPORTED)
		return pool_end_imported(guest, pool);
	device = guest_device(guest, object.device);
	if (!device) /* host memory */
		return pool_end_unmeasured(guest, pool);
	guest->allocator->pool_ends(guest, pool);
	e = pool_end(guest, pool);
	pool_look_later(guest, pool, device);
	return e;
}

/* Changes the pool that a device allocates from: the next allocation asks for it anew. */
CUresult hook_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	GUEST_OR_PASS(cuDeviceSetMemPool, (dev, pool));
	CUresult e = pool_is_ended(guest, pool) ? CUDA_ERROR_INVALID_VALUE
						: DRIVER(cuDeviceSetMemPool, (dev, pool));

	pool_changed(guest);
	return e;
}

CUresult hook_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	GUEST_OR_PASS(cuMemSetMemPool, (location, type, pool));
	CUresult e = pool_is_ended(guest, pool) ? CUDA_ERROR_INVALID_VALUE
						: DRIVER(cuMemSetMemPool, (location, type, pool));

	pool_changed(guest);
	return e;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	GUEST_OR_PASS(cuMemPoolTrimTo, (pool, minBytesToKeep));
	CUresult e;

	if (pool_is_ended(guest, pool))
		return CUDA_ERROR_INVALID_VALUE;
	e = DRIVER(cuMemPoolTrimTo, (pool, minBytesToKeep));
	pool_settle(guest, pool);
	if (!e)
		guest->allocator->pool_trim(guest, pool, minBytesToKeep);
	return e;
}

/* Lowering the release threshold may release memory at once. */
CUresult hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	GUEST_OR_PASS(cuMemPoolSetAttribute, (pool, attr, value));
	CUresult e;

	if (pool_is_ended(guest, pool))
		return CUDA_ERROR_INVALID_VALUE;
	e = DRIVER(cuMemPoolSetAttribute, (pool, attr, value));
	pool_settle(guest, pool);
	if (!e)
		guest->allocator->pool_set(guest, pool, attr, value);
	return e;
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	GUEST_OR_PASS(cuMemPoolGetAttribute, (pool, attr, value));
	CUresult e = DRIVER(cuMemPoolGetAttribute, (pool, attr, value));

	if (!e)
		guest->allocator->pool_figure(guest, pool, attr, value);
	return e;
}

CUresult hook_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	GUEST_OR_PASS(cuMemPoolSetAccess, (pool, map, count));
	CUresult e = DRIVER(cuMemPoolSetAccess, (pool, map, count));

	if (!e)
		guest->allocator->pool_set_access(guest, pool, map, count);
	return e;
}
