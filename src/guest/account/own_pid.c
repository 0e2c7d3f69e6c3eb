/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/own_pid.h"

#include <sys/mman.h>

#include "base/hash.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/pidns.h"
#include "guest/account/driver_list.h"
#include "guest/account/granule.h"
#include "guest/account/state.h"
#include "guest/core/hook.h"
#include "ledger/quota.h"
#include "ledger/slot.h"

/* Of so many granules at most is an amount, ... */
#define AMOUNTS 8
/* ... and this often all must fit: by chance, for another process that does it at once, 1 in 512. */
#define ROUNDS 3
/* What other threads allocate meanwhile hides it, and then it is tried again: so much later at first. */
#define AGAIN_NS      (250 * NS_PER_MS)
#define AGAIN_DOUBLES 6

struct attempt {
	struct driver_list before, with, after;
	uint32_t pid[DRIVER_LIST_PROCESSES]; /* of whom all rounds so far are true */
	int n;
};

static bool own_pid_figure(const struct driver_list *list, uint32_t pid, uint64_t *ret)
{
	for (int i = 0; i < list->n; i++)
		if (list->process[i].pid == pid) {
			*ret = list->process[i].usedGpuMemory;
			return true;
		}
	return false;
}

static bool own_pid_fits(const struct attempt *a, uint32_t pid, uint64_t bytes)
{
	uint64_t before, with, after;

	return own_pid_figure(&a->before, pid, &before) && own_pid_figure(&a->with, pid, &with) &&
	       own_pid_figure(&a->after, pid, &after) && before < QUOTA_ABSURD_BYTES &&
	       with == before + bytes && after == before;
}

/* Memory by handle: no context need be current, and giving it back waits for no work. */
static bool own_pid_ask_with(struct guest *guest, struct guest_device *device, uint64_t bytes,
			     struct driver_list *ret)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
	};
	CUmemGenericAllocationHandle handle;
	bool asked;

	if (DRIVER(cuMemCreate, (&handle, bytes, &prop, 0)))
		return false;
	asked = !driver_list_read(guest, device->uuid, device->ledger, ret);
	DRIVER(cuMemRelease, (handle));
	return asked;
}

static bool own_pid_round(struct guest *guest, struct guest_device *device, struct attempt *a,
			  uint64_t bytes)
{
	struct slot *slot = atomic_load(&guest->slot);
	bool asked;
	int n = 0;

	if (quota_reserve(slot, device->ledger, bytes, guest_limit(guest, device)))
		return false;
	asked = !driver_list_read(guest, device->uuid, device->ledger, &a->before) &&
		own_pid_ask_with(guest, device, bytes, &a->with) &&
		!driver_list_read(guest, device->uuid, device->ledger, &a->after);
	quota_cancel(slot, device->ledger, bytes);
	for (int i = 0; asked && i < a->n; i++)
		if (own_pid_fits(a, a->pid[i], bytes))
			a->pid[n++] = a->pid[i];
	a->n = n;
	return asked && n > 0;
}

static bool own_pid_try(struct guest *guest, struct guest_device *device, struct attempt *a)
{
	uint64_t random = hash_word(hash_word(HASH_SEED, now_boot_ns()), (uint64_t)getpid());

	if (driver_list_read(guest, device->uuid, device->ledger, &a->before))
		return false;
	while (a->n < a->before.n) {
		a->pid[a->n] = a->before.process[a->n].pid;
		a->n++;
	}
	for (int round = 0; round < ROUNDS; round++) {
		random = hash_word(random, now_boot_ns());
		if (!own_pid_round(guest, device, a,
				   GRANULE_BYTES * (1 + (random >> 32) % AMOUNTS)))
			return false;
	}
	return a->n == 1;
}

/* One thread at a time, and seldom where it does not work. */
static bool own_pid_may_try(struct guest *guest)
{
	uint64_t now = now_monotonic_ns(), due = atomic_load(&guest->account->own_pid_due_ns);
	uint32_t tries = atomic_load(&guest->account->own_pid_tries);

	if (now < due || !atomic_compare_exchange_strong(
				 &guest->account->own_pid_due_ns, &due,
				 now + (AGAIN_NS << min_u64(tries, AGAIN_DOUBLES))))
		return false;
	atomic_fetch_add(&guest->account->own_pid_tries, 1);
	return true;
}

bool own_pid_find(struct guest *guest, struct guest_device *device)
{
	struct slot *slot = atomic_load(&guest->slot);
	struct attempt *a;
	struct slot_info info;
	bool found;

	if (!slot || slot_info(guest->ledger, slot_index(slot), &info) || !info.pidns ||
	    info.pidns == PIDNS_FIRST || (guest->policy.flags & POLICY_SWAPPABLE) ||
	    !own_pid_may_try(guest))
		return false;
	a = pages_map(sizeof(*a));
	if (!a)
		return false;
	found = own_pid_try(guest, device, a);
	if (found)
		slot_tell_driver_pid(guest->ledger, slot_index(slot), &info, a->pid[0]);
	munmap(a, sizeof(*a));
	return found;
}
