/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's compute units of an AMD GPU, as its processes find them in the tenant's ledger, and
 * which of its processes have queues there. A process of any tenant writes the units of all tenants
 * at once, under a lock of the runtime directory (guest/amd/queue/allotment.h). A grant is whole or
 * does not exist: a killed writer leaves a sum that does not fit, and the next one writes it again.
 */
#ifndef ALLOT_LEDGER_CU_GRANT_H
#define ALLOT_LEDGER_CU_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/records.h"

struct ledger;
struct slot;

/* -ENODATA if there is none. The answer is not checked: it may be any bytes. */
int cu_grant_read(const struct device_time *time, struct cu_grant *ret);

/* For the holder of the lock. */
void cu_grant_write(struct device_time *time, const struct cu_grant *grant);

/* Notes how many queues this process has on the device; a dead process has none. */
void cu_grant_set_queues(struct slot *slot, int device, uint32_t n);

/* True if a living process of the tenant has queues on the device of that index. */
bool cu_grant_in_use(struct ledger *ledger, int device);

/*
 * The index of a device for which a living process of the tenant has queues; -ENODEV: none has, or
 * it does not know the device. Of a ledger that was opened with LEDGER_GUEST.
 */
int cu_grant_wanted(struct ledger *ledger, const uint8_t uuid[16]);

#endif
