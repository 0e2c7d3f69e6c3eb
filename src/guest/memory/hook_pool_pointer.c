/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/hook.h"
#include "guest/memory/pool_pointer.h"
#include "guest/memory/sharing.h"

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
	sharing_export(guest, device, entry_key(shareData_out, sizeof(*shareData_out)), object.size,
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
	e = sharing_import(guest, device, key, object.size, &object);
	if (!e && object_put(guest->objects, &object)) {
		sharing_drop(guest, &object);
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
		sharing_drop(guest, pointer);
	else
		object_put(guest->objects, pointer);
}
