/* SPDX-License-Identifier: Apache-2.0 */
/* Slots' interface for the rest of src/ledger. */
#ifndef ALLOT_LEDGER_SLOT_PRIV_H
#define ALLOT_LEDGER_SLOT_PRIV_H

#include "ledger/map.h"
#include "ledger/slot.h"

/* With the slot's lock held through `fd`: clears everything its last owner left. */
void slot_scrub(struct ledger *ledger, unsigned int index);
/* Scrubs every slot whose lock can be had. Answers how many needed it. */
int slot_reclaim_dead(struct ledger *ledger, int fd);
bool slot_alive_fd(struct ledger *ledger, int fd, int index);
void slot_done(struct slot *slot);

#endif
