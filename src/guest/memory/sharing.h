/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several processes hold, charged once a tenant. An object gets a key that exporter
 * and importer both can compute, and an entry under it in the tenant's table (ledger/shared.h).
 */
#ifndef ALLOT_GUEST_MEMORY_SHARING_H
#define ALLOT_GUEST_MEMORY_SHARING_H

#include "guest/account/charge.h"
#include "guest/lend/entry.h"

/*
 * A descriptor has no such bytes: every one that the driver exports is the same device file. But a
 * descriptor that travelled still is the exporter's open file description. The exporter stamps that
 * with a lock that many may hold, and the importer reads the lock in /proc. The lock goes with the
 * last descriptor. It tells the exporter's pid, a random number that the exporter drew once, and the
 * object's number, so a later process with the same pid has other stamps. False: not stamped. Then
 * each importer is charged alone. sharing_stamp_as puts the stamp that an importer has read
 * (`ret_stamp`, or NULL) on a descriptor that it exports itself; false if that is all zero.
 */
bool sharing_stamp(struct guest *guest, int fd, uint32_t number, struct shared_key *ret);
bool sharing_stamp_as(int fd, const struct stamp *stamp);
bool sharing_read(int fd, struct stamp *ret_stamp, struct shared_key *ret);

/*
 * A number for an object, the same for all of its descriptors. No other object of the process ever
 * gets it: a descriptor may be on its way for as long as its receiver likes, and importers may
 * outlive the object. 0: there are no more.
 */
uint32_t sharing_number(struct guest *guest);

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
