/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/own_pool.h"

#include <stddef.h>
#include <sys/mman.h>

#include "base/pages.h"
#include "guest/account/holder.h"
#include "guest/core/hook.h"
#include "guest/memory/pool.h"
#include "guest/movable/backing.h"
#include "guest/movable/own_pool_priv.h"
#include "guest/movable/state.h"

static struct own_pools *own_pools_make(struct guest *guest)
{
	struct own_pools *own = own_pools_look(guest), *expected = NULL;

	if (own)
		return own;
	own = pages_map(sizeof(*own));
	if (!own)
		return NULL;
	orders_init(&own->orders);
	if (atomic_compare_exchange_strong(&guest->movable->own_pools, &expected, own))
		return own;
	munmap(own, sizeof(*own));
	return expected;
}

/* --- Which pool ------------------------------------------------------------------------------ */

struct own_pool *own_pool_find(struct own_pools *own, CUmemoryPool handle)
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

void own_pool_put(struct own_pools *own, struct own_pool *pool)
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

/* The next one with a lower number than the last, until own_pool_put; NULL: there is none. */
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
		own_pool_put(own, pool);
	}
}

/* Can a pool that is made so be one of ours? */
static bool own_can(struct guest *guest, const CUmemPoolProps *props)
{
	return props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       props->handleTypes == CU_MEM_HANDLE_TYPE_NONE && !props->usage &&
	       props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       guest_device(guest, props->location.id);
}

/* Another thread may have been faster. */
static CUresult own_make(struct guest *guest, CUmemoryPool handle, struct guest_device *device,
			 uint64_t most_bytes)
{
	struct own_pools *own = own_pools_make(guest);
	struct own_pool *pool = pages_map(sizeof(*pool));
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
	if (!own_pool_find(own, handle)) {
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

CUresult own_pool_made(struct guest *guest, CUmemoryPool handle, const CUmemPoolProps *props)
{
	return own_can(guest, props) ? own_make(guest, handle,
						guest_device(guest, props->location.id),
						props->maxSize)
				     : CUDA_SUCCESS;
}

static struct own_pool *own_take(struct own_pools *own, CUmemoryPool handle)
{
	struct own_pool *pool;

	lock_take(&own->lock);
	pool = own_pool_find(own, handle);
	if (pool)
		pool->users++;
	lock_drop(&own->lock);
	return pool;
}

struct own_pool *own_pool_get(struct guest *guest, CUmemoryPool handle)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own && handle ? own_take(own, handle) : NULL;
	int16_t device;

	if (pool || !handle)
		return pool;
	device = pool_default_device(guest, handle);
	if (device < 0 || own_make(guest, handle, guest_device(guest, device), 0))
		return NULL;
	return own_take(own_pools_look(guest), handle);
}

/* --- Slabs ----------------------------------------------------------------------------------- */

struct block *own_pool_block(struct guest *guest, CUdeviceptr at, struct own_pool **ret)
{
	struct slab *slab = backing_owner(guest, at);
	struct block *block = slab ? slab_find(slab, at) : NULL;

	if (!block)
		return NULL;
	*ret = (struct own_pool *)((char *)slab_of(slab) - offsetof(struct own_pool, slabs));
	return block;
}

/* Gives back slabs of which all is ready, as long as `keep` bytes are left. With a pass. */
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
		backing_free(guest, pool->device, slab_base(slab), NULL);
		charge_release_end(guest, pool->device, CAT_POOL, slab_bytes(slab));
		slab_end(slab);
	}
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
}

/* Who ends a context, and its events, waits for us or we for him: streams are of any device. */
void own_pools_poll(struct guest *guest, struct own_pools *own)
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
	own_pools_poll(guest, own);
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
	own_pools_poll(guest, own);
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

/* --- What programs ask of pools, and say ------------------------------------------------------ */

void own_pool_ends(struct guest *guest, CUmemoryPool handle)
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
	own_pool_put(own, pool);
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
	own_pool_put(own, pool);
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
	own_pool_put(own, pool);
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
	struct own_pool *pool = own_pool_get(guest, handle);
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
	own_pool_put(own, pool);
}

void own_pool_trim(struct guest *guest, CUmemoryPool handle, uint64_t keep)
{
	struct own_pools *own = own_pools_look(guest);
	struct own_pool *pool = own ? own_take(own, handle) : NULL;

	if (!pool)
		return;
	own_pools_poll(guest, own);
	own_release(guest, own, pool, keep);
	own_pool_put(own, pool);
}

bool own_pool_object(struct guest *guest, CUdeviceptr at, struct object *ret)
{
	struct own_pools *own = own_pools_look(guest);
	struct block *block = NULL;
	struct own_pool *pool;

	if (!own)
		return false;
	lock_take(&own->lock);
	block = own_pool_block(guest, at, &pool);
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
