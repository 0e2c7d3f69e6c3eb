/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the tenant's table of shared memory (ledger/shared.h) that this process holds. Several
 * objects of the process may hold one entry: the process leaves it with the last of them.
 */
#ifndef ALLOT_GUEST_LEND_ENTRY_H
#define ALLOT_GUEST_LEND_ENTRY_H

#include <stddef.h>

#include "guest/core/guest.h"
#include "guest/core/object.h"

/* A key from the bytes that the driver gave the exporter and the importer alike. */
struct shared_key entry_key(const void *data, size_t len);

/*
 * The entry has one object more, which is marked. Before this process is added to it: of two
 * objects, one that comes must not find the process added while the other, the last so far, leaves.
 * entry_unhold where it could not be added.
 *
 *	entry_hold(guest, key, object);
 *	r = shared_add(...);
 *	if (r && r != -EEXIST)
 *		entry_unhold(guest, object);
 */
void entry_hold(struct guest *guest, struct shared_key key, struct object *object);
void entry_unhold(struct guest *guest, struct object *object);

/* The entry has another key by now. Changes the object, which the caller puts back. */
void entry_rename(struct guest *guest, struct shared_key key, struct object *object);

/*
 * Undoes that, after the driver let go of the object. Nothing for an object that is not marked.
 * The object's own charge is the caller's to take back.
 */
void entry_leave(struct guest *guest, const struct object *object);

#endif
