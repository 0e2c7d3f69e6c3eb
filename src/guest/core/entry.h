/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the tenant's table of shared memory (ledger/shared.h) that this process holds. Several
 * objects of the process may hold one entry: the process leaves it with the last of them.
 */
#ifndef ALLOT_GUEST_CORE_ENTRY_H
#define ALLOT_GUEST_CORE_ENTRY_H

#include <stddef.h>

#include "guest/core/guest.h"
#include "guest/core/object.h"

/* A key from the bytes that the driver gave the exporter and the importer alike. */
struct shared_key entry_key(const void *data, size_t len);

/* An entry that this process was added to has one object more. Marks the object. */
void entry_hold(struct guest *guest, struct shared_key key, struct object *object);

/* The entry has another key by now. Changes the object, which the caller puts back. */
void entry_rename(struct guest *guest, struct shared_key key, struct object *object);

/*
 * Undoes that, after the driver let go of the object. Nothing for an object that is not marked.
 * The object's own charge is the caller's to take back.
 */
void entry_leave(struct guest *guest, const struct object *object);

#endif
