/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "guest/core/hook.h"
#include "guest/memory/holder.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/share.h"

static uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	DRIVER(cuMemPoolGetAttribute, (pool, which, &value));
	return value;
}

static uint64_t pool_reserved(CUmemoryPool pool)
{
	return pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

struct follow {
	uint64_t from, to;
	bool done;
};

static bool pool_set_charged(struct object *pool, void *arg)
{
	struct follow *f = arg;

	f->done = pool->bytes == f->from;
	if (f->done)
		pool->bytes = f->to;
	return true;
}

/*
 * Charges what the pool reserves now, and answers it. Growth is charged before it is recorded in
 * the pool's object: a thread that finds nothing left to record finds it in the ledger. A fall is
 * recorded first, and taken out of the ledger only when another look at the driver has shown that
 * the pool has not grown again. Otherwise that growth would be charged to nobody:
 *
 *	settling thread    reads 8 of 32 MiB ───────────────── records 8 ─ reads 32 ─ records 32
 *	allocating thread          grows it to 32, finds 32 recorded
 */
static uint64_t pool_settle(struct guest *guest, CUmemoryPool pool)
{
	struct guest_device *device = NULL;
	struct object object;
	uint64_t now = 0, spare = 0; /* charged, but not recorded */

	while (object_get(guest->objects, OBJECT_POOL, KEY(pool), &object)) {
		struct follow f = {.from = object.bytes};

		now = f.to = pool_reserved(pool);
		if (object.flags & OBJECT_IMPORTED || f.to == f.from)
			break;
		if (!device) {
			device = guest_device(guest, object.device);
			if (!device)
				break; /* host memory */
			charge_release_begin(device);
		}
		if (f.to > f.from + spare) {
			charge_follow(guest, device, CAT_POOL, f.from + spare, f.to);
			spare = f.to - f.from;
		}
		object_change(guest->objects, OBJECT_POOL, KEY(pool), false, pool_set_charged, &f);
		pool_changed(guest);
		if (f.done)
			spare = f.from + spare - f.to;
	}
	if (spare)
		charge_follow(guest, device, CAT_POOL, spare, 0);
	if (device)
		charge_release_end(guest, device, CAT_POOL, 0);
	return now;
}

typedef void pool_fn(struct guest *guest, struct guest_device *device, CUmemoryPool pool);

/* Calls `each` for all pools that something is charged for; `device` NULL: of all devices. */
static void pool_for_each(struct guest *guest, struct guest_device *device, pool_fn *each)
{
	struct object pools[OBJECT_BATCH];
	uint64_t above = 0;
	int n;

	do {
		n = object_list(guest->objects, OBJECT_POOL, above, pools, OBJECT_BATCH);
		for (int i = 0; i < n; i++) {
			above = pools[i].key;
			if (pools[i].bytes && (!device || pools[i].device == device->ordinal))
				each(guest, device, (CUmemoryPool)(uintptr_t)above);
		}
	} while (n == OBJECT_BATCH);
}

static void pool_settle_one(struct guest *guest, struct guest_device *device, CUmemoryPool pool)
{
	pool_settle(guest, pool);
}

void pool_settle_all(struct guest *guest)
{
	pool_for_each(guest, NULL, pool_settle_one);
}

static void pool_trim_one(struct guest *guest, struct guest_device *device, CUmemoryPool pool)
{
	charge_release_begin(device);
	DRIVER(cuMemPoolTrimTo, (pool, 0));
	charge_release_end(guest, device, CAT_POOL, 0);
	pool_settle(guest, pool);
}

/* Makes the driver release what no allocation uses, in all pools of a device. */
static void pool_trim(struct guest *guest, struct guest_device *device)
{
	pool_for_each(guest, device, pool_trim_one);
}

static void pool_catch_up(struct guest *guest, struct guest_device *device)
{
	pool_settle_all(guest);
}

const struct holder pool_holder = {.catch_up = pool_catch_up, .give_back = pool_trim};

/* A pool that the program did not create is some device's default. -1: host memory. */
static int16_t pool_default_device(struct guest *guest, CUmemoryPool pool)
{
	for (int i = 0; i < guest->ndevices; i++) {
		CUmemoryPool candidate = NULL;

		if (!DRIVER(cuDeviceGetDefaultMemPool, (&candidate, i)) && candidate == pool)
			return (int16_t)i;
	}
	return -1;
}

/* A thread that was faster may have charged it already. */
static bool pool_set_device(struct object *pool, void *arg)
{
	if (pool->category != CAT_POOL)
		pool->device = *(const int16_t *)arg;
	pool->category = CAT_POOL;
	return true;
}

static bool pool_object(struct guest *guest, CUmemoryPool pool, struct object *ret)
{
	int16_t device;

	if (object_get(guest->objects, OBJECT_POOL, KEY(pool), ret))
		return true;
	device = pool_default_device(guest, pool);
	object_change(guest->objects, OBJECT_POOL, KEY(pool), true, pool_set_device, &device);
	return object_get(guest->objects, OBJECT_POOL, KEY(pool), ret);
}

/*
 * What an allocation has to know of its pool. It is valid as long as guest.pools has not changed
 * since before it was asked for. So while a pool neither grows nor is exchanged, an allocation
 * takes no lock, and asks the driver for nothing but the reserve.
 */
struct seen {
	uint64_t version;
	uint64_t charged;
	struct guest_device *device; /* NULL: not charged here */
};

static bool pool_is_unchanged(struct guest *guest, const struct seen *seen)
{
	return atomic_load(&guest->pools) == seen->version;
}

static bool pool_look_up(struct guest *guest, CUmemoryPool pool, struct seen *ret)
{
	uint64_t version = atomic_load(&guest->pools);
	struct object object;

	if (!pool_object(guest, pool, &object))
		return false;
	ret->version = version;
	ret->charged = object.bytes;
	ret->device = object.flags & OBJECT_IMPORTED ? NULL : guest_device(guest, object.device);
	return true;
}

/* Never 0, which is what a device begins with, and odd only while a thread writes. */
static uint64_t pool_tag(uint64_t version)
{
	return (version + 1) * 2;
}

static bool pool_recall(struct guest *guest, struct guest_device *device, CUmemoryPool *ret_pool,
			struct seen *ret)
{
	uint64_t tag = atomic_load_explicit(&device->pool_tag, memory_order_acquire);
	CUmemoryPool pool = atomic_load_explicit(&device->pool, memory_order_acquire);
	uint64_t charged = atomic_load_explicit(&device->pool_charged, memory_order_acquire);
	uint64_t version = atomic_load(&guest->pools);

	/* Both were read between two looks at the tag, and written after it was made odd. */
	if (tag != pool_tag(version) ||
	    tag != atomic_load_explicit(&device->pool_tag, memory_order_relaxed))
		return false;
	*ret_pool = pool;
	*ret = (struct seen){.version = version, .charged = charged, .device = device};
	return true;
}

/*
 * Of several threads that come together one writes. A figure that is older than the last change of
 * the pools is never used.
 */
static void pool_remember(struct guest_device *device, CUmemoryPool pool, const struct seen *seen)
{
	uint64_t tag = atomic_load_explicit(&device->pool_tag, memory_order_relaxed);

	if (tag & 1 || !atomic_compare_exchange_strong(&device->pool_tag, &tag, tag | 1))
		return;
	atomic_store_explicit(&device->pool, pool, memory_order_release);
	atomic_store_explicit(&device->pool_charged, seen->charged, memory_order_release);
	atomic_store_explicit(&device->pool_tag, pool_tag(seen->version), memory_order_release);
}

/* The pool that the stream's device allocates from. */
static CUresult pool_current(struct guest *guest, CUstream stream, CUmemoryPool *ret_pool,
			     struct seen *ret)
{
	struct guest_device *device = memory_stream_device(guest, stream);
	uint64_t version;
	CUmemoryPool pool;
	CUresult e;

	if (!device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pool_recall(guest, device, ret_pool, ret))
		return CUDA_SUCCESS;
	version = atomic_load(&guest->pools);
	e = DRIVER(cuDeviceGetMemPool, (&pool, device->ordinal));
	if (e)
		return e;
	if (!pool_look_up(guest, pool, ret))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ret->version = version;
	*ret_pool = pool;
	if (ret->device == device)
		pool_remember(device, pool, ret);
	return CUDA_SUCCESS;
}

static bool pool_is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return !DRIVER(cuStreamIsCapturing, (stream, &status)) &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The driver's call, whichever of the four it is. */
struct request {
	CUdeviceptr *dptr;
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream; /* as the program gave it */
	CUstream order;	 /* the stream that it means */
	CUresult (*call)(const struct request *request);
};

/*
 * Frees an allocation that made the pool grow beyond the quota, and trims the pool. The free waits
 * for the work before it in the stream; the driver's own allocation does the same on a device that
 * is full.
 */
static CUresult pool_undo(struct guest *guest, struct guest_device *device,
			  const struct request *request)
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

static void pool_note_growth(struct guest *guest, const struct request *request, uint64_t growth)
{
	uint64_t used = pool_attribute(request->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	uint64_t rest = growth > request->bytes ? growth - request->bytes + 1 : 0;

	object_change(guest->objects, OBJECT_POOL, KEY(request->pool), false, pool_set_unfit,
		      (uint64_t[2]){rest > request->bytes ? rest : request->bytes, used});
}

/* Has the pool room for it, in one piece as far as is known? */
static bool pool_has_room(const struct request *request, const struct object *pool)
{
	uint64_t reserved = pool_reserved(request->pool);
	uint64_t used = pool_attribute(request->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	if (pool->pool.unfit_bytes && request->bytes >= pool->pool.unfit_bytes &&
	    used >= pool->pool.unfit_used)
		return false;
	return reserved >= used && reserved - used >= request->bytes;
}

static CUresult pool_allocate_from(struct guest *guest, const struct request *request,
				   struct seen seen)
{
	uint64_t need = round_up(request->bytes, POOL_BYTES), now;
	struct guest_device *device = seen.device;
	struct charge charge;
	struct object object;
	CUresult e;

	if (!device)
		return request->call(request);
	/*
	 * The room of a pool may be in pieces, and then the pool grows in spite of it. So all bytes
	 * are reserved. Only where the quota does not have them is the pool asked for its room; if
	 * it has enough, the allocation is tried without a reservation.
	 */
	if (!charge_try(guest, device, need, &charge)) {
		if (pool_object(guest, request->pool, &object) && pool_has_room(request, &object))
			need = 0;
		e = charge_reserve(guest, device, need, &charge);
		if (e)
			return e;
		pool_look_up(guest, request->pool, &seen); /* reserving may have settled it */
	}
	e = request->call(request);
	/*
	 * Where both are as they were there is nothing to settle. A thread that records less after
	 * this looks at the reserve again, and finds our growth.
	 */
	now = pool_reserved(request->pool);
	if (now != seen.charged || !pool_is_unchanged(guest, &seen))
		now = pool_settle(guest, request->pool);
	if (e)
		charge_cancel(&charge);
	else
		charge_settle(&charge);
	if (e || now <= seen.charged)
		return e;
	pool_note_growth(guest, request, now - seen.charged);
	return !need && charge_over(guest, device) ? pool_undo(guest, device, request)
						   : CUDA_SUCCESS;
}

static CUresult pool_allocate(struct guest *guest, struct request request)
{
	struct seen seen;
	CUresult e;

	/* In a capture it becomes a node; its memory is charged when the graph backs it. */
	if (!request.dptr || pool_is_capturing(request.order))
		return request.call(&request);
	if (request.pool)
		e = pool_look_up(guest, request.pool, &seen) ? CUDA_SUCCESS
							     : CUDA_ERROR_OUT_OF_MEMORY;
	else
		e = pool_current(guest, request.order, &request.pool, &seen);
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return e; /* no room for our own record: what cannot be charged is not given out */
	return e ? request.call(&request) : pool_allocate_from(guest, &request, seen);
}

#define CALL(name, args)                                                                           \
	static CUresult pool_call_##name(const struct request *r)                                  \
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
	return pool_allocate(guest, (struct request){dptr, bytesize, NULL, hStream, hStream,
						     pool_call_cuMemAllocAsync});
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocAsync_ptsz, (dptr, bytesize, hStream));
	return pool_allocate(guest, (struct request){dptr, bytesize, NULL, hStream,
						     hStream ? hStream : CU_STREAM_PER_THREAD,
						     pool_call_cuMemAllocAsync_ptsz});
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocFromPoolAsync, (dptr, bytesize, pool, hStream));
	if (!pool)
		return DRIVER(cuMemAllocFromPoolAsync, (dptr, bytesize, pool, hStream));
	return pool_allocate(guest, (struct request){dptr, bytesize, pool, hStream, hStream,
						     pool_call_cuMemAllocFromPoolAsync});
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
					   CUstream hStream)
{
	GUEST_OR_PASS(cuMemAllocFromPoolAsync_ptsz, (dptr, bytesize, pool, hStream));
	if (!pool)
		return DRIVER(cuMemAllocFromPoolAsync_ptsz, (dptr, bytesize, pool, hStream));
	return pool_allocate(guest, (struct request){dptr, bytesize, pool, hStream,
						     hStream ? hStream : CU_STREAM_PER_THREAD,
						     pool_call_cuMemAllocFromPoolAsync_ptsz});
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	GUEST_OR_PASS(cuMemPoolCreate, (pool, poolProps));
	CUresult e = DRIVER(cuMemPoolCreate, (pool, poolProps));
	struct object object = {.kind = OBJECT_POOL, .category = CAT_POOL, .device = -1};

	if (e)
		return e;
	object.key = KEY(*pool);
	if (poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		object.device = (int16_t)poolProps->location.id;
	if (object_put(guest->objects, &object)) {
		DRIVER(cuMemPoolDestroy, (*pool));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pool_settle(guest, *pool);
	return e;
}

/*
 * The driver destroys a pool once its last allocation is freed, and from now on it answers no
 * question about the pool. So the charge goes now: normally everything that was allocated from it
 * is free.
 */
CUresult hook_cuMemPoolDestroy(CUmemoryPool pool)
{
	GUEST_OR_PASS(cuMemPoolDestroy, (pool));
	struct guest_device *device;
	struct object object;
	CUresult e;

	if (!object_take(guest->objects, OBJECT_POOL, KEY(pool), &object))
		return DRIVER(cuMemPoolDestroy, (pool));
	device = guest_device(guest, object.device);
	if (device)
		charge_release_begin(device);
	e = DRIVER(cuMemPoolDestroy, (pool));
	if (e)
		object_put(guest->objects, &object);
	pool_changed(guest); /* it may have been a device's current one */
	if (device) {
		charge_release_end(guest, device, CAT_POOL, e ? 0 : object.bytes);
		charge_stale(guest, device);
	}
	return e;
}

/* Changes the pool that a device allocates from: the next allocation asks for it anew. */
CUresult hook_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	GUEST_OR_PASS(cuDeviceSetMemPool, (dev, pool));
	CUresult e = DRIVER(cuDeviceSetMemPool, (dev, pool));

	pool_changed(guest);
	return e;
}

CUresult hook_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	GUEST_OR_PASS(cuMemSetMemPool, (location, type, pool));
	CUresult e = DRIVER(cuMemSetMemPool, (location, type, pool));

	pool_changed(guest);
	return e;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	GUEST_OR_PASS(cuMemPoolTrimTo, (pool, minBytesToKeep));
	CUresult e = DRIVER(cuMemPoolTrimTo, (pool, minBytesToKeep));

	pool_settle(guest, pool);
	return e;
}

/* Lowering the release threshold may release memory at once. */
CUresult hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	GUEST_OR_PASS(cuMemPoolSetAttribute, (pool, attr, value));
	CUresult e = DRIVER(cuMemPoolSetAttribute, (pool, attr, value));

	pool_settle(guest, pool);
	return e;
}

CUresult hook_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
					       CUmemAllocationHandleType handleType,
					       unsigned long long flags)
{
	GUEST_OR_PASS(cuMemPoolExportToShareableHandle, (handle_out, pool, handleType, flags));
	return DRIVER(cuMemPoolExportToShareableHandle, (handle_out, pool, handleType, flags));
}

/* What an imported pool reserves is charged where it was created. */
CUresult hook_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						 CUmemAllocationHandleType handleType,
						 unsigned long long flags)
{
	GUEST_OR_PASS(cuMemPoolImportFromShareableHandle, (pool_out, handle, handleType, flags));
	CUresult e =
		DRIVER(cuMemPoolImportFromShareableHandle, (pool_out, handle, handleType, flags));
	struct object object = {.kind = OBJECT_POOL, .category = CAT_POOL, .flags = OBJECT_IMPORTED,
				.device = -1};

	if (e)
		return e;
	object.key = KEY(*pool_out);
	if (object_put(guest->objects, &object)) {
		DRIVER(cuMemPoolDestroy, (*pool_out));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return e;
}

/* The size behind an address, as the driver knows it. */
static uint64_t pool_pointer_size(CUdeviceptr address)
{
	CUdeviceptr base;
	size_t size = 0;

	DRIVER(cuMemGetAddressRange_v2, (&base, &size, address));
	return size;
}

CUresult hook_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	GUEST_OR_PASS(cuMemPoolExportPointer, (shareData_out, ptr));
	CUresult e = DRIVER(cuMemPoolExportPointer, (shareData_out, ptr));
	struct object object = {.kind = OBJECT_POINTER, .key = ptr, .category = CAT_IMPORTED};
	struct guest_device *device = guest_current_device(guest);

	if (e || !device)
		return e;
	object.device = (int16_t)device->ordinal;
	object.size = pool_pointer_size(ptr);
	share_export(guest, device, entry_key(shareData_out, sizeof(*shareData_out)), object.size,
		     &object);
	if (object.flags & OBJECT_SHARED)
		object_put(guest->objects, &object);
	return e;
}

CUresult hook_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				     CUmemPoolPtrExportData *shareData)
{
	GUEST_OR_PASS(cuMemPoolImportPointer, (ptr_out, pool, shareData));
	struct guest_device *device = guest_current_device(guest);
	struct object object = {.kind = OBJECT_POINTER, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED};
	struct shared_key key;
	CUresult e;

	if (!device || !shareData)
		return DRIVER(cuMemPoolImportPointer, (ptr_out, pool, shareData));
	key = entry_key(shareData, sizeof(*shareData));
	e = DRIVER(cuMemPoolImportPointer, (ptr_out, pool, shareData));
	if (e)
		return e;
	/* Nothing new was taken from the device; only now is its size known. */
	object.key = *ptr_out;
	object.device = (int16_t)device->ordinal;
	object.size = pool_pointer_size(*ptr_out);
	e = share_import(guest, device, key, object.size, &object);
	if (!e && object_put(guest->objects, &object)) {
		share_drop(guest, &object);
		e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e)
		DRIVER(cuMemFree_v2, (*ptr_out));
	return e;
}

bool pool_pointer_take(struct guest *guest, CUdeviceptr address, struct object *ret)
{
	return object_count(guest->objects, OBJECT_POINTER) &&
	       object_take(guest->objects, OBJECT_POINTER, address, ret);
}

void pool_pointer_done(struct guest *guest, const struct object *pointer, bool freed)
{
	if (freed)
		share_drop(guest, pointer);
	else
		object_put(guest->objects, pointer);
}
