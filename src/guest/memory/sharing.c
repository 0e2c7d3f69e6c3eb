/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/sharing.h"

#include <errno.h>

void sharing_export(struct guest *guest, struct guest_device *device, struct shared_key key,
		    uint64_t bytes, struct object *object)
{
	entry_hold(guest, key, object);
	if (shared_add(guest_slot(guest), key, device->ledger, bytes, CAT_IMPORTED,
		       SHARED_COVERED, charge_limit(guest, device)))
		entry_unhold(guest, object);
}

static int sharing_add(struct guest *guest, struct guest_device *device, struct shared_key key,
		       uint64_t bytes, uint64_t limit)
{
	return shared_add(guest_slot(guest), key, device->ledger, bytes, CAT_IMPORTED, 0, limit);
}

static int sharing_add_by_ledger(struct guest *guest, struct guest_device *device,
				 struct shared_key key, uint64_t bytes)
{
	int r = sharing_add(guest, device, key, bytes, charge_limit(guest, device));

	if (r != -EDQUOT)
		return r;
	charge_begin_again(guest, device);
	charge_await_others(guest);
	r = sharing_add(guest, device, key, bytes, charge_limit(guest, device));
	charge_end_again(guest);
	if (r == -EDQUOT)
		quota_count_refusal(guest_slot(guest), device->ledger);
	return r;
}

/*
 * With accounting by the driver's figure: an entry that is there is joined at no charge, and a new one
 * is admitted by that figure. Memory by legacy IPC needs no entry: the exporter's figure has it, and
 * an importer's when the exporter has let go of it (-ECHILD). External memory has one while it is
 * imported, and from when its handle is destroyed (external.h).
 */
static int sharing_add_by_driver(struct guest *guest, struct guest_device *device,
				 struct shared_key key, uint64_t bytes, bool inherits)
{
	struct charge charge;
	int r;

	if (inherits && shared_covered(guest->ledger, key))
		return -ECHILD;
	r = sharing_add(guest, device, key, bytes, 0);
	if (r != -EDQUOT)
		return r;
	if (charge_reserve(guest, device, bytes, &charge))
		return -EDQUOT;
	r = sharing_add(guest, device, key, bytes, UINT64_MAX);
	charge_cancel(&charge);
	return r;
}

CUresult sharing_import(struct guest *guest, struct guest_device *device, struct shared_key key,
			uint64_t bytes, struct object *object)
{
	struct charge charge;
	int r;

	entry_hold(guest, key, object);
	r = guest_by_driver(guest) ? sharing_add_by_driver(guest, device, key, bytes,
							   object->kind == OBJECT_IPC)
				   : sharing_add_by_ledger(guest, device, key, bytes);
	if (!r || r == -EEXIST)
		return CUDA_SUCCESS;
	entry_unhold(guest, object);
	if (r == -ECHILD)
		return CUDA_SUCCESS;
	/* No entry to be had: charged to this process alone. */
	if (r == -EDQUOT || charge_reserve(guest, device, bytes, &charge))
		return CUDA_ERROR_OUT_OF_MEMORY;
	charge_commit(&charge, CAT_IMPORTED, bytes);
	object->bytes = bytes;
	return CUDA_SUCCESS;
}

void sharing_begin_drop(struct guest *guest, const struct object *object)
{
	if (guest_by_driver(guest) && object->flags & OBJECT_SHARED)
		shared_uncover(guest_slot(guest), object->shared);
}

void sharing_import_anyway(struct guest *guest, struct guest_device *device, struct shared_key key,
			   uint64_t bytes, struct object *object)
{
	int r;

	entry_hold(guest, key, object);
	r = sharing_add(guest, device, key, bytes, UINT64_MAX);
	if (!r || r == -EEXIST)
		return;
	entry_unhold(guest, object);
	quota_charge(guest_slot(guest), device->ledger, CAT_IMPORTED, bytes);
	object->bytes = bytes;
}

void sharing_drop(struct guest *guest, const struct object *object)
{
	struct guest_device *device = guest_device(guest, object->device);

	entry_leave(guest, object);
	if (!device)
		return;
	charge_release_begin(device);
	charge_release_end(guest, device, object->category, object->bytes);
}
