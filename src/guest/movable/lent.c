/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/lent.h"

#include <errno.h>
#include <sys/random.h>

#include "guest/account/granule.h"
#include "guest/core/object.h"
#include "guest/lend/exporter.h"
#include "guest/memory/sharing.h"
#include "guest/movable/backing.h"

static bool lent_knows(struct guest *guest, const struct share_name *name)
{
	struct object export;

	return object_get(guest->objects, OBJECT_EXPORT, name->object, &export) &&
	       export.export.id == name->id;
}

/* The driver's reference of our own keeps it while the program may free it. */
static CUresult lent_export(CUdeviceptr at, int *ret_fd)
{
	CUmemGenericAllocationHandle handle;
	CUresult e = DRIVER(cuMemRetainAllocationHandle, (&handle, (void *)at));

	if (e)
		return e;
	e = DRIVER(cuMemExportToShareableHandle,
		   (ret_fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	DRIVER(cuMemRelease, (handle));
	return e;
}

static int lent_descriptor(struct guest *guest, const struct share_name *name, int *ret_fd)
{
	struct backing_piece piece;

	if (!backing_find(guest, name->object, &piece))
		return -ENOENT;
	if (!piece.resident)
		return -EAGAIN;
	return lent_export(name->object, ret_fd) ? -EIO : 0;
}

static const struct exporter_kind lent_kind = {
	.magic = SHARE_MAGIC,
	.knows = lent_knows,
	.descriptor = lent_descriptor,
};

/* Of two threads that name a piece at once the first one's name stays. */
static bool lent_settle(struct object *export, void *arg)
{
	struct object *ours = arg;

	if (!export->export.id)
		*export = *ours;
	else
		ours->export.id = export->export.id;
	return true;
}

static CUresult lent_make(struct guest *guest, struct share_name *name,
			  const struct backing_piece *piece)
{
	struct guest_device *device = backing_device(guest, piece->at);
	struct object export = {.kind = OBJECT_EXPORT, .key = piece->at,
				.device = (int16_t)device->ordinal, .size = piece->bytes};

	if (getrandom(&name->id, sizeof(name->id), 0) != (ssize_t)sizeof(name->id))
		return CUDA_ERROR_NOT_SUPPORTED;
	name->id |= 1;
	export.export.id = name->id;
	sharing_export(guest, device, share_key(name), piece->bytes, &export);
	object_change(guest->objects, OBJECT_EXPORT, piece->at, true, lent_settle, &export);
	if (export.export.id != name->id)
		entry_leave(guest, &export);
	name->id = export.export.id;
	return CUDA_SUCCESS;
}

CUresult lent_name(struct guest *guest, CUdeviceptr at, struct share_name *ret)
{
	struct backing_piece piece;
	struct object export;
	struct share_name name;
	CUresult e = CUDA_SUCCESS;

	if (!backing_find(guest, at, &piece) || piece.imported ||
	    !exporter_offer(guest, &lent_kind, &name))
		return CUDA_ERROR_NOT_SUPPORTED;
	name.object = piece.at;
	name.pages = (uint32_t)(piece.bytes / GRANULE_BYTES);
	if (object_get(guest->objects, OBJECT_EXPORT, piece.at, &export))
		name.id = export.export.id;
	else
		e = lent_make(guest, &name, &piece);
	if (!e)
		*ret = name;
	return e;
}
