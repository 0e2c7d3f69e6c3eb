/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/external.h"

#include <errno.h>

#include "guest/core/hook.h"
#include "guest/memory/sharing.h"
#include "guest/memory/state.h"

static struct shared_key external_key(struct guest *guest, uint64_t number,
				      const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct shared_key key;

	if (desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
	    stamp_read(desc->handle.fd, NULL, &key))
		return key;
	/* A key that nobody else has. */
	return entry_key((uint64_t[2]){KEY(guest), number}, 16);
}

CUresult external_import(struct guest *guest, struct guest_device *device,
			 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, struct object *ret_view)
{
	uint64_t number = 1 + atomic_fetch_add(&guest->memory->imports, 1), known;
	struct shared_key key = external_key(guest, number, desc);
	struct object import = {.kind = OBJECT_EXTERNAL, .key = number, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .device = (int16_t)device->ordinal,
				.refs = 1, .size = desc->size, .shared = key};
	CUcontext context = NULL;
	CUresult e;

	/* The program may say less than there is. */
	known = shared_bytes(guest->ledger, key);
	if (import.size < known)
		import.size = known;
	e = sharing_import(guest, device, key, round_up(import.size, GRANULE_BYTES), &import);
	if (e)
		return e;
	charge_release_begin(device);
	if (object_put(guest->objects, &import)) {
		sharing_drop(guest, &import);
		charge_release_end(guest, device, CAT_IMPORTED, 0);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	DRIVER(cuCtxGetCurrent, (&context));
	*ret_view = (struct object){.kind = OBJECT_VIEW, .category = CAT_IMPORTED,
				    .device = import.device, .size = import.size,
				    .view = {.import = number, .context = KEY(context)}};
	return CUDA_SUCCESS;
}

static bool external_take_entry(struct object *import, void *arg)
{
	*(struct object *)arg = *import;
	import->flags &= (uint16_t)~OBJECT_SHARED;
	import->bytes = 0;
	return true;
}

void external_imported(struct guest *guest, const struct object *view)
{
	struct object import = {.kind = OBJECT_NONE};

	if (!guest_by_driver(guest))
		return;
	object_change(guest->objects, OBJECT_EXTERNAL, view->view.import, false,
		      external_take_entry, &import);
	if (import.kind != OBJECT_NONE)
		sharing_drop(guest, &import);
}

static bool external_give_entry(struct object *import, void *arg)
{
	const struct object *as = arg;

	import->flags |= as->flags & OBJECT_SHARED;
	import->bytes = as->bytes;
	return true;
}

void external_destroy(struct guest *guest, const struct object *view)
{
	struct guest_device *device = guest_device(guest, view->device);
	struct object import;

	if (!guest_by_driver(guest) ||
	    !object_get(guest->objects, OBJECT_EXTERNAL, view->view.import, &import) ||
	    import.refs == 1)
		return;
	sharing_import_anyway(guest, device, import.shared, round_up(import.size, GRANULE_BYTES),
			      &import);
	object_change(guest->objects, OBJECT_EXTERNAL, import.key, false, external_give_entry,
		      &import);
}

struct views {
	int add, part;
	struct object after;
};

static bool external_count(struct object *import, void *arg)
{
	struct views *views = arg;

	import->refs += (uint32_t)views->add;
	import->external.parting += (uint32_t)views->part;
	views->after = *import;
	return import->refs;
}

static bool external_add(struct guest *guest, uint64_t number, struct views *views)
{
	return object_change(guest->objects, OBJECT_EXTERNAL, number, false, external_count, views);
}

CUresult external_import_pool(struct guest *guest, CUmemoryPool pool, struct shared_key key)
{
	struct guest_device *device = guest_current_device(guest);
	struct object import = {.kind = OBJECT_EXTERNAL, .category = CAT_IMPORTED,
				.flags = OBJECT_IMPORTED, .refs = 1, .shared = key,
				.key = 1 + atomic_fetch_add(&guest->memory->imports, 1)};
	struct object view = {.kind = OBJECT_VIEW, .key = KEY(pool), .category = CAT_IMPORTED,
			      .view.import = import.key};

	/* Only a call of some device: the entries of its pointers know the right one. */
	if (device)
		view.device = import.device = (int16_t)device->ordinal;
	if (object_put(guest->objects, &import))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (external_record(guest, &view))
		return CUDA_SUCCESS;
	external_leave(guest, &view);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

bool external_map(struct guest *guest, uint64_t key, struct object *ret_view)
{
	struct views one = {.add = 1};
	struct object view;

	if (!object_get(guest->objects, OBJECT_VIEW, key, &view) ||
	    !external_add(guest, view.view.import, &one))
		return false;
	/* A mapping goes with the context. */
	view.context = view.view.context;
	*ret_view = view;
	return true;
}

static bool external_mark_joined(struct object *import, void *arg)
{
	bool *first = arg;

	*first = !(import->flags & OBJECT_SHARED);
	import->flags |= OBJECT_SHARED;
	return true;
}

bool external_join(struct guest *guest, const struct object *view)
{
	struct object import;
	bool first = false;
	int r;

	if (!object_get(guest->objects, OBJECT_EXTERNAL, view->view.import, &import))
		return false;
	if (import.flags & OBJECT_SHARED)
		return true;
	if (!import.shared.word[0])
		return false;
	entry_hold(guest, import.shared, &import);
	r = shared_join(guest->claimed, import.shared);
	if (r && r != -EEXIST) {
		entry_unhold(guest, &import);
		return false;
	}
	object_change(guest->objects, OBJECT_EXTERNAL, import.key, false, external_mark_joined,
		      &first);
	if (!first)
		entry_leave(guest, &import); /* another thread has joined for the import */
	return true;
}

CUresult external_borrow(struct guest *guest, const struct object *view, CUdeviceptr at,
			 const CUmemPoolPtrExportData *data)
{
	struct object loan = {.kind = OBJECT_LOAN, .category = CAT_IMPORTED,
			      .flags = OBJECT_IMPORTED, .loan.import = view->view.import};
	struct shared_key key = entry_key(data, sizeof(*data));
	struct guest_device *device;
	CUdevice ordinal = -1;
	CUdeviceptr base;
	size_t size = 0;
	CUresult e;

	loan.key = key.word[0] ^ view->view.import;
	DRIVER(cuPointerGetAttribute, (&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
	DRIVER(cuMemGetAddressRange_v2, (&base, &size, at));
	device = guest_device(guest, ordinal);
	if (!device || object_get(guest->objects, OBJECT_LOAN, loan.key, &loan))
		return CUDA_SUCCESS;
	loan.device = (int16_t)device->ordinal;
	e = sharing_import(guest, device, key, round_up(size, POOL_BYTES), &loan);
	if (e)
		sharing_import_anyway(guest, device, key, round_up(size, POOL_BYTES), &loan);
	/* Another thread may have the same pointer. Without room for a record the charge stays. */
	if (object_add(guest->objects, &loan) == -EEXIST)
		sharing_drop(guest, &loan);
	return e;
}

bool external_record(struct guest *guest, const struct object *view)
{
	struct guest_device *device = guest_device(guest, view->device);
	struct object stale;

	if (object_exchange(guest->objects, view, &stale))
		return false;
	/* That one went without its record: what was given now is the one that there is. */
	if (stale.kind != OBJECT_NONE) {
		charge_release_begin(device);
		charge_release_end(guest, device, CAT_IMPORTED, external_leave(guest, &stale));
	}
	return true;
}

static bool external_is_lent(const struct object *object, void *arg)
{
	return object->kind == OBJECT_LOAN && object->loan.import == *(const uint64_t *)arg;
}

static void external_return_loans(struct guest *guest, uint64_t import)
{
	struct object *loan;

	if (!object_count(guest->objects, OBJECT_LOAN))
		return;
	OBJECT_SWEEP (loan, guest->objects, external_is_lent, &import)
		sharing_drop(guest, loan);
}

static bool external_mark_ended(struct object *import, void *arg)
{
	import->flags |= OBJECT_ENDED;
	return true;
}

void external_destroyed(struct guest *guest, const struct object *view)
{
	object_change(guest->objects, OBJECT_EXTERNAL, view->view.import, false,
		      external_mark_ended, NULL);
}

void external_part(struct guest *guest, const struct object *view)
{
	external_add(guest, view->view.import, &(struct views){.part = 1});
}

void external_stay(struct guest *guest, const struct object *view)
{
	external_add(guest, view->view.import, &(struct views){.part = -1});
}

bool external_is_parting(struct guest *guest, const struct object *view)
{
	struct object import;

	return object_get(guest->objects, OBJECT_EXTERNAL, view->view.import, &import) &&
	       import.external.parting && import.refs == import.external.parting + 1;
}

uint64_t external_leave(struct guest *guest, const struct object *view)
{
	struct views less = {.add = -1, .part = view->kind == OBJECT_PARTING ? -1 : 0};

	if (!external_add(guest, view->view.import, &less) || less.after.refs)
		return 0;
	external_return_loans(guest, less.after.key);
	entry_leave(guest, &less.after);
	return less.after.bytes;
}
