/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a reservation of memory of an AMD GPU (reserve.h), or takes back a charge.
 *
 * The GPU's own memory is held to the tenant's limit there. The machine's memory that GPUs have pinned
 * has a limit of its own, for all GPUs together (quota_host_limit), and is counted in a row of its own.
 * A GPU without memory of its own (amd_is_unified) has the machine's: GTT counts as the GPU's there.
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

/* Notes the reserved bytes in the object that is to carry them. */
void amd_charge_note(const struct amd_charge *charge, struct object *object);

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
