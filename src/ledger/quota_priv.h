/* SPDX-License-Identifier: Apache-2.0 */
/* Admission's part for the table of shared objects. */
#ifndef ALLOT_LEDGER_QUOTA_PRIV_H
#define ALLOT_LEDGER_QUOTA_PRIV_H

#include "ledger/quota.h"

/* The second try, with the tenant's lock or without: publish, check, wait for siblings to settle. */
int quota_settle(struct slot *slot, int device, uint64_t bytes, uint64_t limit);

#endif
