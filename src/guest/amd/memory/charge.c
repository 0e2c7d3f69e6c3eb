/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/charge.h"

#include "base/fault.h"
#include "guest/amd/memory/lent.h"
#include "guest/lend/entry.h"

void amd_charge_commit(const struct amd_charge *charge, enum category category, uint64_t actual)
{
	FAULT_POINT(GUEST_DRIVER_GAVE);
	if (amd_charge_is_host(charge))
		quota_host_add(charge->amd->slot, charge->device->ledger, actual);
	else
		quota_commit(charge->amd->slot, charge->device->ledger, charge->reserved, category,
			     actual);
}

void amd_charge_cancel(const struct amd_charge *charge)
{
	if (!amd_charge_is_host(charge))
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
	amd_lent_give_back(guest, object);
	amd_charge_release(amd, &amd->device[object->device],
			   object->flags & OBJECT_HOST ? DEMAND_GTT : DEMAND_VRAM,
			   (enum category)object->category, object->bytes);
}
