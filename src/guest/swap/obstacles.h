/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a process that cannot leave the device: it is not backed by us. */
#ifndef ALLOT_GUEST_SWAP_OBSTACLES_H
#define ALLOT_GUEST_SWAP_OBSTACLES_H

#include "guest/core/guest.h"
#include "ledger/records.h"

/*
 * While the gate is shut. Has the driver take back what pools and graphs do not use, and answers the
 * first kind that is left, and how many there are of it or how many bytes; SWAP_FINE: none is. With
 * `contexts`, of what the driver's own checkpoint loses, refuses, or does not know.
 */
enum swap_why obstacles_find(struct guest *guest, bool contexts, uint64_t *ret_amount);

#endif
