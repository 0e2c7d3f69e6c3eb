/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/uuid_charge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "base/now.h"
#include "base/number.h"
#include "guest/account/figure.h"
#include "guest/account/view.h"
#include "guest/core/object.h"
#include "guest/core/own_nvml.h"
#include "guest/core/trace.h"
#include "ledger/quota.h"

/* Other APIs say a little more or less of a device than CUDA does. */
static uint64_t uuid_device_total(struct guest *guest, const struct uuid_device *device)
{
	struct ledger_device_info info;
	int d = ledger_find(guest->ledger, device->uuid);

	return d >= 0 && !ledger_device_info(guest->ledger, d, &info) && info.total_bytes
		       ? info.total_bytes
		       : device->total_bytes;
}

static int uuid_device_ledger(struct guest *guest, const struct uuid_device *device)
{
	int d = ledger_find(guest->ledger, device->uuid);

	return d >= 0 ? d : ledger_device(guest->ledger, device->uuid, device->total_bytes);
}

/* Where this process has a context of CUDA's, which looks at the driver's figure; else NULL. */
static struct guest_device *uuid_device_cuda(struct guest *guest, const struct uuid_device *device)
{
	if (!guest_slot(guest))
		return NULL;
	for (int i = 0; i < guest->ndevices; i++)
		if (!memcmp(guest->device[i].uuid, device->uuid, sizeof(device->uuid)))
			return atomic_load(&guest->device[i].account->contexts) ? &guest->device[i] : NULL;
	return NULL;
}

/* Limits by CUDA's numbers need NVML's; where that is not to be had, there is one device. */
static unsigned int uuid_device_index(struct guest *guest, const struct uuid_device *device)
{
	const struct nvml_library *nvml;
	nvmlDevice_t at;
	unsigned int index;
	bool told;

	nvml = own_nvml_load() ? own_nvml_get(guest, device->uuid, uuid_device_ledger(guest, device), &at)
			       : NULL;
	guest_depth++;
	told = nvml && nvml->nvmlDeviceGetIndex(at, &index) == NVML_SUCCESS;
	guest_depth--;
	return told ? index : 0;
}

/* In a tenant by configuration. False: CUDA_VISIBLE_DEVICES hides it. */
static bool uuid_device_name(struct guest *guest, struct uuid_device *device)
{
	int ordinal;

	device->index = uuid_device_index(guest, device);
	ordinal = config_ordinal(getenv("CUDA_VISIBLE_DEVICES"), device->index, device->uuid);
	if (ordinal >= 0)
		guest_name_device(guest, device->uuid, (unsigned int)ordinal, device->total_bytes);
	return ordinal >= 0;
}

bool uuid_device_open(struct guest *guest, struct uuid_device *device)
{
	struct policy policy;

	device->index = ~0u;
	if (guest_mode(guest) != GUEST_LIMITED || (guest->drop_in && !uuid_device_name(guest, device)))
		return false;
	return !policy_read(guest->policy_map, &policy) && policy_find(&policy, device->uuid);
}

uint64_t uuid_device_limit(struct guest *guest, const struct uuid_device *device)
{
	if (guest_mode(guest) != GUEST_LIMITED)
		return 0;
	return guest_limit_by_uuid(guest, device->uuid, device->index, uuid_device_total(guest, device));
}

void uuid_device_view(struct guest *guest, const struct uuid_device *device, uint64_t device_free,
		      uint64_t *ret_total, uint64_t *ret_free)
{
	struct view view = {.total_bytes = 0};

	if (guest_mode(guest) == GUEST_LIMITED)
		view_get(guest, device->uuid, device->index, uuid_device_total(guest, device), &view);
	*ret_total = view.total_bytes;
	*ret_free = view.total_bytes ? view_free(guest, device->uuid, &view, device_free) : 0;
}

/* --- What drivers take for themselves --------------------------------------------------------- */

#define LOOK_NS	   (5 * NS_PER_MS)
#define GLANCE_NS  NS_PER_S
#define NEAR_BYTES (UINT64_C(1) << 30)

void uuid_charge_stale(struct guest *guest, struct uuid_device *device)
{
	if (guest_mode(guest) != GUEST_LIMITED)
		return;
	atomic_store(&guest->account->others, true);
	atomic_store(&device->looked_ns, 0);
}

static bool uuid_charge_is_near(struct guest *guest, int ledger, uint64_t bytes, uint64_t limit)
{
	uint64_t used = sat_add_u64(quota_used(guest->ledger, ledger), bytes);

	return sat_add_u64(used, limit / 8 + NEAR_BYTES) > limit;
}

/* Far from the limit no admission depends on a look: nobody waits for NVML. */
static void uuid_charge_look(struct guest *guest, struct uuid_device *device, int ledger, uint64_t bytes,
			     uint64_t limit)
{
	uint64_t last = atomic_load(&device->looked_ns), now = now_ns(CLOCK_MONOTONIC_COARSE);
	bool near = uuid_charge_is_near(guest, ledger, bytes, limit);

	if ((last && now < last + (near ? LOOK_NS : GLANCE_NS)) || !own_nvml_load())
		return;
	if (!near && !own_nvml_settled(guest, ledger))
		own_nvml_begin(guest, ledger);
	else if (atomic_compare_exchange_strong(&device->looked_ns, &last, now))
		figure_reconcile_others(guest, device->uuid, ledger);
}

/* --- Where the driver's figure decides, and this process has no CUDA ------------------------------ */

#define SETTLE_NS     (20 * NS_PER_MS)
#define SETTLE_NAP_NS (NS_PER_MS / 5)

/* The tenant's bytes by the figure and by the ledger, which is read first, as in charge.c. */
static uint64_t uuid_charge_sum_by_driver(struct guest *guest, const struct uuid_device *device,
					  int ledger)
{
	bool holds = object_count(guest->objects, OBJECT_VULKAN) ||
		     object_count(guest->objects, OBJECT_OPENCL);
	uint64_t kept = quota_used(guest->ledger, ledger), figure;

	if (figure_tenant(guest, device->uuid, ledger, &figure) ||
	    (holds && !figure_lists_own(guest, device->uuid, ledger)))
		return UINT64_MAX;
	return sat_add_u64(kept, figure);
}

/* A sibling's bytes on their way count twice from when the driver has them until the sibling commits. */
static int uuid_charge_reserve_by_driver(struct guest *guest, const struct uuid_device *device,
					 struct slot *slot, int ledger, uint64_t bytes, uint64_t limit)
{
	uint64_t until = now_monotonic_ns() + SETTLE_NS;
	bool pending;

	if (bytes > QUOTA_RESERVE_MAX)
		return -EDQUOT;
	do {
		quota_publish(slot, ledger, bytes);
		if (uuid_charge_sum_by_driver(guest, device, ledger) <= limit)
			return 0;
		quota_cancel(slot, ledger, bytes);
		quota_reclaim(guest->ledger);
		pending = bytes <= limit && quota_pending(guest->ledger, ledger);
		if (pending)
			nap_ns(SETTLE_NAP_NS);
	} while (pending && now_monotonic_ns() < until);
	quota_count_refusal(slot, ledger);
	return -EDQUOT;
}

static int uuid_charge_reserve_in(struct guest *guest, struct uuid_device *device, struct slot *slot,
				  int ledger, uint64_t bytes)
{
	uint64_t limit = uuid_device_limit(guest, device);
	int r;

	if (guest_by_driver(guest))
		return uuid_charge_reserve_by_driver(guest, device, slot, ledger, bytes, limit);
	uuid_charge_look(guest, device, ledger, bytes, limit);
	r = quota_reserve(slot, ledger, bytes, limit);
	return r == -EDQUOT ? quota_reserve_slow(slot, ledger, bytes, limit) : r;
}

static int uuid_charge_reserve_held(struct guest *guest, struct uuid_device *device, uint64_t bytes,
				    struct uuid_charge *ret)
{
	struct uuid_charge charge = {.guest = guest, .reserved = bytes};
	int r;

	charge.cuda = uuid_device_cuda(guest, device);
	if (charge.cuda) {
		r = charge_reserve(guest, charge.cuda, bytes, &charge.charge) ? -EDQUOT : 0;
		*ret = charge;
		return r;
	}
	atomic_store(&guest->account->others, true);
	charge.ledger = uuid_device_ledger(guest, device);
	r = charge.ledger < 0 ? charge.ledger : guest_claim_slot(guest, &charge.slot);
	if (!r)
		r = uuid_charge_reserve_in(guest, device, charge.slot, charge.ledger, bytes);
	if (r == -EDQUOT) {
		trace_follow(guest);
		trace(guest, TRACE_REFUSED, charge.ledger, bytes, quota_used(guest->ledger, charge.ledger),
		      uuid_device_limit(guest, device));
	}
	*ret = charge;
	return r;
}

int uuid_charge_reserve(struct guest *guest, struct uuid_device *device, uint64_t bytes,
			struct uuid_charge *ret)
{
	int cancel = cancel_hold();
	int r = uuid_charge_reserve_held(guest, device, bytes, ret);

	cancel_release(cancel);
	if (!r)
		FAULT_POINT(GUEST_RESERVED);
	return r;
}

void uuid_charge_commit(struct uuid_charge *charge)
{
	if (charge->cuda) {
		charge_commit(&charge->charge, CAT_ARRAY, charge->reserved);
		return;
	}
	FAULT_POINT(GUEST_DRIVER_GAVE);
	if (guest_by_driver(charge->guest))
		quota_cancel(charge->slot, charge->ledger, charge->reserved);
	else
		quota_commit(charge->slot, charge->ledger, charge->reserved, CAT_ARRAY, charge->reserved);
}

void uuid_charge_cancel(struct uuid_charge *charge)
{
	if (charge->cuda)
		charge_cancel(&charge->charge);
	else
		quota_cancel(charge->slot, charge->ledger, charge->reserved);
}

static int uuid_charge_share_in(struct guest *guest, struct uuid_device *device, struct slot *slot,
				int ledger, struct shared_key key, uint64_t bytes)
{
	struct uuid_charge room;
	int r = shared_add(slot, key, ledger, bytes, CAT_IMPORTED, 0, uuid_device_limit(guest, device));

	/* There may be room when all is given back that can be. */
	if (r != -EDQUOT || uuid_charge_reserve(guest, device, bytes, &room))
		return r;
	r = shared_add(slot, key, ledger, bytes, CAT_IMPORTED, 0, UINT64_MAX);
	uuid_charge_cancel(&room);
	return r;
}

int uuid_charge_share(struct guest *guest, struct uuid_device *device, struct shared_key key,
		      uint64_t bytes, bool covered)
{
	int ledger = uuid_device_ledger(guest, device);
	struct slot *slot;
	int r = ledger < 0 ? ledger : guest_claim_slot(guest, &slot);

	if (r)
		return r;
	return covered ? shared_add(slot, key, ledger, bytes, CAT_IMPORTED, SHARED_COVERED, UINT64_MAX)
		       : uuid_charge_share_in(guest, device, slot, ledger, key, bytes);
}

void uuid_charge_release_begin(struct guest *guest, const struct uuid_device *device,
			       struct uuid_charge *ret)
{
	*ret = (struct uuid_charge){.guest = guest, .cuda = uuid_device_cuda(guest, device), .ledger = -1};
	if (ret->cuda)
		charge_release_begin(ret->cuda);
	else if (!guest_claim_slot(guest, &ret->slot))
		ret->ledger = uuid_device_ledger(guest, device);
}

void uuid_charge_release_end(struct uuid_charge *charge, uint64_t bytes)
{
	if (charge->cuda) {
		charge_release_end(charge->guest, charge->cuda, CAT_ARRAY, bytes);
		return;
	}
	FAULT_POINT(GUEST_DRIVER_TOOK);
	if (bytes && charge->ledger >= 0 && !guest_by_driver(charge->guest))
		quota_release(charge->slot, charge->ledger, CAT_ARRAY, bytes);
}
