/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that several processes of a tenant hold: handles passed as descriptors, legacy
 * IPC, imported pools. It is charged once, to the tenant, while any live process holds it; no row
 * contains it. A holder that dies is forgotten when its slot is reclaimed.
 *
 * The exporter already carries the bytes in its own row. It adds its object as SHARED_COVERED:
 * charged to nobody while the exporter lives and holds it, and to the remaining holders from then
 * on.
 */
#ifndef ALLOT_LEDGER_SHARED_H
#define ALLOT_LEDGER_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/records.h"

struct ledger;
struct slot;

struct shared_key {
	uint64_t word[2];
};

/*
 * Makes this process a holder of the object `key`; call before the driver's import (where the size
 * is known by then), and shared_drop if that fails. An object that someone holds is joined at no
 * charge (device, bytes and category then stay as the first holder said). Otherwise the bytes must
 * fit into `limit`: -EDQUOT. Not counted as a refusal, so that the caller can trim and try again.
 * -ENOSPC: table full. -EEXIST: this process holds it already. Or an error of quota_lock: adding
 * needs the tenant's lock.
 */
int shared_add(struct slot *slot, struct shared_key key, int device, uint64_t bytes,
	       enum category category, unsigned int flags, uint64_t limit);

/*
 * This process holds it no longer. After the driver released it; an exporter calls it before its
 * quota_release, so that the bytes are at no time uncounted. Needs no lock, cannot fail but by
 * -ENOENT (not a holder).
 */
int shared_drop(struct slot *slot, struct shared_key key);

/*
 * The owner's own row carries the bytes no more, but the owner still holds the object: charged to
 * it like to any holder. Before its quota_release. Nothing happens where the caller is no owner.
 */
void shared_uncover(struct slot *slot, struct shared_key key);

/*
 * For an object whose owner's row carries less and less of it, and which grows: a pool. Other
 * holders may keep memory of it that the owner has released, and nobody knows how much. So `bytes`
 * is the most that they can have, and the entry is charged with the bytes that left the row while
 * they held it:
 *
 *	row	64 of 64 ── releases 32 ────────────── releases 32, or dies
 *	entry	 0 of 64 ──────────────── 32 of 64 ── 64 of 64
 *
 * While only the owner holds the object, nothing is charged, and a later holder can have only what
 * the row still carries.
 *
 * shared_raise: the owner gives others access to `part` more, of `most` that its row carries. To be
 * called before they can have it. -ENOENT: the caller is not the owner. Errors of quota_lock.
 *
 * shared_shed: the owner's row is about to lose `fallen`, and `rest` is left. To be called after
 * the driver released it, before its quota_release.
 *
 * shared_join: as shared_add, of an object that another process holds. -ENOENT if none does, or if
 * the caller is the owner.
 */
int shared_raise(struct slot *slot, struct shared_key key, uint64_t part, uint64_t most);
void shared_shed(struct slot *slot, struct shared_key key, uint64_t fallen, uint64_t rest);
int shared_join(struct slot *slot, struct shared_key key);

/*
 * For keys that name nothing any more, since their objects were made again. Each gets another key
 * that names nothing else; once a holder knows the object's new key, the entry gets that. 0 also if
 * another holder has done so before. -ENOENT: this process does not hold it. Errors of quota_lock.
 */
struct shared_key shared_aged(struct shared_key key);
int shared_rename(struct slot *slot, struct shared_key from, struct shared_key to);

/* Does any process, live or not yet reclaimed, hold an object of this name? */
bool shared_known(struct ledger *ledger, struct shared_key key);
/* The device that it is charged on, or ledger_host's answer; -1: no such object. */
int shared_device(struct ledger *ledger, struct shared_key key);
/* Its size; 0: no such object. */
uint64_t shared_bytes(struct ledger *ledger, struct shared_key key);
/* Is it carried by its owner's row, so that it is in the driver's figure of the owner too? */
bool shared_covered(struct ledger *ledger, struct shared_key key);

/* Is this process the only one that holds it? A dead one counts until its slot is cleared. */
bool shared_is_alone(struct slot *slot, struct shared_key key);

/* A bit for each slot. */
struct shared_slots {
	uint64_t word[16];
};

/* Asks the kernel which slots are alive. Returns none if nothing is shared. */
void shared_find_alive(struct ledger *ledger, struct shared_slots *ret);

/* Bytes charged for the objects of a device that these slots hold; NULL: objects of any slot. */
uint64_t shared_used(struct ledger *ledger, int device, const struct shared_slots *alive);

/* Bytes of the objects that one process holds, whichever process is charged for them. */
uint64_t shared_held(struct ledger *ledger, int slot_index, int device);
/* The same, but for those that its own row carries. */
uint64_t shared_joined(struct ledger *ledger, int slot_index, int device);

/*
 * True if a living process has another one's memory. When that moves, none continues before all are
 * back: otherwise a process that waits for a stopped one would lose writes of a third one to its
 * memory.
 */
bool shared_joins(struct ledger *ledger);

#endif
