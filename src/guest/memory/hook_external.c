/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another API, and pointers of another process's pool: see external.h. */
#include "guest/core/hook.h"
#include "guest/memory/external.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"

static CUresult external_call_destroy(uint64_t memory)
{
	return DRIVER(cuDestroyExternalMemory, ((CUexternalMemory)(uintptr_t)memory));
}

static CUresult external_call_free(uint64_t buffer)
{
	return DRIVER(cuMemFree_v2, (buffer));
}

static CUresult external_call_destroy_mipmap(uint64_t array)
{
	return DRIVER(cuMipmappedArrayDestroy, ((CUmipmappedArray)(uintptr_t)array));
}

/* Ends a call that the driver answered with `result`: records the view, or lets go of it. */
static CUresult external_finish(struct guest *guest, CUresult result, uint64_t key,
				struct object *view, CUresult (*undo)(uint64_t key))
{
	view->key = key;
	if (!result && !external_record(guest, view)) {
		undo(key);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result) {
		charge_release_begin(guest_device(guest, view->device));
		memory_freed(guest, view);
	}
	return result;
}

CUresult hook_cuImportExternalMemory(CUexternalMemory *extMem_out,
				     const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	GUEST_OR_PASS(cuImportExternalMemory, (extMem_out, memHandleDesc));
	struct guest_device *device = guest_current_device(guest);
	struct object view;
	CUresult e;

	if (!device || !extMem_out || !memHandleDesc)
		return DRIVER(cuImportExternalMemory, (extMem_out, memHandleDesc));
	e = external_import(guest, device, memHandleDesc, &view);
	if (e)
		return e;
	e = DRIVER(cuImportExternalMemory, (extMem_out, memHandleDesc));
	e = external_finish(guest, e, KEY(*extMem_out), &view, external_call_destroy);
	if (!e)
		external_imported(guest, &view);
	charge_release_end(guest, device, CAT_IMPORTED, 0);
	return e;
}

CUresult hook_cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
					      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
	GUEST_OR_PASS(cuExternalMemoryGetMappedBuffer, (devPtr, extMem, bufferDesc));
	struct object view;
	CUresult e;

	if (!devPtr || !external_map(guest, KEY(extMem), &view))
		return DRIVER(cuExternalMemoryGetMappedBuffer, (devPtr, extMem, bufferDesc));
	e = DRIVER(cuExternalMemoryGetMappedBuffer, (devPtr, extMem, bufferDesc));
	return external_finish(guest, e, *devPtr, &view, external_call_free);
}

CUresult hook_cuExternalMemoryGetMappedMipmappedArray(
	CUmipmappedArray *mipmap, CUexternalMemory extMem,
	const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
	GUEST_OR_PASS(cuExternalMemoryGetMappedMipmappedArray, (mipmap, extMem, mipmapDesc));
	struct object view;
	CUresult e;

	if (!mipmap || !external_map(guest, KEY(extMem), &view))
		return DRIVER(cuExternalMemoryGetMappedMipmappedArray,
			      (mipmap, extMem, mipmapDesc));
	e = DRIVER(cuExternalMemoryGetMappedMipmappedArray, (mipmap, extMem, mipmapDesc));
	return external_finish(guest, e, KEY(*mipmap), &view, external_call_destroy_mipmap);
}

CUresult hook_cuDestroyExternalMemory(CUexternalMemory extMem)
{
	GUEST_OR_PASS(cuDestroyExternalMemory, (extMem));
	struct object view;
	CUresult e;

	if (!memory_take(guest, OBJECT_VIEW, KEY(extMem), &view))
		return DRIVER(cuDestroyExternalMemory, (extMem));
	external_destroy(guest, &view);
	e = DRIVER(cuDestroyExternalMemory, (extMem));
	if (e)
		external_imported(guest, &view);
	else
		external_destroyed(guest, &view);
	return memory_free_end(guest, &view, e);
}

/*
 * Without an entry of the exporter's: the size is known once it is imported, and then the pool
 * keeps the memory. So there is to be room for the least that this can be.
 */
static CUresult external_import_alone(struct guest *guest, const struct object *view,
				      CUdeviceptr *ptr_out, CUmemoryPool pool,
				      CUmemPoolPtrExportData *data)
{
	struct guest_device *device = guest_device(guest, view->device);
	struct charge charge;
	CUresult e = charge_reserve(guest, device, POOL_BYTES, &charge);

	if (e)
		return e;
	e = DRIVER(cuMemPoolImportPointer, (ptr_out, pool, data));
	charge_cancel(&charge);
	if (!e && external_borrow(guest, view, *ptr_out, data)) {
		DRIVER(cuMemFree_v2, (*ptr_out));
		e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return e;
}

CUresult hook_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
				     CUmemPoolPtrExportData *shareData)
{
	GUEST_OR_PASS(cuMemPoolImportPointer, (ptr_out, pool, shareData));
	struct object view;
	CUresult e;

	if (pool_is_ended(guest, pool))
		return CUDA_ERROR_INVALID_VALUE;
	if (!ptr_out || !shareData || !external_map(guest, KEY(pool), &view))
		return DRIVER(cuMemPoolImportPointer, (ptr_out, pool, shareData));
	if (external_join(guest, &view))
		e = DRIVER(cuMemPoolImportPointer, (ptr_out, pool, shareData));
	else
		e = external_import_alone(guest, &view, ptr_out, pool, shareData);
	return external_finish(guest, e, *ptr_out, &view, external_call_free);
}
