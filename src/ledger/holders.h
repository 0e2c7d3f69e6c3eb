/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that hold shared objects, as everything below shared.c asks for them: admission
 * adds up the bytes that they are charged with, and a slot that is cleared holds none. No lock.
 */
#ifndef ALLOT_LEDGER_HOLDERS_H
#define ALLOT_LEDGER_HOLDERS_H

#include "ledger/map.h"

bool holders_has(const struct ledger_shared *entry, unsigned int index);

/* `alive` masks the holders; NULL is everybody. `except` is left out, -1 nobody. */
bool holders_any(const struct ledger_shared *entry, const uint64_t *alive, int except);

/* The owner's row still carries the bytes: it lives (or is not reclaimed yet) and holds. */
bool holders_covered(struct ledger *ledger, const struct ledger_shared *entry,
		     const uint64_t *alive);

/* Of a covered entry: the bytes that the owner's row carries no more. At most all. */
uint64_t holders_shed(const struct ledger_shared *entry);

/*
 * The part of shared_used that an admission adds up; `alive` NULL counts every holder. `each`, if
 * not NULL, has LEDGER_SLOTS words, and the charge of an object is added to the word of the process
 * that is charged.
 */
uint64_t holders_sum(struct ledger *ledger, int device, const uint64_t *alive, uint64_t *each);

/* Clears a holder's bit wherever it is set. */
void holders_forget(struct ledger *ledger, unsigned int index);

#endif
