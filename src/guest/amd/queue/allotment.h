/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which compute units of an AMD GPU each tenant has. A making decides it for all tenants of the
 * runtime directory at once:
 *
 *	a process finds that a tenant came, went or has new limits
 *	it takes the lock of <runtime>/.units, which the kernel drops if it dies
 *	it divides the units, and writes each tenant's into that tenant's ledger (ledger/cu_grant.h)
 *	it wakes the keepers of all tenants, and each tells the kernel its own masks
 *
 * No process has this as a role: while nothing changes there is nothing to do. What one tenant gets
 * follows from its own policy, and no figure of another tenant makes it more.
 */
#ifndef ALLOT_GUEST_AMD_QUEUE_ALLOTMENT_H
#define ALLOT_GUEST_AMD_QUEUE_ALLOTMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/cu_map.h"
#include "ledger/policy.h"
#include "sched/weights.h"

struct allotment;

/* Maps the file of the runtime directory that the tenant's directory is in. 0 or -errno. */
int allotment_open(const char *tenant_dir, struct allotment **ret);
void allotment_close(struct allotment *allotment);

/* What a policy says of a device. False: it sets no limit, so no mask is needed. Pure. */
bool allotment_part(const struct policy *policy, const uint8_t uuid[16], struct part *ret);

/*
 * Gives all tenants with queues on the GPU the units that they are to have, where they do not have
 * them. `map` NULL: masks cannot express shares of this GPU, and only the shares are decided. With
 * `wait` it waits for the lock, a second at most. 0; -EAGAIN, -ETIMEDOUT: another process has the
 * lock; -EMFILE and the like. After an error the tenants have what they had.
 */
int allotment_make(struct allotment *allotment, const uint8_t uuid[16], const struct cu_map *map,
		   bool wait);

/*
 * Looks whether tenants have come or gone, and wakes all keepers if so. All of them call it at any
 * time; one of them does it, every 40 ms.
 */
void allotment_look(struct allotment *allotment, uint64_t now_ns);

/* Changes whenever the keepers are woken: by a look, or by a making that changed something. */
uint32_t allotment_changes(const struct allotment *allotment);
void allotment_sleep(const struct allotment *allotment, uint32_t seen, uint64_t until_ns);

#endif
