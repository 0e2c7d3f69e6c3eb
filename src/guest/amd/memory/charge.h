/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a reservation of memory of an AMD GPU (reserve.h), or takes back a charge.
 *
 * The tenant's limit is one on the GPU's own memory. The machine's memory that is pinned for a GPU
 * (GTT) is host memory, like pinned memory on NVIDIA's side: its limit is the memory cgroup. The
 * ledger has it as a separate figure, to show it.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_CHARGE_H
#define ALLOT_GUEST_AMD_MEMORY_CHARGE_H

#include <stdint.h>

#include "amd/demand.h"
#include "guest/amd/amd.h"
#include "guest/core/object.h"

/* Bytes asked for and not yet committed. */
struct amd_charge {
	struct amd *amd;
	struct amd_device *device;
	enum demand_memory memory;
	uint64_t reserved;
};

/* A figure beside the ledger's sums, to which no limit applies: there is nothing to reserve. */
static inline bool amd_charge_is_host(const struct amd_charge *charge)
{
	return charge->memory == DEMAND_GTT;
}

/* The kernel did it. `actual` bytes stay charged, at most what was reserved. */
void amd_charge_commit(const struct amd_charge *charge, enum category category, uint64_t actual);
/* The kernel refused. */
void amd_charge_cancel(const struct amd_charge *charge);

/* After the kernel took it back, never before. */
void amd_charge_release(struct amd *amd, struct amd_device *device, enum demand_memory memory,
			enum category category, uint64_t bytes);

/* The same for an object that is in the table no more: it leaves what it shares, too. */
void amd_charge_drop(struct guest *guest, struct amd *amd, const struct object *object);

#endif
