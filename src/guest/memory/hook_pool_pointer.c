/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools that other processes may have memory of, pointer by pointer. A process that imports a
 * pointer keeps all that the pool grew by when the pointer's memory was made. So the pool has one
 * entry in the tenant's table, of what others can have at most, which is raised before they can:
 * see shared_raise.
 */
#include "guest/core/hook.h"
#include "guest/memory/external.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/pool_pointer.h"
#include "guest/memory/sharing.h"
#include "guest/memory/state.h"

static bool pool_pointer_set_number(struct object *pool, void *arg)
{
	uint32_t *number = arg;

	if (!pool->pool.number)
		pool->pool.number = *number;
	*number = pool->pool.number;
	return true;
}

/* Every descriptor of one pool gets one number. */
static bool pool_pointer_key(struct guest *guest, const struct object *pool, const void *handle,
			     CUmemAllocationHandleType type, struct shared_key *ret)
{
	uint32_t number = pool->pool.number;

	if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
		*ret = entry_key(handle, sizeof(CUmemFabricHandle));
		return true;
	}
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return false;
	if (!number)
		number = stamp_number(guest);
	return object_change(guest->objects, OBJECT_POOL, pool->key, false,
			     pool_pointer_set_number, &number) &&
	       stamp_put(guest, *(const int *)handle, number, ret);
}

/* A pool stays under its first key. */
static bool pool_pointer_set_key(struct object *pool, void *arg)
{
	if (!pool->shared.word[0])
		pool->shared = *(const struct shared_key *)arg;
	return true;
}

CUresult hook_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
					       CUmemAllocationHandleType handleType,
					       unsigned long long flags)
{
	GUEST_OR_PASS(cuMemPoolExportToShareableHandle, (handle_out, pool, handleType, flags));
	struct shared_key key;
	struct object object;
	CUresult e;

	atomic_store(&guest->memory->pool_exported, true);
	if (pool_is_ended(guest, pool))
		return CUDA_ERROR_INVALID_VALUE;
	e = DRIVER(cuMemPoolExportToShareableHandle, (handle_out, pool, handleType, flags));
	if (!e && pool_object(guest, pool, &object) && !(object.flags & OBJECT_IMPORTED) &&
	    pool_pointer_key(guest, &object, handle_out, handleType, &key))
		object_change(guest->objects, OBJECT_POOL, KEY(pool), false, pool_pointer_set_key,
			      &key);
	return e;
}

static bool pool_pointer_mark_shared(struct object *pool, void *arg)
{
	bool *first = arg;

	*first = !(pool->flags & OBJECT_SHARED);
	pool->flags |= OBJECT_SHARED;
	return true;
}

/* The first pointer makes the entry. */
static void pool_pointer_raise(struct guest *guest, struct object *pool, uint64_t part)
{
	struct slot *slot = atomic_load(&guest->slot);
	uint64_t most = pool_reserved((CUmemoryPool)(uintptr_t)pool->key);
	bool first = false;

	if (shared_raise(slot, pool->shared, part, most) != -ENOENT)
		return;
	pool->flags &= (uint16_t)~OBJECT_SHARED;
	sharing_export(guest, guest_device(guest, pool->device), pool->shared,
		       part < most ? part : most, pool);
	if (!(pool->flags & OBJECT_SHARED)) {
		shared_raise(slot, pool->shared, part, most); /* another thread has made it */
		return;
	}
	/* The driver may trim the pool at any time, and its figure is what is charged then. */
	sharing_begin_drop(guest, pool);
	object_change(guest->objects, OBJECT_POOL, pool->key, false, pool_pointer_mark_shared,
		      &first);
	if (!first)
		entry_leave(guest, pool);
}

/* Pointers of which others were told already have their part. */
static void pool_pointer_lend(struct guest *guest, CUdeviceptr ptr)
{
	struct object pointer = {.kind = OBJECT_POINTER, .category = CAT_IMPORTED};
	struct object object;
	CUmemoryPool pool = NULL;
	CUdeviceptr base;
	uint64_t part;
	size_t size;

	if (DRIVER(cuPointerGetAttribute, (&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr)) ||
	    DRIVER(cuMemGetAddressRange_v2, (&base, &size, ptr)) || !pool ||
	    !pool_object(guest, pool, &object) || !object.shared.word[0] ||
	    !guest_device(guest, object.device))
		return;
	pointer.key = base;
	pointer.device = object.device;
	pointer.size = size;
	if (object_add(guest->objects, &pointer))
		return;
	part = round_up(size, POOL_BYTES);
	pool_pointer_raise(guest, &object,
			   part > object.pool.largest ? part : object.pool.largest);
}

CUresult hook_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	GUEST_OR_PASS(cuMemPoolExportPointer, (shareData_out, ptr));
	CUresult e = DRIVER(cuMemPoolExportPointer, (shareData_out, ptr));

	if (!e)
		pool_pointer_lend(guest, ptr);
	return e;
}

/* The reserve of an imported pool is charged where the pool was created. */
CUresult hook_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						 CUmemAllocationHandleType handleType,
						 unsigned long long flags)
{
	GUEST_OR_PASS(cuMemPoolImportFromShareableHandle, (pool_out, handle, handleType, flags));
	struct object object = {.kind = OBJECT_POOL, .category = CAT_POOL, .flags = OBJECT_IMPORTED,
				.device = -1, .pool.id = object_generation()};
	struct shared_key key = {{0}};
	CUresult e;

	/* Before the driver may close or consume it. */
	if (handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		stamp_read((int)(intptr_t)handle, NULL, &key);
	else if (handleType == CU_MEM_HANDLE_TYPE_FABRIC && handle)
		key = entry_key(handle, sizeof(CUmemFabricHandle));
	e = DRIVER(cuMemPoolImportFromShareableHandle, (pool_out, handle, handleType, flags));
	if (e)
		return e;
	object.key = KEY(*pool_out);
	if (object_put(guest->objects, &object)) {
		DRIVER(cuMemPoolDestroy, (*pool_out));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e = external_import_pool(guest, *pool_out, key);
	if (e) {
		object_take(guest->objects, OBJECT_POOL, object.key, &object);
		DRIVER(cuMemPoolDestroy, (*pool_out));
	}
	return e;
}

bool pool_pointer_take(struct guest *guest, CUdeviceptr address, struct object *ret)
{
	return object_count(guest->objects, OBJECT_POINTER) &&
	       object_take(guest->objects, OBJECT_POINTER, address, ret);
}

void pool_pointer_done(struct guest *guest, const struct object *pointer, bool freed)
{
	if (!freed)
		object_put(guest->objects, pointer);
}
