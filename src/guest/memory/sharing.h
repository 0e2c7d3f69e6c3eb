/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several processes hold, charged once a tenant. An object gets a key that exporter
 * and importer both can compute, and an entry under it in the tenant's table (ledger/shared.h).
 */
#ifndef ALLOT_GUEST_MEMORY_SHARING_H
#define ALLOT_GUEST_MEMORY_SHARING_H

#include "guest/core/entry.h"
#include "guest/memory/charge.h"

/*
 * A descriptor has no such bytes: every one that the driver exports is the same device file. But
 * a descriptor that travelled still is the exporter's open file description, so the exporter writes
 * its pid and a number into the description's owner fields (F_SETOWN, F_SETSIG; without O_ASYNC
 * they mean nothing to the kernel), and the importer reads them. A number that is no signal is the
 * place of a lock that the description holds, which /proc tells of a descriptor. False: not
 * stamped.
 */
bool sharing_stamp(int fd, int number, struct shared_key *ret);
bool sharing_read(int fd, struct shared_key *ret);

/*
 * The numbers are 1 to 63, one for each object that this process exports now, and from 65 on, which
 * are used once. Stamps the descriptor with a number that is free, and under which nobody holds
 * anything any more: importers may outlive what this process, or an earlier one with its pid, has
 * exported. 0 when there is none.
 */
int sharing_stamp_new(struct guest *guest, int fd, struct shared_key *ret);
void sharing_number_drop(struct guest *guest, int number);

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

/* After the driver let go of it: undoes either, the charge included. */
void sharing_drop(struct guest *guest, const struct object *object);

#endif
