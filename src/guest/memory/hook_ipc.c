/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process, by legacy IPC handles. The driver has no such handles of memory that
 * can leave, so these are ours (exporter.h, importer.h); others are the
 * driver's in a swappable tenant, too.
 */
#include <string.h>

#include "guest/account/later.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/memory/memory.h"
#include "guest/memory/sharing.h"
#include "guest/movable/backing.h"
#include "guest/movable/importer.h"
#include "guest/movable/lent.h"

/* As the driver does, a handle of the whole allocation that has the address. */
static CUresult ipc_name(struct guest *guest, CUdeviceptr dptr, CUipcMemHandle *ret)
{
	CUdeviceptr start = backing_start(guest, dptr);
	struct backing_piece piece;
	struct share_name name;
	struct object object;
	CUresult e;

	if (!ret || !start || !object_get(guest->objects, OBJECT_MEMORY, start, &object) ||
	    dptr - start >= object.size)
		return CUDA_ERROR_INVALID_VALUE;
	e = lent_name(guest, start, &name);
	if (e)
		return e;
	if (!backing_find(guest, start, &piece))
		return CUDA_ERROR_INVALID_VALUE;
	name.size = object.size;
	name.offset = (uint32_t)(start - piece.at);
	memcpy(ret, &name, sizeof(name));
	return CUDA_SUCCESS;
}

/* The driver's handle of any address inside of an allocation is the allocation's. */
static bool ipc_exported(struct guest *guest, CUdeviceptr dptr, struct object *ret)
{
	CUdeviceptr base;
	size_t size;

	return object_get(guest->objects, OBJECT_MEMORY, dptr, ret) ||
	       (!DRIVER(cuMemGetAddressRange_v2, (&base, &size, dptr)) &&
		object_get(guest->objects, OBJECT_MEMORY, base, ret));
}

static bool ipc_mark_shared(struct object *memory, void *arg)
{
	const struct object *as = arg;

	memory->shared = as->shared;
	memory->flags |= OBJECT_SHARED;
	return true;
}

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	GUEST_OR_PASS(cuIpcGetMemHandle, (pHandle, dptr));
	if (guest->swappable && backing_device(guest, dptr))
		return ipc_name(guest, dptr, pHandle);
	CUresult e = DRIVER(cuIpcGetMemHandle, (pHandle, dptr));
	struct guest_device *device;
	struct object object;

	/* The driver answers with the same bytes every time: one key for all importers. */
	if (e || !ipc_exported(guest, dptr, &object) || object.flags & OBJECT_SHARED)
		return e;
	device = guest_device(guest, object.device);
	/* Of a small allocation importers keep the granule. */
	sharing_export(guest, device, entry_key(pHandle, sizeof(*pHandle)),
		       object.bytes ? object.bytes : GRANULE_BYTES, &object);
	/* Not where another thread exports it just now, and has the entry. */
	if (object.flags & OBJECT_SHARED &&
	    !object_change(guest->objects, OBJECT_MEMORY, object.key, false, ipc_mark_shared,
			   &object))
		entry_leave(guest, &object);
	return e;
}

/* The driver counts how often it opened a handle, and answers the same address. */
struct opens {
	int add;
	struct object after;
};

static bool ipc_count(struct object *ipc, void *arg)
{
	struct opens *opens = arg;

	ipc->refs += (uint32_t)opens->add;
	opens->after = *ipc;
	return ipc->refs;
}

/* Every open of a piece counts once there, and every one of an address here. */
static CUresult ipc_open(struct guest *guest, const struct share_name *name, CUdeviceptr *ret)
{
	struct object object = {.kind = OBJECT_IPC, .category = CAT_IMPORTED, .refs = 1,
				.flags = OBJECT_IMPORTED | OBJECT_BACKED, .size = name->size};
	struct opens again = {.add = 1};
	struct guest_device *device;
	CUcontext context = NULL;
	uint64_t import;
	CUdeviceptr at;
	CUresult e;

	if (DRIVER(cuCtxGetCurrent, (&context)) || !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	e = importer_open(guest, name, &import, &at);
	if (e)
		return e;
	at += name->offset;
	device = backing_device(guest, at);
	object.key = at;
	object.device = device ? (int16_t)device->ordinal : -1;
	object.context = KEY(context);
	object.linear.id = KEY(at);
	object.linear.import = import;
	if (object_change(guest->objects, OBJECT_IPC, at, false, ipc_count, &again)) {
		importer_close(guest, import);
	} else if (object_put(guest->objects, &object)) {
		importer_close(guest, import);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = at;
	return CUDA_SUCCESS;
}

/* The size is known once it is open; opening takes nothing from the device. */
static CUresult ipc_opened(struct guest *guest, CUdeviceptr address, const CUipcMemHandle *handle)
{
	struct guest_device *device = guest_current_device(guest);
	struct object object = {.kind = OBJECT_IPC, .key = address, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .refs = 1};
	CUcontext context = NULL;
	struct opens again = {.add = 1};
	CUdeviceptr base;
	size_t size = 0;
	CUresult e;

	if (!device || object_change(guest->objects, OBJECT_IPC, address, false, ipc_count, &again))
		return CUDA_SUCCESS;
	DRIVER(cuMemGetAddressRange_v2, (&base, &size, address));
	DRIVER(cuCtxGetCurrent, (&context));
	object.context = KEY(context);
	object.device = (int16_t)device->ordinal;
	object.size = size;
	e = sharing_import(guest, device, entry_key(handle, sizeof(*handle)),
			 round_up(size, GRANULE_BYTES), &object);
	if (!e && object_put(guest->objects, &object)) {
		sharing_drop(guest, &object);
		e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (e)
		DRIVER(cuIpcCloseMemHandle, (address));
	return e;
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	GUEST_OR_PASS(cuIpcOpenMemHandle_v2, (pdptr, handle, Flags));
	struct share_name name;

	if (guest->swappable && pdptr && importer_knows(&handle, &name))
		return ipc_open(guest, &name, pdptr);
	CUresult e = DRIVER(cuIpcOpenMemHandle_v2, (pdptr, handle, Flags));

	return e ? e : ipc_opened(guest, *pdptr, &handle);
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	GUEST_OR_PASS(cuIpcOpenMemHandle, (pdptr, handle, Flags));
	struct share_name name;

	if (guest->swappable && pdptr && importer_knows(&handle, &name))
		return ipc_open(guest, &name, pdptr);
	CUresult e = DRIVER(cuIpcOpenMemHandle, (pdptr, handle, Flags));

	return e ? e : ipc_opened(guest, *pdptr, &handle);
}

/*
 * Counted before the driver closes it: then the address may be another's at once. The last close is
 * a call of the device, so that no context ends in between, which would not find it.
 */
static CUresult ipc_close(struct guest *guest, CUdeviceptr dptr)
{
	struct opens less = {.add = -1}, more = {.add = 1};
	bool ours = object_change(guest->objects, OBJECT_IPC, dptr, false, ipc_count, &less);
	CUresult e = DRIVER(cuIpcCloseMemHandle, (dptr));

	if (!ours)
		return e;
	if (!e) {
		if (!less.after.refs)
			sharing_drop(guest, &less.after);
	} else if (less.after.refs) {
		object_change(guest->objects, OBJECT_IPC, dptr, false, ipc_count, &more);
	} else {
		less.after.refs = 1;
		object_put(guest->objects, &less.after);
	}
	return e;
}

/* The driver waits for work that may use the memory, and so do we. */
static CUresult ipc_close_backed(struct guest *guest, CUdeviceptr dptr)
{
	struct opens less = {.add = -1};
	struct object object;

	if (object_get(guest->objects, OBJECT_IPC, dptr, &object) && !capturing_any(guest))
		memory_await_work((CUcontext)(uintptr_t)object.context);
	if (!object_change(guest->objects, OBJECT_IPC, dptr, false, ipc_count, &less))
		return CUDA_ERROR_INVALID_VALUE;
	if (!less.after.refs)
		importer_close(guest, less.after.linear.import);
	return CUDA_SUCCESS;
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	GUEST_OR_PASS(cuIpcCloseMemHandle, (dptr));
	struct guest_device *device = NULL;
	struct object object;
	CUresult e;

	if (object_get(guest->objects, OBJECT_IPC, dptr, &object))
		device = guest_device(guest, object.device);
	if (guest->swappable && backing_device(guest, dptr))
		return ipc_close_backed(guest, dptr);
	if (!device)
		return ipc_close(guest, dptr);
	charge_release_begin(device);
	e = ipc_close(guest, dptr);
	charge_release_end(guest, device, CAT_IMPORTED, 0);
	/* Memory of an exporter that let go of it was in our figure, perhaps taken for code. */
	later_released(device);
	charge_stale(guest, device);
	return e;
}
