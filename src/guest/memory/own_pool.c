/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/own_pool.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/memory/backing.h"
#include "guest/memory/calls.h"
#include "guest/memory/holder.h"
#include "guest/memory/memory.h"
#include "guest/memory/order.h"
#include "guest/memory/pool.h"
#include "guest/memory/room.h"
#include "guest/memory/slab.h"

struct own_pool {
	struct own_pool *next; /* with a lower number */
	uint64_t number;
	CUmemoryPool handle; /* NULL: the program has destroyed it */
	struct guest_device *device;
	uint64_t most_bytes; /* 0: no limit */
	uint64_t threshold;
	bool opportunistic; /* what others have freed may be used as soon as that is done */
	uint64_t peers;	    /* whose work may reach it, a bit by ordinal */
	uint64_t growing;   /* bytes that threads are just making */
	uint32_t users;	    /* threads that look at it without the lock */
	struct slabs slabs;
};

struct own_pools {
	struct lock lock; /* of all below, and of blocks and slabs; backing.c's may be taken in it */
	struct orders orders;
	struct own_pool *first;
	uint64_t number; /* of the last pool */
	/* Of each device, and for which version of guest.pools. */
	struct own_pool *current[GUEST_DEVICES];
	uint64_t current_version[GUEST_DEVICES];
};

static struct own_pools *own_pools_look(struct guest *guest)
{
	return atomic_load_explicit(&guest->own_pools, memory_order_acquire);
}

static void *own_map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static struct own_pools *own_pools_make(struct guest *guest)
{
	struct own_pools *own = own_pools_look(guest), *expected = NULL;

	if (own)
		return own;
	own = own_map(sizeof(*own));
	if (!own)
		return NULL;
	orders_init(&own->orders);
	if (atomic_compare_exchange_strong(&guest->own_pools, &expected, own))
		return own;
	munmap(own, sizeof(*own));
	return expected;
}

/* --- Which pool ------------------------------------------------------------------------------ */

/* With the lock. */
static struct own_pool *own_find(struct own_pools *own, CUmemoryPool handle)
{
	struct own_pool *pool = own->first;

	while (pool && pool->handle != handle)
		pool = pool->next;
	return pool;
}

/* With the lock: takes out a pool that nobody has any more. The caller unmaps it. */
static struct own_pool *own_unlink(struct own_pools *own, struct own_pool *pool)
{
	struct own_pool **at = &own->first;

	if (pool->handle || pool->users || pool->slabs.first)
		return NULL;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	return pool;
}

static void own_put(struct own_pools *own, struct own_pool *pool)
{
	lock_take(&own->lock);
	pool->users--;
	pool = own_unlink(own, pool);
	lock_drop(&own->lock);
	if (pool)
		munmap(pool, sizeof(*pool));
}

typedef bool own_match_fn(const struct own_pool *pool);
typedef void own_each_fn(struct guest *guest, struct own_pools *own, struct own_pool *pool);

/* The next one with a lower number than the last, until own_put; NULL: there is none. */
static struct own_pool *own_next(struct own_pools *own, uint64_t below, own_match_fn *match)
{
	struct own_pool *pool;

	lock_take(&own->lock);
	for (pool = own->first; pool && (pool->number >= below || !match(pool));)
		pool = pool->next;
	if (pool)
		pool->users++;
	lock_drop(&own->lock);
	return pool;
}

/* `match` is called with the lock. `device` NULL: of all devices. */
static void own_for_each(struct guest *guest, const struct guest_device *device,
			 own_match_fn *match, own_each_fn *each)
{
	struct own_pools *own = own_pools_look(guest);
	uint64_t below = UINT64_MAX;
	struct own_pool *pool;

	while (own && (pool = own_next(own, below, match))) {
		below = pool->number;
		if (!device || pool->device == device)
			each(guest, own, pool);
		own_put(own, pool);
	}
}

bool own_pool_can(struct guest *guest, const CUmemPoolProps *props)
{
	return guest->swappable && props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       props->handleTypes == CU_MEM_HANDLE_TYPE_NONE && !props->usage &&
	       props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       guest_device(guest, props->location.id);
}

/* Another thread may have been faster. */
static CUresult own_make(struct guest *guest, CUmemoryPool handle, struct guest_device *device,
			 uint64_t most_bytes)
{
	struct own_pools *own = own_pools_make(guest);
	struct own_pool *pool = own_map(sizeof(*pool));
	int opportunistic = 1;

	if (!own || !pool) {
		if (pool)
			munmap(pool, sizeof(*pool));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	DRIVER(cuMemPoolGetAttribute,
	       (handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &opportunistic));
	pool->handle = handle;
	pool->device = device;
	pool->most_bytes = round_up(most_bytes, POOL_BYTES);
	pool->threshold = pool_attribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
	pool->opportunistic = opportunistic;
	pool->peers = UINT64_C(1) << device->ordinal;
	pool->slabs.passed = own->orders.passed;
	lock_take(&own->lock);
	if (!own_find(own, handle)) {
		pool->number = ++own->number;
		pool->next = own->first;
		own->first = pool;
		pool = NULL;
	}
	lock_drop(&own->lock);
	if (pool)
		munmap(pool, sizeof(*pool));
	return CUDA_SUCCESS;
}

CUresult own_pool_add(struct guest *guest, CUmemoryPool handle, const CUmemPoolProps *props)
{
	return own_make(guest, handle, guest_device(guest, props->location.id), props->maxSize);
}

static struct own_pool *own_take(struct own_pools *own, CUmemoryPool handle)
{
	struct own_pool *pool;

	lock_take(&own->lock);
	pool = own_find(own, handle);
	if (pool)
		pool->users++;
	lock_drop(&own->lock);
	return pool;
}

/* Until own_put. NULL: it is none of ours. A device's default pool was made by nobody. */
static struct own_pool *own_get(struct guest *guest, CUmemoryPool handle)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own && handle ? own_take(own, handle) : NULL;
	int16_t device;

	if (pool || !guest->swappable || !handle)
		return pool;
	device = pool_default_device(guest, handle);
	if (device < 0 || own_make(guest, handle, guest_device(guest, device), 0))
		return NULL;
	return own_take(own_pools_look(guest), handle);
}

/* --- Slabs ----------------------------------------------------------------------------------- */

/* With the lock: the block of an allocation, and of which pool; NULL: no pool of ours has it. */
static struct block *own_block(struct guest *guest, CUdeviceptr at, struct own_pool **ret)
{
	struct slab *slab = backing_owner(guest, at);
	struct block *block = slab ? slab_find(slab, at) : NULL;

	if (!block)
		return NULL;
	*ret = (struct own_pool *)((char *)slab_of(slab) - offsetof(struct own_pool, slabs));
	return block;
}

/* Gives back slabs of which all is ready, as long as `keep` bytes are left. The caller has a pass. */
static void own_release(struct guest *guest, struct own_pools *own, struct own_pool *pool,
			uint64_t keep)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct slab *slab;

	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	for (;;) {
		lock_take(&own->lock);
		slab = slabs_remove(&pool->slabs, keep);
		if (slab)
			backing_disown(guest, slab_base(slab));
		lock_drop(&own->lock);
		if (!slab)
			break;
		charge_release_begin(pool->device);
		backing_free(guest, pool->device, slab_base(slab));
		charge_release_end(guest, pool->device, CAT_POOL, slab_bytes(slab));
		slab_end(slab);
	}
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
}

/* Who ends a context, and with it its events, waits for us or we for him: streams are of any device. */
static void own_poll(struct guest *guest, struct own_pools *own)
{
	charge_release_begin_all(guest);
	order_poll(&own->orders, &own->lock);
	charge_release_end_all(guest);
}

/* With the lock. */
static bool own_exceeds(const struct own_pool *pool)
{
	return pool->slabs.idle && pool->slabs.reserved > pool->threshold;
}

/* What is not known to be done although nothing is in use: events tell, from the next free on. */
static void own_settle(struct guest *guest, struct own_pools *own, struct own_pool *pool)
{
	/* Called where the gate is not asked, too: what is away must not be freed just now. */
	CLEANUP(pass_leave) struct guest *pass = pass_try(guest);
	uint64_t keep;
	bool more;

	if (!pass)
		return;
	lock_take(&own->lock);
	keep = pool->threshold;
	lock_drop(&own->lock);
	own_release(guest, own, pool, keep);
	lock_take(&own->lock);
	more = own_exceeds(pool) && order_want(&own->orders, SLAB_READY);
	lock_drop(&own->lock);
	if (!more)
		return;
	own_poll(guest, own);
	own_release(guest, own, pool, keep);
}

void own_pools_settle(struct guest *guest)
{
	own_for_each(guest, NULL, own_exceeds, own_settle);
}

/* With the lock. */
static bool own_has_idle(const struct own_pool *pool)
{
	return pool->slabs.idle;
}

static void own_trim(struct guest *guest, struct own_pools *own, struct own_pool *pool)
{
	CLEANUP(pass_leave) struct guest *pass = pass_try(guest);

	if (!pass)
		return;
	own_poll(guest, own);
	own_release(guest, own, pool, 0);
}

static void own_pools_trim(struct guest *guest, struct guest_device *device)
{
	own_for_each(guest, device, own_has_idle, own_trim);
}

static void own_pools_catch_up(struct guest *guest, struct guest_device *device)
{
	own_for_each(guest, device, own_exceeds, own_settle);
}

const struct holder own_pool_holder = {.catch_up = own_pools_catch_up, .give_back = own_pools_trim};

static void own_release_all(struct guest *guest, struct own_pools *own, struct own_pool *pool)
{
	own_release(guest, own, pool, 0);
}

void own_pools_drained(struct guest *guest)
{
	struct own_pools *own = own_pools_look(guest);

	if (!own)
		return;
	lock_take(&own->lock);
	order_pass_context(&own->orders, NULL, atomic_load(&own->orders.number));
	lock_drop(&own->lock);
	own_for_each(guest, NULL, own_has_idle, own_release_all);
}

/* --- Allocations ----------------------------------------------------------------------------- */

struct wish {
	struct guest *guest;
	struct own_pools *own;
	struct own_pool *pool;
	uint64_t bytes;
	struct order_name name; /* of the stream; its order may be another's when the lock was free */
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
	bool may;

	lock_take(&wish->own->lock);
	may = !pool->most_bytes || (bytes <= pool->most_bytes &&
				    pool->slabs.reserved + pool->growing <= pool->most_bytes - bytes);
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

/* As memory_alloc does it. */
static CUresult own_must_grow(struct wish *wish, uint64_t bytes)
{
	struct guest_device *device = wish->pool->device;
	struct room room = {0};
	struct charge charge;
	CUresult e;

	if (!own_begin_growing(wish, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	do {
		e = charge_reserve(wish->guest, device, bytes, &charge);
		if (e)
			break;
		if (own_is_promised(wish, &room, bytes)) {
			charge_cancel(&charge);
			e = CUDA_ERROR_OUT_OF_MEMORY;
			continue;
		}
		e = own_back(wish, bytes, &charge);
	} while (e == CUDA_ERROR_OUT_OF_MEMORY && room_wait(&room, wish->guest, device, bytes));
	room_end(&room);
	own_end_growing(wish, bytes);
	return e;
}

/* All work of the process, so that what was freed behind it is ready. Not while a stream captures. */
static bool own_await_work(struct guest *guest, struct own_pools *own)
{
	uint64_t number = atomic_load(&own->orders.number), above = 0;
	struct object context;
	CUresult e = CUDA_SUCCESS;

	if (capturing_any(guest))
		return false;
	charge_release_begin_all(guest);
	for (int i = 0; !e && i < guest->ndevices; i++) {
		CUcontext primary = atomic_load(&guest->primary[i]);

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
 * What others have freed, if that is done by now; else the pool grows; where it cannot, what is free
 * elsewhere goes, and then work is waited for, as the driver does on a device that is full.
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
		own_poll(wish->guest, wish->own);
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

	return order && own->current_version[device->ordinal] == atomic_load(&guest->pools)
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
	wish->pool = handle ? own_find(own, handle) : own_current(wish->guest, own, order);
	done = wish->pool && order && own_cut(wish);
	lock_drop(&own->lock);
	return done;
}

static CUmemoryPool own_current_handle(struct guest *guest, const struct guest_device *device)
{
	CUmemoryPool handle = NULL;

	return DRIVER(cuDeviceGetMemPool, (&handle, device->ordinal)) ? NULL : handle;
}

bool own_pool_alloc(struct guest *guest, CUmemoryPool handle, uint64_t bytes, CUstream stream,
		    CUdeviceptr *ret, CUresult *ret_e)
{
	struct wish wish = {.guest = guest, .own = own_pools_look(guest), .bytes = bytes,
			    .name = order_name(stream)};
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint64_t version = atomic_load(&guest->pools);
	struct guest_device *device;

	if (!bytes)
		return false;
	if (!wish.own || !own_alloc_warm(&wish, handle)) {
		device = memory_stream_device(guest, stream);
		if (!device)
			return false;
		wish.pool = own_get(guest, handle ? handle : own_current_handle(guest, device));
		if (!wish.pool)
			return false;
		wish.own = own_pools_look(guest);
		lock_take(&wish.own->lock);
		if (!handle && wish.pool->handle) {
			wish.own->current[device->ordinal] = wish.pool;
			wish.own->current_version[device->ordinal] = version;
		}
		lock_drop(&wish.own->lock);
		DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
		*ret_e = own_cut_joined(&wish) ? CUDA_SUCCESS : own_find_more(&wish);
		DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
		own_put(wish.own, wish.pool);
		if (*ret_e)
			return true;
	}
	*ret = wish.at;
	*ret_e = CUDA_SUCCESS;
	return true;
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
	block = ours ? own_block(guest, at, &pool) : NULL;
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

bool own_pool_free_async(struct guest *guest, CUdeviceptr at, CUstream stream, CUresult *ret_e)
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
bool own_pool_free(struct guest *guest, CUdeviceptr at, CUresult *ret_e)
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

/* --- What programs ask of pools, and say ------------------------------------------------------ */

void own_pool_end(struct guest *guest, CUmemoryPool handle)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own ? own_take(own, handle) : NULL;

	if (!pool)
		return;
	lock_take(&own->lock);
	pool->handle = NULL;
	pool->threshold = 0;
	for (int i = 0; i < guest->ndevices; i++)
		if (own->current[i] == pool)
			own->current[i] = NULL;
	lock_drop(&own->lock);
	own_settle(guest, own, pool);
	own_put(own, pool);
}

void own_pool_figure(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
		     void *value)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own ? own_take(own, handle) : NULL;
	cuuint64_t *figure = value;

	if (!pool)
		return;
	lock_take(&own->lock);
	if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		*figure = pool->slabs.reserved;
	else if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		*figure = pool->slabs.reserved_high;
	else if (which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
		*figure = pool->slabs.used;
	else if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		*figure = pool->slabs.used_high;
	lock_drop(&own->lock);
	own_put(own, pool);
}

void own_pool_set(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
		  const void *value)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own ? own_take(own, handle) : NULL;

	if (!pool)
		return;
	lock_take(&own->lock);
	if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->threshold = *(const cuuint64_t *)value;
	else if (which == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)
		pool->opportunistic = *(const int *)value;
	else if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		pool->slabs.reserved_high = pool->slabs.reserved;
	else if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		pool->slabs.used_high = pool->slabs.used;
	lock_drop(&own->lock);
	own_put(own, pool);
}

static bool own_has(struct own_pools *own, const struct own_pool *pool, const struct slab *slab)
{
	bool has;

	lock_take(&own->lock);
	has = slabs_have(&pool->slabs, slab);
	lock_drop(&own->lock);
	return has;
}

void own_pool_set_access(struct guest *guest, CUmemoryPool handle, const CUmemAccessDesc *desc,
			 size_t count)
{
	struct own_pool *pool = own_get(guest, handle);
	struct own_pools *own = own_pools_look(guest);
	struct backing_piece piece;
	CUdeviceptr from = 0;
	uint64_t peers;

	if (!pool)
		return;
	lock_take(&own->lock);
	for (size_t i = 0; i < count; i++) {
		uint64_t bit = UINT64_C(1) << (desc[i].location.id & 63);

		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			continue;
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
			pool->peers &= ~bit;
		else
			pool->peers |= bit;
	}
	peers = pool->peers;
	lock_drop(&own->lock);
	/* A slab that is made meanwhile looks at the peers again. */
	while (backing_next(guest, pool->device, from, &piece)) {
		if (piece.owner && own_has(own, pool, piece.owner))
			backing_set_peers(guest, piece.at, peers);
		from = piece.at + piece.bytes;
	}
	own_put(own, pool);
}

void own_pool_trim(struct guest *guest, CUmemoryPool handle, uint64_t keep)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own ? own_take(own, handle) : NULL;

	if (!pool)
		return;
	own_poll(guest, own);
	own_release(guest, own, pool, keep);
	own_put(own, pool);
}

bool own_pool_object(struct guest *guest, CUdeviceptr at, struct object *ret)
{
	struct own_pools *own = own_pools_look(guest);
	struct block *block = NULL;
	struct own_pool *pool;

	if (!own)
		return false;
	lock_take(&own->lock);
	block = own_block(guest, at, &pool);
	if (block)
		*ret = (struct object){
			.kind = OBJECT_POINTER,
			.key = block_address(block),
			.device = (int16_t)pool->device->ordinal,
			.size = block->used.bytes,
			.linear = {.id = block->used.id, .pool = KEY(pool->handle)},
		};
	lock_drop(&own->lock);
	return block;
}

/* --- What is done ---------------------------------------------------------------------------- */

uint64_t own_pools_number(struct guest *guest)
{
	struct own_pools *own = own_pools_look(guest);

	return own ? atomic_load(&own->orders.number) : 0;
}

void own_pools_waited(struct guest *guest, CUstream stream, uint64_t number)
{
	struct own_pools *own = own_pools_look(guest);
	struct order_name name;
	uint16_t order;

	if (!own)
		return;
	name = order_name(stream);
	lock_take(&own->lock);
	order = order_find(&own->orders, &name);
	if (order)
		order_pass(&own->orders, order, number);
	lock_drop(&own->lock);
}

void own_pools_waited_context(struct guest *guest, CUcontext context, uint64_t number)
{
	struct own_pools *own = own_pools_look(guest);

	if (!own)
		return;
	if (!context)
		DRIVER(cuCtxGetCurrent, (&context));
	lock_take(&own->lock);
	if (context)
		order_pass_context(&own->orders, context, number);
	lock_drop(&own->lock);
}

void own_pools_stream_ends(struct guest *guest, CUstream stream)
{
	struct own_pools *own = own_pools_look(guest);
	struct order_name name;

	if (!own)
		return;
	name = order_name(stream);
	charge_release_begin_all(guest);
	order_end(&own->orders, &own->lock, &name);
	charge_release_end_all(guest);
}

void own_pools_forget_context(struct guest *guest, CUcontext context)
{
	struct own_pools *own = own_pools_look(guest);

	if (!own || !context)
		return;
	lock_take(&own->lock);
	order_forget_context(&own->orders, context);
	lock_drop(&own->lock);
}
