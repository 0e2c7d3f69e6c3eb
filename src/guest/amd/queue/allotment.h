/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which units of an AMD GPU each tenant of the machine has: decided for all tenants of the runtime
 * directory at once, under a lock of <runtime>/.units that the kernel drops with its holder, by
 * whoever finds that something changed: a tenant comes or goes, or its limits do. There is no role
 * to be held, since nothing has to be done while nothing changes. What a tenant is to have is
 * written into its ledger (ledger/cu_grant.h), and its processes tell the kernel.
 *
 * A tenant's own part is what its policy says, and nobody else's figures make it more.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_ALLOTMENT_H
#define ALLOT_GUEST_AMD_QUEUE_ALLOTMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/cu_map.h"
#include "ledger/policy.h"
#include "sched/weights.h"

struct allotment;

/* For a tenant's directory. Maps the runtime directory's file; -errno where that cannot be. */
int allotment_open(const char *tenant_dir, struct allotment **ret);
void allotment_close(struct allotment *allotment);

/* What a policy wants of a device. False: it sets no limit, and needs no mask. Pure. */
bool allotment_part(const struct policy *policy, const uint8_t uuid[16], struct part *ret);

/*
 * Sees to it that all tenants with queues on the GPU have the units that they are to have; `map`
 * NULL: masks cannot express shares of it, and only the shares are decided. With `wait` the lock is
 * waited for, a second at most. 0; -EAGAIN, -ETIMEDOUT: somebody else has the lock; -EMFILE and
 * the like. After an error tenants have what they had.
 */
int allotment_make(struct allotment *allotment, const uint8_t uuid[16], const struct cu_map *map,
		   bool wait);

/* Now and then one of all who call this looks whether tenants have come or gone, and says so. */
void allotment_look(struct allotment *allotment, uint64_t now_ns);

/* Changes with what is said there, and with each making that changed something. */
uint32_t allotment_changes(const struct allotment *allotment);
void allotment_sleep(const struct allotment *allotment, uint32_t seen, uint64_t until_ns);

#endif
