/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of devices by tenants since it was last written to the journal (node/journal.h). A line
 * is written when a tenant has ended, each hour, and when allotd stops. A tenant's ledger has sums
 * from its beginning on, and its last line in the journal how much of them is written: so a restart,
 * and an allotd that was killed, count nothing twice and forget nothing while the ledger is there.
 *
 * Figures of a user's ledger are bounded: a tenant was not busy on a device for longer than it lived,
 * and had no more memory than the device has, nor more power than any draws. Beyond ACCRUAL_OF_USER bytes of a user on one day, or
 * ACCRUAL_OF_ALL of all, a user's tenants are written together, as "*", in one line for each device
 * and hour. Of such tenants the journal does not know what is written, so another allotd counts what
 * they had once more, if they still live or are in the note of those that ended. A tenant of which
 * nothing is known counts from when it was seen: it lived before this allotd and has no line of two
 * days, could not be read at first, or is one apart.
 *
 * The caller gives both clocks. The clock of the day may jump: durations are by CLOCK_BOOTTIME, and
 * nothing is removed before an hour without a jump.
 */
#ifndef ALLOT_DAEMON_ACCRUAL_H
#define ALLOT_DAEMON_ACCRUAL_H

#include <stdint.h>

#include "node/devices.h"
#include "node/tenants.h"

/* 1,500 lines of some 170 bytes. Root's tenants, as those of Kubernetes, have the bound of all. */
#define ACCRUAL_OF_USER (UINT64_C(256) << 10)
/* With the lines for tenants together not more than 1.5 GB in 90 days. */
#define ACCRUAL_OF_ALL	(UINT64_C(8) << 20)
/* Of tenants apart; further ones are not counted. */
#define ACCRUAL_OF_APART (ACCRUAL_OF_ALL / 4)

struct accrual;

/* -ENOMEM. Both paths stay the caller's. */
int accrual_open(const char *runtime, const char *dir, struct accrual **ret);
/* Writes all that is not written, and frees it; takes NULL. */
void accrual_close(struct accrual *accrual);

/* Takes what living tenants have now, and those that ended since. The log says why a line cannot be written. */
void accrual_note(struct accrual *accrual, const struct tenants *tenants,
		  const struct devices *devices, int64_t now_s, uint64_t boot_ns);

#endif
