/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several processes hold, charged once a tenant. An object gets a key that exporter
 * and importer both can compute, and an entry under it in the tenant's table (ledger/shared.h).
 */
#ifndef ALLOT_GUEST_MEMORY_SHARING_H
#define ALLOT_GUEST_MEMORY_SHARING_H

#include "guest/account/charge.h"
#include "guest/lend/entry.h"
#include "guest/lend/stamp.h"

/*
 * This process exports `object`, whose bytes it is charged for as long as it holds them. Never
 * fails the export: without an entry (table full), an importer is charged a second time.
 */
void sharing_export(struct guest *guest, struct guest_device *device, struct shared_key key,
		    uint64_t bytes, struct object *object);

/*
 * This process imports it: joins at no charge or is charged. CUDA_ERROR_OUT_OF_MEMORY when the
 * quota does not allow it. Marks the object.
 */
CUresult sharing_import(struct guest *guest, struct guest_device *device, struct shared_key key,
			uint64_t bytes, struct object *object);

/* The same of what cannot be given back: charged beyond the quota, if it must be. */
void sharing_import_anyway(struct guest *guest, struct guest_device *device, struct shared_key key,
			   uint64_t bytes, struct object *object);

/*
 * Before the driver ends the last use that this process has of what it exported. With accounting by
 * the driver's figure others' use of it is charged from then on: right behind that call it is in no
 * figure any more.
 */
void sharing_begin_drop(struct guest *guest, const struct object *object);
/* After the driver let go of it: undoes any of these, the charge included. */
void sharing_drop(struct guest *guest, const struct object *object);

#endif
