/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/reserve.h"

#include <errno.h>

#include "base/fault.h"
#include "guest/amd/memory/sweep.h"
#include "guest/core/trace.h"

/* The policy's word, as guest_limit_cached: of threads that read it at once the last looks again. */
static uint64_t amd_host_said(struct guest *guest, struct amd *amd)
{
	uint64_t now = guest_generation(guest), said;
	struct policy policy;

	if (atomic_load_explicit(&amd->gtt_generation, memory_order_acquire) == now)
		return atomic_load_explicit(&amd->gtt_bytes, memory_order_relaxed);
	do {
		now = guest_generation(guest);
		/* Closed where it cannot be read: nothing needs less than a page. */
		said = policy_read(guest->policy_map, &policy) ? 1 : (uint64_t)policy.gtt_mib << 20;
		atomic_store_explicit(&amd->gtt_bytes, said, memory_order_relaxed);
		atomic_store_explicit(&amd->gtt_generation, now, memory_order_release);
	} while (guest_generation(guest) != now);
	return said;
}

uint64_t amd_host_limit(struct guest *guest, struct amd *amd, enum demand_memory memory)
{
	uint64_t limit, said = amd_host_said(guest, amd);
	int saved = errno;

	guest_depth++;
	limit = quota_host_limit(guest->ledger, amd->host, said,
				 memory == DEMAND_USERPTR ? HOST_USERPTR : HOST_GTT);
	guest_depth--;
	errno = saved;
	return limit;
}

static uint64_t amd_reserve_limit(struct guest *guest, const struct amd_charge *charge)
{
	return charge->memory == DEMAND_VRAM
		       ? amd_limit(guest, charge->device)
		       : amd_host_limit(guest, charge->amd, charge->memory);
}

static int amd_reserve_in(struct guest *guest, const struct amd_charge *charge, int row, int fd)
{
	struct slot *slot = charge->amd->slot;
	uint64_t bytes = charge->reserved;
	int r = row < 0 ? 0 : quota_reserve(slot, row, bytes, amd_reserve_limit(guest, charge));

	if (r != -EDQUOT)
		return r;
	amd_sweep(guest, charge->amd, fd);
	return quota_reserve_slow(slot, row, bytes, amd_reserve_limit(guest, charge));
}

int amd_reserve(struct guest *guest, struct amd *amd, struct amd_device *device, int fd,
		enum demand_memory memory, uint64_t bytes, struct amd_charge *ret)
{
	struct amd_charge charge = {amd, device, memory, bytes};
	int row;

	if (memory == DEMAND_GTT && amd_is_unified(device))
		charge.memory = DEMAND_VRAM;
	row = charge.memory == DEMAND_VRAM ? device->ledger : amd->host;
	/*
	 * -ENOMEM for any failure of the ledger: ROCm's library repeats other errors, some forever.
	 */
	if (amd_reserve_in(guest, &charge, row, fd)) {
		trace_follow(guest);
		trace(guest, TRACE_REFUSED, device->ledger, bytes, quota_used(guest->ledger, row),
		      amd_reserve_limit(guest, &charge));
		return -ENOMEM;
	}
	FAULT_POINT(GUEST_RESERVED);
	*ret = charge;
	return 0;
}

int amd_take_back(struct guest *guest, struct amd *amd, struct amd_device *device, uint64_t bytes,
		  struct amd_charge *ret)
{
	uint64_t limit = guest_limit_ever(guest, device->uuid, amd_total(device));

	if (quota_reserve(amd->slot, device->ledger, bytes, limit))
		return -ENOMEM;
	FAULT_POINT(GUEST_RESERVED);
	*ret = (struct amd_charge){amd, device, DEMAND_VRAM, bytes};
	return 0;
}
