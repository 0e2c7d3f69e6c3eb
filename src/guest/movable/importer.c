/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/importer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/now.h"
#include "base/word.h"
#include "guest/lend/borrow.h"
#include "guest/lend/exporter.h"
#include "guest/memory/sharing.h"
#include "guest/movable/backing.h"
#include "ledger/slot.h"
#include "ledger/swap.h"


bool importer_knows(const void *bytes, struct share_name *ret)
{
	memcpy(ret, bytes, sizeof(*ret));
	return ret->magic == SHARE_MAGIC;
}

/* --- A descriptor from the exporter ---------------------------------------------------------- */

/* The driver's handle of the piece, and whose device it is on. */
static int importer_ask(const struct borrow_patience *patience, const struct share_name *name,
			CUmemGenericAllocationHandle *ret, struct guest_device **ret_device)
{
	CLEANUP_CLOSE int fd = -EBADF;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {0};
	struct guest_device *device = NULL;
	int r = borrow(patience, name, SHARE_DESCRIPTOR, &fd);

	if (r < 0)
		return r;
	if (DRIVER(cuMemImportFromShareableHandle,
		   (&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)))
		return borrow_lives(patience->guest, name) ? -EIO : -ESRCH;
	if (!DRIVER(cuMemGetAllocationPropertiesFromHandle, (&prop, handle)) &&
	    prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = guest_device(patience->guest, prop.location.id);
	if (!device) {
		DRIVER(cuMemRelease, (handle));
		return -EIO;
	}
	*ret = handle;
	*ret_device = device;
	return 0;
}

/* --- Pieces that are imported ---------------------------------------------------------------- */

static bool importer_join(struct object *import, void *arg)
{
	CUdeviceptr *at = arg;

	import->refs++;
	*at = import->import.at;
	return true;
}

/* Another thread may have imported the same meanwhile: then it is that one's. */
struct arrival {
	struct object ours;
	bool late;
};

static bool importer_arrive(struct object *import, void *arg)
{
	struct arrival *arrival = arg;

	arrival->late = import->refs;
	if (arrival->late) {
		import->refs++;
		arrival->ours.import.at = import->import.at;
	} else {
		*import = arrival->ours;
	}
	return true;
}

static CUresult importer_record(struct guest *guest, struct object *import, CUdeviceptr *ret_at)
{
	struct arrival arrival = {.ours = *import};
	bool there = object_change(guest->objects, OBJECT_IMPORT, import->key, true,
				   importer_arrive, &arrival);

	/* Answered also when it was new; then it is there now. */
	there = there || object_get(guest->objects, OBJECT_IMPORT, import->key, &arrival.ours);
	if (!there || arrival.late) {
		backing_abandon(guest, import->import.at);
		sharing_drop(guest, import);
	}
	*ret_at = arrival.ours.import.at;
	return there ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult importer_take(struct guest *guest, const struct share_name *name, uint64_t key,
			      CUdeviceptr *ret_at)
{
	const struct borrow_patience patience = {.guest = guest,
					  .until_ns = now_monotonic_ns() + BORROW_CALL_NS};
	uint64_t bytes = name->pages * GRANULE_BYTES;
	struct guest_device *user = guest_current_device(guest), *device;
	struct object import = {.kind = OBJECT_IMPORT, .key = key, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .refs = 1, .size = bytes};
	CUmemGenericAllocationHandle handle;
	CUresult e;

	if (importer_ask(&patience, name, &handle, &device))
		return CUDA_ERROR_INVALID_HANDLE;
	import.device = (int16_t)device->ordinal;
	import.import.process = name->process;
	import.import.object = name->object;
	import.import.id = name->id;
	import.import.slot = name->slot;
	import.import.generation = name->generation;
	e = sharing_import(guest, device, share_key(name), bytes, &import);
	if (!e) {
		e = backing_import(guest, device, bytes, user ? user->ordinal : device->ordinal,
				   handle, &import.import.at);
		if (e)
			sharing_drop(guest, &import);
	}
	if (e)
		DRIVER(cuMemRelease, (handle));
	return e ? e : importer_record(guest, &import, ret_at);
}

CUresult importer_open(struct guest *guest, const struct share_name *name, uint64_t *ret_key,
		       CUdeviceptr *ret_at)
{
	uint64_t key = share_key(name).word[0];
	CUresult e = CUDA_SUCCESS;

	if (!exporter_is_tenants(guest, name) || !name->pages || !name->id ||
	    name->offset >= name->pages * GRANULE_BYTES || !name->size ||
	    name->size > name->pages * GRANULE_BYTES - name->offset)
		return CUDA_ERROR_INVALID_HANDLE;
	if (exporter_is_own(guest, name))
		return CUDA_ERROR_INVALID_CONTEXT; /* as the driver answers */
	if (!object_change(guest->objects, OBJECT_IMPORT, key, false, importer_join, ret_at))
		e = importer_take(guest, name, key, ret_at);
	if (!e)
		*ret_key = key;
	return e;
}

static struct share_name importer_name_of(const struct object *import)
{
	return (struct share_name){
		.magic = SHARE_MAGIC,
		.process = import->import.process,
		.object = import->import.object,
		.id = import->import.id,
		.slot = import->import.slot,
		.generation = import->import.generation,
	};
}

bool importer_name(struct guest *guest, uint64_t key, struct share_name *ret)
{
	struct object import;

	if (!object_get(guest->objects, OBJECT_IMPORT, key, &import))
		return false;
	*ret = importer_name_of(&import);
	ret->tenant = exporter_tenant(guest);
	ret->size = import.size;
	ret->pages = (uint32_t)(import.size / GRANULE_BYTES);
	return true;
}

static bool importer_less(struct object *import, void *arg)
{
	struct object *after = arg;

	import->refs--;
	*after = *import;
	return import->refs;
}

void importer_close(struct guest *guest, uint64_t key)
{
	struct object after;

	if (!object_change(guest->objects, OBJECT_IMPORT, key, false, importer_less, &after) ||
	    after.refs)
		return;
	backing_abandon(guest, after.import.at);
	sharing_drop(guest, &after);
}

/* --- For who moves it ----------------------------------------------------------------------- */

bool importer_can_leave(struct guest *guest, const struct object *import)
{
	const struct share_name name = importer_name_of(import);

	return shared_covered(guest->ledger, import->shared) && borrow_lives(guest, &name);
}

static int importer_each(struct guest *guest,
			 int (*fn)(const struct borrow_patience *patience,
				   const struct object *import))
{
	const struct borrow_patience patience = {.guest = guest, .until_ns = UINT64_MAX,
					  .request = word_acquire(swap_request(guest->policy_map))};
	struct object *import;
	int r;

	OBJECT_EACH (import, guest->objects, OBJECT_IMPORT) {
		r = fn(&patience, import);
		if (r)
			return r;
	}
	return 0;
}

static int importer_await_copy(const struct borrow_patience *patience, const struct object *import)
{
	const struct share_name name = importer_name_of(import);

	return borrow(patience, &name, SHARE_COPIED, NULL);
}

bool importer_any(struct guest *guest)
{
	struct object import;

	return object_list(guest->objects, OBJECT_IMPORT, 0, &import, 1) > 0;
}

int importer_await_copies(struct guest *guest)
{
	return importer_each(guest, importer_await_copy);
}

static int importer_detach_one(const struct borrow_patience *patience, const struct object *import)
{
	struct backing_piece piece;

	if (backing_find(patience->guest, import->import.at, &piece) && piece.resident)
		backing_detach(patience->guest,
			       guest_device(patience->guest, import->device), piece.at);
	return 0;
}

void importer_detach(struct guest *guest)
{
	importer_each(guest, importer_detach_one);
}

static int importer_attach_one(const struct borrow_patience *patience, const struct object *import)
{
	const struct share_name name = importer_name_of(import);
	struct guest *guest = patience->guest;
	CUmemGenericAllocationHandle handle;
	struct guest_device *device;
	struct backing_piece piece;
	int r;

	if (!backing_find(guest, import->import.at, &piece))
		return -EIO;
	r = importer_ask(patience, &name, &handle, &device);
	/* It was kept until it is known who has it. Nobody has, and nobody ran since: it is that. */
	if (r == -ESRCH && piece.resident)
		return 0;
	if (r < 0)
		return r;
	/* The exporter may have other memory by now. */
	if (piece.resident &&
	    backing_detach(guest, guest_device(guest, import->device), piece.at)) {
		DRIVER(cuMemRelease, (handle));
		return -EIO;
	}
	if (device->ordinal == import->device &&
	    !backing_attach_import(guest, import->import.at, handle))
		return 0;
	DRIVER(cuMemRelease, (handle));
	return -EIO;
}

int importer_attach(struct guest *guest)
{
	return importer_each(guest, importer_attach_one);
}
