/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/shown.h"

#include <string.h>

#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/memory/ipc.h"
#include "guest/memory/memory.h"
#include "guest/movable/backing.h"
#include "guest/movable/importer.h"
#include "guest/movable/lent.h"
#include "guest/movable/own_pool.h"

/* Whether it is in one that another process has, and this one opened. */
static bool shown_find_opened(struct guest *guest, CUdeviceptr at, struct object *ret)
{
	struct object opened[OBJECT_BATCH];
	uint64_t above = 0;
	int n;

	if (!object_count(guest->objects, OBJECT_IMPORT))
		return false;
	do {
		n = object_list(guest->objects, OBJECT_IPC, above, opened, OBJECT_BATCH);
		for (int i = 0; i < n; i++) {
			above = opened[i].key;
			if (opened[i].flags & OBJECT_BACKED &&
			    at - opened[i].key < opened[i].size) {
				*ret = opened[i];
				return true;
			}
		}
	} while (n == OBJECT_BATCH);
	return false;
}

bool shown_find(struct guest *guest, CUdeviceptr at, struct object *ret)
{
	CUdeviceptr start = backing_start(guest, at);

	return (start && object_get(guest->objects, OBJECT_MEMORY, start, ret) &&
		at - start < ret->size) ||
	       own_pool_object(guest, at, ret) || shown_find_opened(guest, at, ret);
}

/* As the driver does, a handle of the whole allocation that has the address. */
CUresult shown_name(struct guest *guest, CUdeviceptr dptr, CUipcMemHandle *ret)
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

/* Every open of a piece counts once there, and every one of an address here. */
static CUresult shown_open_name(struct guest *guest, const struct share_name *name,
				CUdeviceptr *ret)
{
	struct object object = {.kind = OBJECT_IPC, .category = CAT_IMPORTED, .refs = 1,
				.flags = OBJECT_IMPORTED | OBJECT_BACKED, .size = name->size};
	struct guest_device *device;
	struct object again;
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
	if (ipc_count(guest, at, 1, &again)) {
		importer_close(guest, import);
	} else if (object_put(guest->objects, &object)) {
		importer_close(guest, import);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = at;
	return CUDA_SUCCESS;
}

bool shown_open(struct guest *guest, const CUipcMemHandle *handle, CUdeviceptr *ret,
		CUresult *ret_e)
{
	struct share_name name;

	if (!importer_knows(handle, &name))
		return false;
	*ret_e = shown_open_name(guest, &name, ret);
	return true;
}

/* The driver waits for work that may use the memory, and so do we. */
CUresult shown_close(struct guest *guest, CUdeviceptr dptr)
{
	struct object object, less;

	if (object_get(guest->objects, OBJECT_IPC, dptr, &object) && !capturing_any(guest))
		memory_await_work((CUcontext)(uintptr_t)object.context);
	if (!ipc_count(guest, dptr, -1, &less))
		return CUDA_ERROR_INVALID_VALUE;
	if (!less.refs)
		importer_close(guest, less.linear.import);
	return CUDA_SUCCESS;
}
