/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process, by legacy IPC handles. The driver has no such handles of memory that
 * can leave, so these are ours (movable/movable.c); others are the driver's in a swappable tenant, too.
 */
#include "guest/memory/ipc.h"

#include "guest/account/later.h"
#include "guest/core/hook.h"
#include "guest/memory/allocator.h"
#include "guest/memory/sharing.h"

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
	if (guest->allocator->holds(guest, dptr))
		return guest->allocator->ipc_name(guest, dptr, pHandle);
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

struct opens {
	int add;
	struct object *after;
};

static bool ipc_add(struct object *ipc, void *arg)
{
	const struct opens *opens = arg;

	ipc->refs += (uint32_t)opens->add;
	*opens->after = *ipc;
	return ipc->refs;
}

bool ipc_count(struct guest *guest, CUdeviceptr at, int add, struct object *ret)
{
	struct opens opens = {add, ret};

	return object_change(guest->objects, OBJECT_IPC, at, false, ipc_add, &opens);
}

/* The size is known once it is open; opening takes nothing from the device. */
static CUresult ipc_opened(struct guest *guest, CUdeviceptr address, const CUipcMemHandle *handle)
{
	struct guest_device *device = guest_current_device(guest);
	struct object object = {.kind = OBJECT_IPC, .key = address, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .refs = 1};
	CUcontext context = NULL;
	struct object again;
	CUdeviceptr base;
	size_t size = 0;
	CUresult e;

	if (!device || ipc_count(guest, address, 1, &again))
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

#define OPEN(name)                                                                                 \
	CUresult hook_##name(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)        \
	{                                                                                          \
		GUEST_OR_PASS(name, (pdptr, handle, Flags));                                       \
		CUresult e;                                                                        \
                                                                                                   \
		if (pdptr && guest->allocator->ipc_open(guest, &handle, pdptr, &e))                \
			return e;                                                                  \
		e = DRIVER(name, (pdptr, handle, Flags));                                          \
		return e ? e : ipc_opened(guest, *pdptr, &handle);                                 \
	}
OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

/*
 * Counted before the driver closes it: then the address may be another's at once. The last close is
 * a call of the device, so that no context ends in between, which would not find it.
 */
static CUresult ipc_close(struct guest *guest, CUdeviceptr dptr)
{
	struct object less, more;
	bool ours = ipc_count(guest, dptr, -1, &less);
	CUresult e = DRIVER(cuIpcCloseMemHandle, (dptr));

	if (!ours)
		return e;
	if (!e) {
		if (!less.refs)
			sharing_drop(guest, &less);
	} else if (less.refs) {
		ipc_count(guest, dptr, 1, &more);
	} else {
		less.refs = 1;
		object_put(guest->objects, &less);
	}
	return e;
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	GUEST_OR_PASS(cuIpcCloseMemHandle, (dptr));
	struct guest_device *device = NULL;
	struct object object;
	CUresult e;

	if (object_get(guest->objects, OBJECT_IPC, dptr, &object))
		device = guest_device(guest, object.device);
	if (guest->allocator->holds(guest, dptr))
		return guest->allocator->ipc_close(guest, dptr);
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
