/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/own_alloc.h"

#include "guest/account/calls.h"
#include "guest/account/holder.h"
#include "guest/account/room.h"
#include "guest/account/state.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/memory/memory.h"
#include "guest/memory/state.h"
#include "guest/movable/backing.h"
#include "guest/movable/own_pool_priv.h"

struct wish {
	struct guest *guest;
	struct own_pools *own;
	struct own_pool *pool;
	uint64_t bytes;
	struct order_name name; /* of the stream; its order may be another's behind the lock */
	uint64_t peers; /* who may reach what it grows by */
	CUdeviceptr at; /* what came of it */
};

/* With the lock. */
static bool own_cut(struct wish *wish)
{
	uint16_t order = order_find(&wish->own->orders, &wish->name);
	struct block *block = slabs_take(&wish->pool->slabs, wish->bytes, order);

	if (!block)
		return false;
	block->used.id = backing_id(wish->guest);
	wish->at = block_address(block);
	return true;
}

static bool own_cut_joined(struct wish *wish)
{
	bool done;

	lock_take(&wish->own->lock);
	done = own_cut(wish) || (slabs_join(&wish->pool->slabs) && own_cut(wish));
	lock_drop(&wish->own->lock);
	return done;
}

/* So many bytes more, which are reserved. Whatever comes of it, the charge is ended. */
static CUresult own_back(struct wish *wish, uint64_t bytes, struct charge *charge)
{
	struct own_pool *pool = wish->pool;
	struct slab *slab = slab_make(&pool->slabs, bytes, wish->bytes > SMALL_BYTES);
	uint64_t peers;
	CUdeviceptr at;
	CUresult e;

	e = slab ? backing_alloc_for(wish->guest, pool->device, bytes, wish->peers, slab, &at)
		 : CUDA_ERROR_OUT_OF_MEMORY;
	if (e) {
		charge_cancel(charge);
		if (slab)
			slab_end(slab);
		return e;
	}
	charge_commit(charge, CAT_POOL, bytes);
	lock_take(&wish->own->lock);
	slabs_add(slab, at);
	own_cut(wish);
	peers = pool->peers;
	lock_drop(&wish->own->lock);
	if (peers != wish->peers)
		backing_set_peers(wish->guest, at, peers);
	return CUDA_SUCCESS;
}

static bool own_begin_growing(struct wish *wish, uint64_t bytes)
{
	struct own_pool *pool = wish->pool;
	uint64_t more;
	bool may;

	lock_take(&wish->own->lock);
	more = pool->growing + bytes;
	may = !pool->most_bytes ||
	      (more <= pool->most_bytes && pool->slabs.reserved <= pool->most_bytes - more);
	if (may)
		pool->growing += bytes;
	wish->peers = pool->peers;
	lock_drop(&wish->own->lock);
	return may;
}

static void own_end_growing(struct wish *wish, uint64_t bytes)
{
	lock_take(&wish->own->lock);
	wish->pool->growing -= bytes;
	lock_drop(&wish->own->lock);
}

static bool own_is_promised(struct wish *wish, const struct room *room, uint64_t bytes)
{
	struct guest_device *device = wish->pool->device;

	return guest_current_device(wish->guest) == device &&
	       room_is_promised(room, wish->guest, device, bytes);
}

/* Where there is room for it without anything being given back. */
static bool own_try_growing(struct wish *wish, uint64_t bytes)
{
	struct charge charge;
	struct room room = {0};
	CUresult e = CUDA_ERROR_OUT_OF_MEMORY;

	if (!own_begin_growing(wish, bytes))
		return false;
	if (charge_try(wish->guest, wish->pool->device, bytes, &charge)) {
		if (own_is_promised(wish, &room, bytes))
			charge_cancel(&charge);
		else
			e = own_back(wish, bytes, &charge);
	}
	own_end_growing(wish, bytes);
	return !e;
}

static CUresult own_must_grow(struct wish *wish, uint64_t bytes)
{
	struct guest_device *device = wish->pool->device;
	struct charge charge;
	CUresult e;

	if (!own_begin_growing(wish, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = BACK_WITH_ROOM(wish->guest, device, bytes, &charge,
			   charge_reserve(wish->guest, device, bytes, &charge),
			   own_is_promised(wish, &room_, bytes), own_back(wish, bytes, &charge));
	own_end_growing(wish, bytes);
	return e;
}

/* All work of the process: then what was freed behind it is ready. Not while a stream captures. */
static bool own_await_work(struct guest *guest, struct own_pools *own)
{
	uint64_t number = atomic_load(&own->orders.number), above = 0;
	struct object context;
	CUresult e = CUDA_SUCCESS;

	if (capturing_any(guest))
		return false;
	charge_release_begin_all(guest);
	for (int i = 0; !e && i < guest->ndevices; i++) {
		CUcontext primary = atomic_load(&guest->account->primary[i]);

		e = primary ? memory_await_work(primary) : CUDA_SUCCESS;
	}
	while (!e && object_next(guest->objects, OBJECT_CONTEXT, above, &context)) {
		above = context.key;
		e = memory_await_work((CUcontext)(uintptr_t)above);
	}
	charge_release_end_all(guest);
	lock_take(&own->lock);
	if (!e)
		order_pass_context(&own->orders, NULL, number);
	lock_drop(&own->lock);
	return !e;
}

/*
 * What others have freed, if that is done by now; else the pool grows; where it cannot, what is
 * free elsewhere goes, and then work is waited for, as the driver does on a device that is full.
 */
static CUresult own_find_more(struct wish *wish)
{
	uint64_t usual = round_up(wish->bytes, POOL_BYTES);
	uint64_t least = round_up(wish->bytes, GRANULE_BYTES);
	bool others, looks;

	lock_take(&wish->own->lock);
	others = order_want(&wish->own->orders, order_find(&wish->own->orders, &wish->name));
	looks = others && wish->pool->opportunistic;
	lock_drop(&wish->own->lock);
	if (looks)
		own_pools_poll(wish->guest, wish->own);
	if (own_cut_joined(wish) || own_try_growing(wish, usual))
		return CUDA_SUCCESS;
	holder_give_back(wish->guest, wish->pool->device);
	if (own_cut_joined(wish) || own_try_growing(wish, least))
		return CUDA_SUCCESS;
	if (others && own_await_work(wish->guest, wish->own) && own_cut_joined(wish))
		return CUDA_SUCCESS;
	return own_must_grow(wish, least);
}

/* With the lock: the pool that is current on the order's device, if that is known. */
static struct own_pool *own_current(struct guest *guest, struct own_pools *own, uint16_t order)
{
	const struct guest_device *device = own->orders.order[order].device;

	return order && own->current_version[device->ordinal] == atomic_load(&guest->memory->pools)
		       ? own->current[device->ordinal]
		       : NULL;
}

/* Without asking the driver for anything: of a stream that has freed something, and so is one. */
static bool own_alloc_warm(struct wish *wish, CUmemoryPool handle)
{
	struct own_pools *own = wish->own;
	uint16_t order;
	bool done;

	lock_take(&own->lock);
	order = order_find(&own->orders, &wish->name);
	wish->pool = handle ? own_pool_find(own, handle) : own_current(wish->guest, own, order);
	done = wish->pool && order && own_cut(wish);
	lock_drop(&own->lock);
	return done;
}

static CUmemoryPool own_current_handle(struct guest *guest, const struct guest_device *device)
{
	CUmemoryPool handle = NULL;

	return DRIVER(cuDeviceGetMemPool, (&handle, device->ordinal)) ? NULL : handle;
}

/* The first of a stream, or of a pool that is current only since. */
static CUresult own_alloc_cold(struct wish *wish, struct pool_request *request)
{
	struct guest *guest = wish->guest;
	struct guest_device *device = memory_stream_device(guest, request->order);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint64_t version = atomic_load(&guest->memory->pools);
	CUresult e;

	if (device)
		wish->pool = own_pool_get(guest, request->pool ? request->pool
							       : own_current_handle(guest, device));
	if (!wish->pool)
		return pool_alloc(guest, request);
	wish->own = own_pools_look(guest);
	lock_take(&wish->own->lock);
	if (!request->pool && wish->pool->handle) {
		wish->own->current[device->ordinal] = wish->pool;
		wish->own->current_version[device->ordinal] = version;
	}
	lock_drop(&wish->own->lock);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	e = own_cut_joined(wish) ? CUDA_SUCCESS : own_find_more(wish);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	own_pool_put(wish->own, wish->pool);
	if (!e)
		*request->dptr = wish->at;
	return e;
}

CUresult own_alloc(struct guest *guest, struct pool_request *request)
{
	struct wish wish = {.guest = guest, .own = own_pools_look(guest), .bytes = request->bytes,
			    .name = order_name(request->order)};

	if (!wish.bytes)
		return pool_alloc(guest, request);
	if (!wish.own || !own_alloc_warm(&wish, request->pool)) {
		wish.pool = NULL;
		return own_alloc_cold(&wish, request);
	}
	*request->dptr = wish.at;
	return CUDA_SUCCESS;
}

/* --- Frees ----------------------------------------------------------------------------------- */

/*
 * Takes an allocation, which is the caller's to end then. False: no pool of ours has the address.
 * NULL in *ret: no allocation begins there, or another thread is faster.
 */
static bool own_begin_free(struct guest *guest, struct own_pools *own, CUdeviceptr at,
			   struct block **ret)
{
	struct own_pool *pool;
	struct block *block;
	bool ours;

	lock_take(&own->lock);
	ours = backing_owner(guest, at) != NULL;
	block = ours ? own_pool_block(guest, at, &pool) : NULL;
	if (block && (block->state != BLOCK_USED || block_address(block) != at))
		block = NULL;
	if (block)
		block->state = BLOCK_ENDING;
	lock_drop(&own->lock);
	*ret = block;
	return ours;
}

static void own_keep(struct own_pools *own, struct block *block)
{
	lock_take(&own->lock);
	block->state = BLOCK_USED;
	lock_drop(&own->lock);
}

/* In an order that is known. */
static void own_give(struct own_pools *own, struct block *block, uint16_t order)
{
	lock_take(&own->lock);
	slabs_give(block, order, order ? order_free(&own->orders, order) : 0);
	lock_drop(&own->lock);
}

/* In that of a stream. False: it is not known. */
static bool own_give_in(struct own_pools *own, struct block *block, const struct order_name *name)
{
	struct guest_device *device = NULL;
	uint16_t order;

	lock_take(&own->lock);
	order = order_find(&own->orders, name);
	if (order)
		slabs_give(block, order, order_free(&own->orders, order));
	if (order && order_begin_mark(&own->orders, order))
		device = own->orders.order[order].device;
	lock_drop(&own->lock);
	if (device) {
		calls_begin(device);
		order_mark(&own->orders, &own->lock, order);
		calls_end(device);
	}
	return order;
}

bool own_free_async(struct guest *guest, CUdeviceptr at, CUstream stream, CUresult *ret_e)
{
	struct own_pools *own = own_pools_look(guest);
	struct order_name name;
	struct block *block;

	if (!own || !own_begin_free(guest, own, at, &block))
		return false;
	*ret_e = CUDA_ERROR_INVALID_VALUE;
	if (!block)
		return true;
	*ret_e = CUDA_SUCCESS;
	name = order_name(stream);
	while (!own_give_in(own, block, &name)) {
		uint16_t order = order_make(guest, &own->orders, &own->lock, &name);

		if (order == ORDER_UNKNOWN) {
			own_give(own, block, order);
			break;
		}
		if (!order) {
			own_keep(own, block);
			*ret_e = CUDA_ERROR_INVALID_HANDLE;
			break;
		}
	}
	return true;
}

/* A thread without a context may free, too. */
static CUresult own_await_users(struct guest *guest, struct own_pools *own)
{
	CUcontext context = NULL;

	DRIVER(cuCtxGetCurrent, (&context));
	if (context)
		return memory_await_work(context);
	return own_await_work(guest, own) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Waits for work, as cuMemFree does; while a stream captures that would end the capture. */
bool own_free(struct guest *guest, CUdeviceptr at, CUresult *ret_e)
{
	struct own_pools *own = own_pools_look(guest);
	struct block *block;
	bool waits;

	if (!own || !own_begin_free(guest, own, at, &block))
		return false;
	*ret_e = CUDA_ERROR_INVALID_VALUE;
	if (!block)
		return true;
	waits = !capturing_any(guest);
	*ret_e = waits ? own_await_users(guest, own) : CUDA_SUCCESS;
	if (*ret_e) {
		own_keep(own, block);
		return true;
	}
	own_give(own, block, waits ? SLAB_READY : ORDER_UNKNOWN);
	own_pools_settle(guest);
	return true;
}
