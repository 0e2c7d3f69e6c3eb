/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/charge.h"

#include <errno.h>

#include "base/fault.h"
#include "guest/amd/memory/sweep.h"
#include "guest/core/entry.h"

/* A figure beside the ledger's sums, to which no limit applies: there is nothing to reserve. */
static bool is_host(const struct amd_charge *charge)
{
	return charge->memory == DEMAND_GTT;
}

static int reserve(struct guest *guest, const struct amd_charge *charge, int fd)
{
	struct slot *slot = charge->amd->slot;
	struct amd_device *device = charge->device;
	uint64_t bytes = charge->reserved;
	int r = quota_reserve(slot, device->ledger, bytes, amd_limit(guest, device));

	if (r != -EDQUOT)
		return r;
	amd_sweep(guest, charge->amd, fd);
	return quota_reserve_slow(slot, device->ledger, bytes, amd_limit(guest, device));
}

int amd_charge_reserve(struct guest *guest, struct amd *amd, struct amd_device *device, int fd,
		       enum demand_memory memory, uint64_t bytes, struct amd_charge *ret)
{
	struct amd_charge charge = {amd, device, memory, bytes};

	/* Whatever the ledger cannot do: ROCm's library repeats other errors, some for ever. */
	if (!is_host(&charge) && reserve(guest, &charge, fd))
		return -ENOMEM;
	FAULT_POINT(GUEST_RESERVED);
	*ret = charge;
	return 0;
}

void amd_charge_commit(const struct amd_charge *charge, enum category category, uint64_t actual)
{
	FAULT_POINT(GUEST_DRIVER_GAVE);
	if (is_host(charge))
		quota_host_add(charge->amd->slot, charge->device->ledger, actual);
	else
		quota_commit(charge->amd->slot, charge->device->ledger, charge->reserved, category,
			     actual);
}

void amd_charge_cancel(const struct amd_charge *charge)
{
	if (!is_host(charge))
		quota_cancel(charge->amd->slot, charge->device->ledger, charge->reserved);
}

void amd_charge_release(struct amd *amd, struct amd_device *device, enum demand_memory memory,
			enum category category, uint64_t bytes)
{
	FAULT_POINT(GUEST_DRIVER_TOOK);
	if (!bytes)
		return;
	if (memory == DEMAND_GTT)
		quota_host_sub(amd->slot, device->ledger, bytes);
	else
		quota_release(amd->slot, device->ledger, category, bytes);
}

void amd_charge_drop(struct guest *guest, struct amd *amd, const struct object *object)
{
	entry_leave(guest, object);
	amd_charge_release(amd, &amd->device[object->device],
			   object->flags & OBJECT_HOST ? DEMAND_GTT : DEMAND_VRAM,
			   (enum category)object->category, object->bytes);
}
