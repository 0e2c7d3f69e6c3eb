/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/reserve.h"

#include <errno.h>

#include "base/fault.h"
#include "guest/amd/memory/sweep.h"
#include "guest/core/trace.h"

static int amd_reserve_vram(struct guest *guest, const struct amd_charge *charge, int fd)
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

int amd_reserve(struct guest *guest, struct amd *amd, struct amd_device *device, int fd,
		enum demand_memory memory, uint64_t bytes, struct amd_charge *ret)
{
	struct amd_charge charge = {amd, device, memory, bytes};

	/*
	 * -ENOMEM for any failure of the ledger: ROCm's library repeats other errors, some forever.
	 */
	if (!amd_charge_is_host(&charge) && amd_reserve_vram(guest, &charge, fd)) {
		trace_follow(guest);
		trace(guest, TRACE_REFUSED, device->ledger, bytes, quota_used(guest->ledger, device->ledger),
		      amd_limit(guest, device));
		return -ENOMEM;
	}
	FAULT_POINT(GUEST_RESERVED);
	*ret = charge;
	return 0;
}

int amd_take_back(struct guest *guest, struct amd *amd, struct amd_device *device, uint64_t bytes,
		  struct amd_charge *ret)
{
	uint64_t limit = guest_limit_ever(guest, device->uuid, device->total_bytes);

	if (quota_reserve(amd->slot, device->ledger, bytes, limit))
		return -ENOMEM;
	FAULT_POINT(GUEST_RESERVED);
	*ret = (struct amd_charge){amd, device, DEMAND_VRAM, bytes};
	return 0;
}
