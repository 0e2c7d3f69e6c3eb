/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/handle.h"

#include "base/fault.h"
#include "guest/core/exporter.h"
#include "guest/core/hook.h"
#include "guest/core/token.h"
#include "guest/memory/vmm.h"
#include "guest/movable/backing.h"
#include "guest/movable/importer.h"
#include "guest/movable/lent.h"

/* Memory for tiles of arrays cannot be mapped, so it cannot be copied. */
static bool handle_can_leave(const CUmemAllocationProp *prop)
{
	return !prop->allocFlags.usage && !prop->win32HandleMetaData;
}

CUresult handle_adopt(struct guest *guest, struct guest_device *device,
		      const CUmemAllocationProp *prop, struct object *handle)
{
	CUresult e;

	if (!handle_can_leave(prop))
		return CUDA_SUCCESS;
	e = backing_adopt(guest, device, prop, handle->size, handle->key, &handle->key);
	if (!e)
		handle->flags |= OBJECT_BACKED;
	return e;
}

void handle_abandon(struct guest *guest, uint64_t name, const struct object *handle)
{
	if (handle->flags & OBJECT_IMPORTED)
		importer_close(guest, handle->handle.import);
	else
		backing_abandon(guest, name);
}

uint64_t handle_mapped(struct guest *guest, CUdeviceptr at)
{
	uint64_t handle = vmm_handle_at(guest, at);

	return backing_device(guest, handle) ? handle : 0;
}

CUresult handle_export(struct guest *guest, CUmemGenericAllocationHandle handle, int *ret_fd)
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
static bool handle_join(struct object *handle, void *arg)
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

static CUresult handle_import_token(struct guest *guest, const struct share_name *name,
				    CUmemGenericAllocationHandle *ret)
{
	struct object object = {.kind = OBJECT_HANDLE, .category = CAT_IMPORTED, .refs = 1,
				.flags = OBJECT_IMPORTED | OBJECT_BACKED, .size = name->size};
	struct guest_device *device;
	CUdeviceptr at;
	CUresult e;

	if (exporter_is_own(guest, name)) {
		if (!exporter_knows(guest, name) || !vmm_retain(guest, name->object))
			return CUDA_ERROR_INVALID_VALUE;
		*ret = name->object;
		return CUDA_SUCCESS;
	}
	e = importer_open(guest, name, &object.handle.import, &at);
	if (e)
		return e;
	device = backing_device(guest, at);
	object.key = at;
	object.device = device ? (int16_t)device->ordinal : -1;
	object_change(guest->objects, OBJECT_HANDLE, at, true, handle_join, &object);
	if (!object.refs) /* the handle has one use of the piece already */
		importer_close(guest, object.handle.import);
	*ret = at;
	return CUDA_SUCCESS;
}

bool handle_import(struct guest *guest, int fd, CUmemGenericAllocationHandle *ret, CUresult *ret_e)
{
	struct share_name name;

	if (!token_read(fd, SHARE_MAGIC, &name))
		return false;
	*ret_e = handle_import_token(guest, &name, ret);
	return true;
}

/* One by one, as a handle may be ours: the list is the program's. */
CUresult handle_map_tiles(struct guest *guest, CUarrayMapInfo *list, unsigned int count,
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
