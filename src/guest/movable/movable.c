/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks of a swappable tenant come to: its table (memory/allocator.h). */
#include "guest/movable/movable.h"

#include <string.h>

#include "base/fault.h"
#include "guest/core/capturing.h"
#include "guest/core/hook.h"
#include "guest/lend/exporter.h"
#include "guest/lend/token.h"
#include "guest/memory/alloc.h"
#include "guest/memory/context_limits.h"
#include "guest/memory/graph.h"
#include "guest/memory/ipc.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/memory/vmm.h"
#include "guest/movable/backing.h"
#include "guest/movable/importer.h"
#include "guest/movable/lent.h"
#include "guest/movable/linear.h"
#include "guest/movable/own_alloc.h"
#include "guest/movable/own_pool.h"

/* --- Linear memory --------------------------------------------------------------------------- */

static bool movable_element_is_valid(unsigned int bytes)
{
	return bytes == 4 || bytes == 8 || bytes == 16;
}

static CUresult movable_alloc_pitched(struct guest *guest, struct guest_device *device,
				      CUdeviceptr *ret, size_t *ret_pitch, size_t width,
				      size_t height, unsigned int element)
{
	CUresult e;

	if (!movable_element_is_valid(element))
		return alloc_pitched(guest, device, ret, ret_pitch, width, height, element);
	e = linear_alloc(guest, device, alloc_pitched_bytes(width, height), ret);
	if (!e)
		*ret_pitch = round_up(width, PITCH_BYTES);
	return e;
}

static CUresult movable_free(struct guest *guest, CUdeviceptr at)
{
	struct object object;
	CUresult e;

	if (own_free(guest, at, &e))
		return e;
	if (!memory_take(guest, OBJECT_MEMORY, at, &object))
		return alloc_free(guest, at);
	return object.flags & OBJECT_BACKED ? linear_free_taken(guest, &object)
					    : alloc_free_taken(guest, &object);
}

/* In a capture it becomes a node, of a graph's memory; ours is none, and the driver says so. */
static CUresult movable_free_in_stream(struct guest *guest, CUdeviceptr at, CUstream stream,
				       CUstream order, free_async_fn *real)
{
	struct object object;
	CUresult e;

	if (capturing_stream(guest, order)) {
		guest_depth++;
		e = real(at, stream);
		guest_depth--;
		return e;
	}
	if (own_free_async(guest, at, order, &e))
		return e;
	if (!memory_take(guest, OBJECT_MEMORY, at, &object))
		return alloc_free_in_stream(guest, at, stream, order, real);
	if (!(object.flags & OBJECT_BACKED))
		return alloc_free_taken_in_stream(guest, &object, stream, order, real);
	memory_freed_in_stream(guest, &object, order, NULL);
	return CUDA_SUCCESS;
}

static void movable_show_spare(struct guest *guest, struct guest_device *device)
{
	CLEANUP(pass_leave) struct guest *pass = NULL;

	if (backing_has_spare(guest, device) && (pass = pass_try(guest)))
		linear_end_spare(guest, device);
}

/* --- Addresses and legacy IPC ---------------------------------------------------------------- */

/* Whether it is in one that another process has, and this one opened. */
static bool movable_find_opened(struct guest *guest, CUdeviceptr at, struct object *ret)
{
	struct object *opened;

	if (!object_count(guest->objects, OBJECT_IMPORT))
		return false;
	OBJECT_EACH (opened, guest->objects, OBJECT_IPC)
		if (opened->flags & OBJECT_BACKED && at - opened->key < opened->size) {
			*ret = *opened;
			return true;
		}
	return false;
}

static bool movable_find(struct guest *guest, CUdeviceptr at, struct object *ret)
{
	CUdeviceptr start = backing_start(guest, at);

	return (start && object_get(guest->objects, OBJECT_MEMORY, start, ret) &&
		at - start < ret->size) ||
	       own_pool_object(guest, at, ret) || movable_find_opened(guest, at, ret);
}

/* As the driver does, a handle of the whole allocation that has the address. */
static CUresult movable_ipc_name(struct guest *guest, CUdeviceptr dptr, CUipcMemHandle *ret)
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

static struct object movable_imported(struct guest *guest, enum object_kind kind, CUdeviceptr at,
				      const struct share_name *name)
{
	struct guest_device *device = backing_device(guest, at);

	return (struct object){.kind = (uint8_t)kind, .key = at, .category = CAT_IMPORTED,
			       .flags = OBJECT_IMPORTED | OBJECT_BACKED, .refs = 1,
			       .device = device ? (int16_t)device->ordinal : -1,
			       .size = name->size};
}

/* Every open of a piece counts once there, and every one of an address here. */
static CUresult movable_ipc_open_name(struct guest *guest, const struct share_name *name,
				      CUdeviceptr *ret)
{
	struct object object, again;
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
	object = movable_imported(guest, OBJECT_IPC, at, name);
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

static bool movable_ipc_open(struct guest *guest, const CUipcMemHandle *handle, CUdeviceptr *ret,
			     CUresult *ret_e)
{
	struct share_name name;

	if (!importer_knows(handle, &name))
		return false;
	*ret_e = movable_ipc_open_name(guest, &name, ret);
	return true;
}

/* The driver waits for work that may use the memory, and so do we. */
static CUresult movable_ipc_close(struct guest *guest, CUdeviceptr dptr)
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

/* --- Handles --------------------------------------------------------------------------------- */

/* Memory for tiles of arrays cannot be mapped, so it cannot be copied. */
static bool movable_can_leave(const CUmemAllocationProp *prop)
{
	return !prop->allocFlags.usage && !prop->win32HandleMetaData;
}

static CUresult movable_adopt(struct guest *guest, struct guest_device *device,
			      const CUmemAllocationProp *prop, struct object *handle)
{
	CUresult e;

	if (!movable_can_leave(prop))
		return CUDA_SUCCESS;
	e = backing_adopt(guest, device, prop, handle->size, handle->key, &handle->key);
	if (!e)
		handle->flags |= OBJECT_BACKED;
	return e;
}

static void movable_abandon(struct guest *guest, uint64_t name, const struct object *handle)
{
	if (handle->flags & OBJECT_IMPORTED)
		importer_close(guest, handle->handle.import);
	else
		backing_abandon(guest, name);
}

static uint64_t movable_mapped(struct guest *guest, CUdeviceptr at)
{
	uint64_t handle = vmm_handle_at(guest, at);

	return backing_device(guest, handle) ? handle : 0;
}

static CUresult movable_export(struct guest *guest, CUmemGenericAllocationHandle handle,
			       int *ret_fd)
{
	struct object object;
	struct share_name name;
	CUresult e;
	int fd;

	if (!object_get(guest->objects, OBJECT_HANDLE, handle, &object))
		return CUDA_ERROR_INVALID_VALUE;
	if (object.flags & OBJECT_IMPORTED) {
		if (!importer_name(guest, object.handle.import, &name))
			return CUDA_ERROR_INVALID_VALUE;
	} else {
		/* Its address is what the exporter finds it by. */
		e = backing_expose(guest, guest_device(guest, object.device), handle);
		if (!e)
			e = lent_name(guest, handle, &name);
		if (e)
			return e;
		name.size = object.size;
	}
	fd = token_make(&name, 0);
	FAULT_POINT(GUEST_EXPORTED);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

/* One that this process made, or imported before: a reference more. */
static bool movable_join(struct object *handle, void *arg)
{
	struct object *ours = arg;

	if (handle->refs || handle->handle.maps) {
		handle->refs++;
		ours->refs = 0;
	} else {
		*handle = *ours;
	}
	return true;
}

static CUresult movable_import_token(struct guest *guest, const struct share_name *name,
				     CUmemGenericAllocationHandle *ret)
{
	struct object object;
	CUdeviceptr at;
	uint64_t import;
	CUresult e;

	if (exporter_is_own(guest, name)) {
		if (!exporter_knows(guest, name) || !vmm_retain(guest, name->object))
			return CUDA_ERROR_INVALID_VALUE;
		*ret = name->object;
		return CUDA_SUCCESS;
	}
	e = importer_open(guest, name, &import, &at);
	if (e)
		return e;
	object = movable_imported(guest, OBJECT_HANDLE, at, name);
	object.handle.import = import;
	object_change(guest->objects, OBJECT_HANDLE, at, true, movable_join, &object);
	if (!object.refs) /* the handle has one use of the piece already */
		importer_close(guest, import);
	*ret = at;
	return CUDA_SUCCESS;
}

static bool movable_import(struct guest *guest, int fd, CUmemGenericAllocationHandle *ret,
			   CUresult *ret_e)
{
	struct share_name name;

	if (!token_read(fd, SHARE_MAGIC, &name))
		return false;
	*ret_e = movable_import_token(guest, &name, ret);
	return true;
}

/* One by one, as a handle may be ours: the list is the program's. */
static CUresult movable_map_tiles(struct guest *guest, CUarrayMapInfo *list, unsigned int count,
				  CUstream stream, map_array_fn *real)
{
	CUresult e = CUDA_SUCCESS;

	for (unsigned int i = 0; !e && i < count; i++) {
		CUarrayMapInfo one = list[i];

		one.memHandle.memHandle = backing_handle(guest, one.memHandle.memHandle);
		e = vmm_map_tiles(guest, &list[i], &one, 1, stream, real);
	}
	return e;
}

/* --- The table ------------------------------------------------------------------------------- */

static const struct holder *const movable_holders[] = {
	&memory_holder, &linear_holder,		&pool_holder, &own_pool_holder,
	&graph_holder,	&context_limits_holder, NULL};

static const struct allocator allocator_movable = {
	.alloc = linear_alloc,
	.alloc_pitched = movable_alloc_pitched,
	.free = movable_free,
	.free_in_stream = movable_free_in_stream,
	.alloc_from_pool = own_alloc,
	.pool_made = own_pool_made,
	.pool_ends = own_pool_ends,
	.pool_trim = own_pool_trim,
	.pool_set = own_pool_set,
	.pool_figure = own_pool_figure,
	.pool_set_access = own_pool_set_access,
	.holds = backing_device,
	.find = movable_find,
	.mark = backing_mark,
	.ipc_name = movable_ipc_name,
	.ipc_close = movable_ipc_close,
	.ipc_open = movable_ipc_open,
	.adopt = movable_adopt,
	.abandon = movable_abandon,
	.real_handle = backing_handle,
	.mapped_handle = movable_mapped,
	.export_handle = movable_export,
	.import_handle = movable_import,
	.map_tiles = movable_map_tiles,
	.end_spare = linear_end_spare,
	.show_spare = movable_show_spare,
	.frees = own_pools_number,
	.waited = own_pools_waited,
	.waited_context = own_pools_waited_context,
	.settle = own_pools_settle,
	.stream_ends = own_pools_stream_ends,
	.context_ended = own_pools_forget_context,
	.holders = movable_holders,
	.release = linear_release,
};

void movable_choose_allocator(struct guest *guest)
{
	guest->allocator = guest->swappable ? &allocator_movable : &allocator_driver;
	guest->holders = guest->allocator->holders;
}
