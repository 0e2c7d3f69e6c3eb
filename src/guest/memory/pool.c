/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/pool.h"

#include "guest/account/holder.h"
#include "guest/core/hook.h"
#include "guest/lend/entry.h"
#include "guest/memory/external.h"
#include "guest/memory/memory.h"
#include "guest/memory/state.h"

uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	DRIVER(cuMemPoolGetAttribute, (pool, which, &value));
	return value;
}

uint64_t pool_reserved(CUmemoryPool pool)
{
	return pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

/* Before the row loses what the pool let go of: others may keep that. */
static void pool_shed(struct guest *guest, CUmemoryPool pool, uint64_t fallen, uint64_t rest)
{
	struct object object;

	if (object_get(guest->objects, OBJECT_POOL, KEY(pool), &object) &&
	    object.flags & OBJECT_SHARED)
		shared_shed(atomic_load(&guest->slot), object.shared, fallen, rest);
}

/* The driver's figure leaves managed memory out. */
static void pool_follow(struct guest *guest, struct guest_device *device, bool unseen,
			uint64_t old_bytes, uint64_t new_bytes)
{
	if (unseen)
		charge_follow_unseen(guest, device, CAT_POOL, old_bytes, new_bytes);
	else
		charge_follow(guest, device, CAT_POOL, old_bytes, new_bytes);
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
 * Growth is charged before it is recorded in the pool's object: a thread that finds nothing left to
 * record finds it in the ledger. A fall is recorded first, and taken out of the ledger only when
 * another look at the driver has shown that the pool has not grown again. Otherwise that growth
 * would be charged to nobody:
 *
 *	settling thread    reads 8 of 32 MiB ───────────────── records 8 ─ reads 32 ─ records 32
 *	allocating thread          grows it to 32, finds 32 recorded
 */
uint64_t pool_settle(struct guest *guest, CUmemoryPool pool)
{
	struct guest_device *device = NULL;
	struct object object;
	uint64_t now = 0, spare = 0; /* charged, but not recorded */
	bool unseen = false;

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
			unseen = object.flags & OBJECT_UNSEEN;
		}
		if (f.to > f.from + spare) {
			pool_follow(guest, device, unseen, f.from + spare, f.to);
			spare = f.to - f.from;
		}
		object_change(guest->objects, OBJECT_POOL, KEY(pool), false, pool_set_charged, &f);
		pool_changed(guest);
		if (f.done)
			spare = f.from + spare - f.to;
		if (f.done && f.to < f.from)
			pool_shed(guest, pool, f.from - f.to, f.to);
	}
	if (spare)
		pool_follow(guest, device, unseen, spare, 0);
	if (device)
		charge_release_end(guest, device, CAT_POOL, 0);
	return now;
}

/*
 * A thread that works on a pool which it found in the table holds it: another thread may destroy it
 * meanwhile, and the driver may then give the same handle to a new pool.
 *
 *	this thread     finds P (17) ───────────────── holds P: its number is 18, so no
 *	other threads         destroy P (17) ─ create P (18)
 */
static bool pool_hold(struct object *pool, void *arg)
{
	struct object *held = arg;

	if (pool->pool.id != held->pool.id)
		return true;
	pool->refs++;
	*held = *pool;
	return true;
}

/*
 * The last thread that holds a pool of which nothing is left takes it out of the table. One that
 * found it larger, a moment ago, may just have recorded that, and will look once more.
 */
struct leaving {
	bool ends;
	struct object pool; /* as it was in the end */
};

static bool pool_let_go(struct object *pool, void *arg)
{
	struct leaving *leaving = arg;

	pool->refs--;
	leaving->ends = leaving->ends && !pool->refs && !pool->bytes;
	leaving->pool = *pool;
	return !leaving->ends;
}

static uint64_t pool_used(CUmemoryPool pool)
{
	return pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

static bool pool_set_unfit_used(struct object *pool, void *arg)
{
	pool->pool.unfit_used = *(const uint64_t *)arg;
	return true;
}

/*
 * Gives back what is free of a pool that the program destroyed. Answers whether that is all. It is
 * not trimmed again until less is in use: `unfit_used` is what was in use the last time.
 */
static bool pool_trim_ended(struct guest *guest, const struct object *object)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)object->key;
	uint64_t used = pool_used(pool), reserved;

	if (used && used == object->pool.unfit_used && pool_reserved(pool) == object->bytes)
		return false;
	DRIVER(cuMemPoolTrimTo, (pool, 0));
	reserved = pool_settle(guest, pool);
	used = pool_used(pool);
	object_change(guest->objects, OBJECT_POOL, object->key, false, pool_set_unfit_used, &used);
	return !reserved && !used;
}

/*
 * All of it is one call of the device: a look at the driver's figure in between would not fit. The
 * pool is held within that call, so that a thread which goes alone never waits for one that waits
 * for it with a pool in its hands.
 */
static void pool_settle_held(struct guest *guest, const struct object *found, bool trim)
{
	struct guest_device *device = guest_device(guest, found->device);
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)found->key;
	struct object held = *found;
	struct leaving leaving = {.ends = false};

	if (!device)
		return; /* host memory */
	charge_release_begin(device);
	held.refs = 0;
	object_change(guest->objects, OBJECT_POOL, found->key, false, pool_hold, &held);
	if (held.refs) {
		if (held.flags & OBJECT_ENDED) {
			leaving.ends = pool_trim_ended(guest, &held);
		} else {
			if (trim)
				DRIVER(cuMemPoolTrimTo, (pool, 0));
			pool_settle(guest, pool);
		}
		object_change(guest->objects, OBJECT_POOL, found->key, false, pool_let_go, &leaving);
		if (leaving.ends) {
			entry_leave(guest, &leaving.pool);
			DRIVER(cuMemPoolDestroy, (pool));
		}
	}
	charge_release_end(guest, device, CAT_POOL, 0);
}

/*
 * Destroys an imported pool, or marks it ended if frees of its pointers are pending. The caller has
 * taken its record out of the table. The view leaves the table before the driver's call, which makes
 * the handle free for another pool.
 */
static CUresult pool_finish_imported(struct guest *guest, struct object *pool)
{
	struct object view;
	CUresult e;
	bool ours;

	if (object_get(guest->objects, OBJECT_VIEW, pool->key, &view) &&
	    external_is_parting(guest, &view)) {
		pool->flags |= OBJECT_ENDED;
		object_put(guest->objects, pool);
		return CUDA_SUCCESS;
	}
	ours = memory_take(guest, OBJECT_VIEW, pool->key, &view);
	e = DRIVER(cuMemPoolDestroy, ((CUmemoryPool)(uintptr_t)pool->key));
	if (e)
		object_put(guest->objects, pool);
	return ours ? memory_free_end(guest, &view, e) : e;
}

CUresult pool_end_imported(struct guest *guest, CUmemoryPool pool)
{
	struct object object;
	CUresult e = CUDA_ERROR_INVALID_VALUE;

	memory_reap(guest);
	if (object_take(guest->objects, OBJECT_POOL, KEY(pool), &object))
		e = pool_finish_imported(guest, &object);
	pool_changed(guest);
	return e;
}

struct found {
	const struct object *pool; /* as it was in the table */
	struct object taken;	   /* ... and as it was when it was taken out; no key: it was not */
};

/* Its handle may be another pool's by now. */
static bool pool_take_ended(struct object *pool, void *arg)
{
	struct found *found = arg;

	if (pool->pool.id != found->pool->pool.id || !(pool->flags & OBJECT_ENDED))
		return true;
	found->taken = *pool;
	return false;
}

static void pool_settle_imported(struct guest *guest, const struct object *pool)
{
	struct found found = {.pool = pool};

	object_change(guest->objects, OBJECT_POOL, pool->key, false, pool_take_ended, &found);
	if (found.taken.key)
		pool_finish_imported(guest, &found.taken);
}

/*
 * Settles all pools that something is charged for, or that are to go; `device` NULL: of all
 * devices.
 */
static void pool_settle_each(struct guest *guest, struct guest_device *device, bool trim)
{
	struct object *pool;

	OBJECT_EACH (pool, guest->objects, OBJECT_POOL)
		if (pool->flags & OBJECT_IMPORTED)
			pool_settle_imported(guest, pool);
		else if ((pool->bytes || pool->flags & OBJECT_ENDED) &&
			 (!device || pool->device == device->ordinal))
			pool_settle_held(guest, pool, trim);
}

bool pool_is_ended(struct guest *guest, CUmemoryPool pool)
{
	struct object object;

	return object_get(guest->objects, OBJECT_POOL, KEY(pool), &object) &&
	       object.flags & OBJECT_ENDED;
}

static bool pool_set_ended(struct object *pool, void *arg)
{
	pool->flags |= OBJECT_ENDED;
	pool->pool.unfit_used = 0;
	*(struct object *)arg = *pool;
	return true;
}

/* Devices that allocate from it use their default again, as when the driver destroys it. */
static void pool_replace_current(struct guest *guest, CUmemoryPool pool)
{
	for (int i = 0; i < guest->ndevices; i++) {
		CUmemoryPool current = NULL, standard;

		if (!DRIVER(cuDeviceGetMemPool, (&current, i)) && current == pool &&
		    !DRIVER(cuDeviceGetDefaultMemPool, (&standard, i)))
			DRIVER(cuDeviceSetMemPool, (i, standard));
	}
	pool_changed(guest);
}

CUresult pool_end(struct guest *guest, CUmemoryPool pool)
{
	struct object ended = {.device = -1};
	cuuint64_t nothing = 0;

	/* Another thread that settles it may destroy it from when it is said to have ended. */
	pool_replace_current(guest, pool);
	DRIVER(cuMemPoolSetAttribute, (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing));
	object_change(guest->objects, OBJECT_POOL, KEY(pool), false, pool_set_ended, &ended);
	pool_changed(guest);
	pool_settle_held(guest, &ended, false);
	return CUDA_SUCCESS;
}

void pool_settle_all(struct guest *guest)
{
	pool_settle_each(guest, NULL, false);
}

/* Makes the driver release what no allocation uses, in all pools of a device. */
static void pool_trim(struct guest *guest, struct guest_device *device)
{
	pool_settle_each(guest, device, true);
}

static void pool_catch_up(struct guest *guest, struct guest_device *device)
{
	pool_settle_all(guest);
}

const struct holder pool_holder = {.catch_up = pool_catch_up, .give_back = pool_trim};

int16_t pool_default_device(struct guest *guest, CUmemoryPool pool)
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

bool pool_object(struct guest *guest, CUmemoryPool pool, struct object *ret)
{
	int16_t device;

	if (object_get(guest->objects, OBJECT_POOL, KEY(pool), ret))
		return true;
	device = pool_default_device(guest, pool);
	object_change(guest->objects, OBJECT_POOL, KEY(pool), true, pool_set_device, &device);
	return object_get(guest->objects, OBJECT_POOL, KEY(pool), ret);
}

bool pool_look_up(struct guest *guest, CUmemoryPool pool, struct pool_seen *ret)
{
	uint64_t version = atomic_load(&guest->memory->pools);
	struct object object;

	if (!pool_object(guest, pool, &object))
		return false;
	ret->version = version;
	ret->charged = object.bytes;
	ret->ended = object.flags & OBJECT_ENDED;
	ret->exportable = object.pool.exportable;
	ret->largest = object.pool.largest;
	ret->device = object.flags & OBJECT_IMPORTED ? NULL : guest_device(guest, object.device);
	return true;
}

/* Never 0, which is what a device begins with, and odd only while a thread writes. */
static uint64_t pool_tag(uint64_t version)
{
	return (version + 1) * 2;
}

static bool pool_recall(struct guest *guest, struct guest_device *device, CUmemoryPool *ret_pool,
			struct pool_seen *ret)
{
	uint64_t tag = atomic_load_explicit(&device->memory->pool_tag, memory_order_acquire);
	CUmemoryPool pool = atomic_load_explicit(&device->memory->pool, memory_order_acquire);
	uint64_t charged = atomic_load_explicit(&device->memory->pool_charged, memory_order_acquire);
	uint64_t version = atomic_load(&guest->memory->pools);

	/* Both were read between two looks at the tag, and written after it was made odd. */
	if (tag != pool_tag(version) ||
	    tag != atomic_load_explicit(&device->memory->pool_tag, memory_order_relaxed))
		return false;
	*ret_pool = pool;
	*ret = (struct pool_seen){.version = version, .charged = charged, .device = device};
	return true;
}

/*
 * Of several threads that come together one writes. A figure that is older than the last change of
 * the pools is never used.
 */
static void pool_remember(struct guest_device *device, CUmemoryPool pool,
			  const struct pool_seen *seen)
{
	uint64_t tag = atomic_load_explicit(&device->memory->pool_tag, memory_order_relaxed);

	if (tag & 1 || !atomic_compare_exchange_strong(&device->memory->pool_tag, &tag, tag | 1))
		return;
	atomic_store_explicit(&device->memory->pool, pool, memory_order_release);
	atomic_store_explicit(&device->memory->pool_charged, seen->charged, memory_order_release);
	atomic_store_explicit(&device->memory->pool_tag, pool_tag(seen->version), memory_order_release);
}

CUresult pool_current(struct guest *guest, CUstream stream, CUmemoryPool *ret_pool,
			     struct pool_seen *ret)
{
	struct guest_device *device = memory_stream_device(guest, stream);
	uint64_t version;
	CUmemoryPool pool;
	CUresult e;

	if (!device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pool_recall(guest, device, ret_pool, ret))
		return CUDA_SUCCESS;
	version = atomic_load(&guest->memory->pools);
	e = DRIVER(cuDeviceGetMemPool, (&pool, device->ordinal));
	if (e)
		return e;
	if (!pool_look_up(guest, pool, ret))
		return CUDA_ERROR_OUT_OF_MEMORY;
	ret->version = version;
	*ret_pool = pool;
	if (ret->device == device && !ret->exportable)
		pool_remember(device, pool, ret);
	return CUDA_SUCCESS;
}
