/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/charge.h"

#include "base/fault.h"
#include "guest/amd/memory/lent.h"
#include "guest/lend/entry.h"

/* The place in the ledger that carries it. */
static int amd_charge_row(const struct amd *amd, const struct amd_device *device,
			  enum demand_memory memory)
{
	return memory == DEMAND_VRAM ? device->ledger : amd->host;
}

static enum category amd_charge_category(enum demand_memory memory, enum category category)
{
	return memory == DEMAND_USERPTR ? (enum category)HOST_USERPTR : category;
}

void amd_charge_note(const struct amd_charge *charge, struct object *object)
{
	if (charge->memory == DEMAND_VRAM)
		object->bytes += charge->reserved;
	else if (charge->memory == DEMAND_GTT)
		object->amd.gtt += charge->reserved;
	else
		object->amd.userptr += charge->reserved;
}

void amd_charge_commit(const struct amd_charge *charge, enum category category, uint64_t actual)
{
	FAULT_POINT(GUEST_DRIVER_GAVE);
	quota_commit(charge->amd->slot, amd_charge_row(charge->amd, charge->device, charge->memory),
		     charge->reserved, amd_charge_category(charge->memory, category), actual);
	if (charge->memory == DEMAND_GTT)
		quota_host_add(charge->amd->slot, charge->device->ledger, actual);
}

void amd_charge_cancel(const struct amd_charge *charge)
{
	quota_cancel(charge->amd->slot, amd_charge_row(charge->amd, charge->device, charge->memory),
		     charge->reserved);
}

void amd_charge_release(struct amd *amd, struct amd_device *device, enum demand_memory memory,
			enum category category, uint64_t bytes)
{
	FAULT_POINT(GUEST_DRIVER_TOOK);
	if (!bytes)
		return;
	if (memory == DEMAND_GTT)
		quota_host_sub(amd->slot, device->ledger, bytes);
	quota_release(amd->slot, amd_charge_row(amd, device, memory),
		      amd_charge_category(memory, category), bytes);
}

void amd_charge_drop(struct guest *guest, struct amd *amd, const struct object *object)
{
	struct amd_device *device = &amd->device[object->device];
	enum category category = (enum category)object->category;

	entry_leave(guest, object);
	amd_lent_give_back(guest, object);
	amd_charge_release(amd, device, DEMAND_VRAM, category, object->bytes);
	amd_charge_release(amd, device, DEMAND_GTT, category, object->amd.gtt);
	amd_charge_release(amd, device, DEMAND_USERPTR, category, object->amd.userptr);
}
