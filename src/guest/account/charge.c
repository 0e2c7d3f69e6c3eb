/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/charge.h"

#include <errno.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "base/now.h"
#include "base/number.h"
#include "guest/account/calls.h"
#include "guest/account/figure.h"
#include "guest/account/holder.h"
#include "guest/account/later.h"
#include "guest/account/state.h"
#include "guest/core/trace.h"
#include "ledger/spare.h"
#include "ledger/swap.h"

uint64_t charge_limit(struct guest *guest, struct guest_device *device)
{
	uint64_t limit = guest_limit(guest, device);
	uint64_t siblings = guest_by_driver(guest) ? 0 : atomic_load(&device->account->siblings_bytes);

	return limit > siblings ? limit - siblings : 0;
}

/*
 * With accounting by the driver's figure the ledger keeps what that figure never has, and no more.
 * Nobody knows whose figure has imported memory.
 */
static bool charge_keeps(const struct guest *guest, enum category category, bool unseen)
{
	return unseen || category == CAT_IMPORTED || !guest_by_driver(guest);
}

/*
 * Accounting by the driver's figure: what the tenant has by that and by the ledger; all ones without
 * a figure, when nothing is free. The ledger is read before the figure: an allocation is always in
 * one of the two, because it leaves pending only after the driver has it.
 */
static uint64_t charge_sum_by_driver(struct guest *guest, struct guest_device *device)
{
	uint64_t kept, figure;
	bool told = false;
	int r;

	do {
		kept = quota_used(guest->ledger, device->ledger);
		r = figure_tenant(guest, device->uuid, device->ledger, &figure);
	} while (r == -ESRCH && !told && (told = figure_await_told(guest, device)));
	return r ? UINT64_MAX : sat_add_u64(kept, figure);
}

static int charge_reserve_by_driver(struct guest *guest, struct guest_device *device,
				    uint64_t bytes, uint64_t limit)
{
	struct slot *slot = guest_slot(guest);
	int cancel, r = 0;

	if (bytes > QUOTA_RESERVE_MAX)
		return -EDQUOT;
	cancel = cancel_hold();
	quota_publish(slot, device->ledger, bytes);
	if (charge_sum_by_driver(guest, device) > limit) {
		quota_cancel(slot, device->ledger, bytes);
		r = -EDQUOT;
	}
	cancel_release(cancel);
	return r;
}

void charge_begin_again(struct guest *guest, struct guest_device *device)
{
	if (guest->swappable)
		spare_begin_ask(guest->claimed);
	holder_give_back(guest, device);
	figure_await_dead(guest, device);
	if (guest_by_driver(guest))
		holder_catch_up(guest, device);
	else
		figure_reconcile(guest, device);
}

void charge_await_others(struct guest *guest)
{
	if (guest->swappable)
		spare_await(guest->claimed, swap_request(guest->policy_map));
}

void charge_end_again(struct guest *guest)
{
	if (guest->swappable)
		spare_end_ask(guest->claimed);
}

#define SETTLE_NS     UINT64_C(20000000)
#define OVER_WAIT_NS  UINT64_C(1000000000) /* for contexts that others make */
#define SETTLE_NAP_NS 200000

/* Waits a moment, and answers whether there is time for another try. */
static bool charge_nap(uint64_t until)
{
	if (now_monotonic_ns() > until)
		return false;
	nap_ns(SETTLE_NAP_NS);
	return true;
}

/* The exact try, and a refusal is counted. */
static int charge_reserve_last(struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	uint64_t until = now_monotonic_ns() + SETTLE_NS;
	int token, r;

	if (!guest_by_driver(guest))
		return quota_reserve_slow(guest_slot(guest), device->ledger, bytes,
					  charge_limit(guest, device));
	quota_reclaim(guest->ledger);
	token = quota_lock(guest->ledger);
	/*
	 * A sibling's bytes on their way count twice from when the driver has them until the sibling
	 * commits; or they are retracted.
	 */
	do {
		r = charge_reserve_by_driver(guest, device, bytes, guest_limit(guest, device));
	} while (r && bytes <= guest_limit(guest, device) &&
		 quota_pending(guest->ledger, device->ledger) && charge_nap(until));
	if (token >= 0)
		quota_unlock(token);
	if (r)
		quota_count_refusal(guest_slot(guest), device->ledger);
	return r;
}

static int charge_reserve_just_so(struct guest *guest, struct guest_device *device, uint64_t bytes,
				  uint64_t *ret_used)
{
	uint64_t limit = charge_limit(guest, device);

	return guest_by_driver(guest)
		       ? charge_reserve_by_driver(guest, device, bytes, limit)
		       : quota_reserve_sum(guest_slot(guest), device->ledger, bytes, limit,
					   ret_used);
}

/* Others are asked for what they keep when that alone is in the way. */
static int charge_reserve_again(struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	int r = -EDQUOT, cancel = cancel_hold();
	uint64_t used;

	trace_follow(guest);
	charge_begin_again(guest, device);
	if (guest->swappable && bytes <= charge_limit(guest, device)) {
		r = charge_reserve_just_so(guest, device, bytes, &used);
		if (r)
			charge_await_others(guest);
	}
	if (r)
		r = charge_reserve_last(guest, device, bytes);
	charge_end_again(guest);
	cancel_release(cancel);
	return r;
}

/* Inside of the call. */
static struct charge charge_of(struct guest *guest, struct guest_device *device, uint64_t bytes)
{
	return (struct charge){guest, device, bytes, atomic_load(&guest->account->ended), .unseen = false};
}

/*
 * Reserves the bytes; false: they are refused. *ret_used: what the tenant uses with them, not
 * written where the driver's figure decides.
 */
static bool charge_admit(struct guest *guest, struct guest_device *device, uint64_t bytes,
			 uint64_t *ret_used)
{
	int r;

	calls_begin(device);
	r = charge_reserve_just_so(guest, device, bytes, ret_used);
	if (r)
		calls_end(device);
	return !r;
}

bool charge_try(struct guest *guest, struct guest_device *device, uint64_t bytes,
		struct charge *ret)
{
	uint64_t used = 0;
	bool admitted = charge_admit(guest, device, bytes, &used);
	struct charge charge = charge_of(guest, device, bytes);

	/*
	 * What the driver took for itself may have to be looked at first. One sum over the slots
	 * tells both: a second one is made only where there is a look in between.
	 */
	if (!guest_by_driver(guest) &&
	    figure_due(guest, device, used, guest_limit(guest, device))) {
		if (admitted)
			charge_cancel(&charge);
		figure_reconcile(guest, device);
		admitted = charge_admit(guest, device, bytes, &used);
	}
	if (!admitted)
		return false;
	*ret = charge;
	FAULT_POINT(GUEST_RESERVED);
	return true;
}

typedef int charge_ask_fn(struct slot *slot, int device, uint64_t bytes, uint64_t limit);

/* `slack`: above the limit where the driver's figure decides. */
static bool charge_try_by(struct guest *guest, struct guest_device *device, uint64_t bytes,
			  charge_ask_fn *ask, uint64_t limit, uint64_t slack, struct charge *ret)
{
	int r;

	calls_begin(device);
	r = guest_by_driver(guest) ? charge_reserve_by_driver(guest, device, bytes, limit + slack)
				   : ask(guest_slot(guest), device->ledger, bytes, limit);
	if (r) {
		calls_end(device);
		return false;
	}
	*ret = charge_of(guest, device, bytes);
	FAULT_POINT(GUEST_RESERVED);
	return true;
}

bool charge_try_bound(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      struct charge *ret)
{
	return charge_try_by(guest, device, bytes, quota_reserve, charge_limit(guest, device), 0,
			     ret);
}

bool charge_try_doubtful(struct guest *guest, struct guest_device *device, uint64_t bytes,
			 struct charge *ret)
{
	return charge_try_by(guest, device, bytes, quota_reserve_doubtful,
			     charge_limit(guest, device), bytes, ret);
}

bool charge_take_back(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      struct charge *ret)
{
	return charge_try_by(guest, device, bytes, quota_reserve,
			     guest_limit_ever(guest, device->uuid, device->total_bytes), 0, ret);
}

CUresult charge_reserve(struct guest *guest, struct guest_device *device, uint64_t bytes,
			struct charge *ret)
{
	uint64_t until = 0;

	do {
		if (charge_try(guest, device, bytes, ret))
			return CUDA_SUCCESS;
	} while (figure_await_guesses(guest, device, bytes, charge_limit(guest, device), &until));
	/* No call of ours is under way while we look at the driver's figure. */
	if (charge_reserve_again(guest, device, bytes)) {
		trace(guest, TRACE_REFUSED, device->ledger, bytes, quota_used(guest->ledger, device->ledger),
		      guest_limit(guest, device));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	calls_begin(device);
	*ret = charge_of(guest, device, bytes);
	FAULT_POINT(GUEST_RESERVED);
	return CUDA_SUCCESS;
}

void charge_commit_begin(struct charge *charge, enum category category, uint64_t actual)
{
	struct slot *slot = guest_slot(charge->guest);

	FAULT_POINT(GUEST_DRIVER_GAVE);
	if (charge_keeps(charge->guest, category, charge->unseen))
		quota_commit(slot, charge->device->ledger, charge->reserved, category, actual);
	else
		quota_cancel(slot, charge->device->ledger, charge->reserved);
}

void charge_commit_end(struct charge *charge)
{
	calls_end(charge->device);
}

void charge_commit(struct charge *charge, enum category category, uint64_t actual)
{
	charge_commit_begin(charge, category, actual);
	charge_commit_end(charge);
}

void charge_cancel(struct charge *charge)
{
	quota_cancel(guest_slot(charge->guest), charge->device->ledger, charge->reserved);
	calls_end(charge->device);
}

void charge_release_begin(struct guest_device *device)
{
	calls_begin(device);
}

static void charge_release(struct guest *guest, struct guest_device *device,
			   enum category category, uint64_t bytes, bool unseen)
{
	FAULT_POINT(GUEST_DRIVER_TOOK);
	if (bytes && charge_keeps(guest, category, unseen)) {
		quota_release(guest_slot(guest), device->ledger, category, bytes);
		later_released(device);
	}
	calls_end(device);
}

void charge_release_end(struct guest *guest, struct guest_device *device, enum category category,
			uint64_t bytes)
{
	charge_release(guest, device, category, bytes, false);
}

void charge_release_end_unseen(struct guest *guest, struct guest_device *device,
			       enum category category, uint64_t bytes)
{
	charge_release(guest, device, category, bytes, true);
}

void charge_release_begin_all(struct guest *guest)
{
	for (int i = 0; i < guest->ndevices; i++)
		calls_begin(&guest->device[i]);
}

void charge_release_end_all(struct guest *guest)
{
	for (int i = 0; i < guest->ndevices; i++)
		calls_end(&guest->device[i]);
}

static void charge_move(struct guest *guest, struct guest_device *device, enum category category,
			uint64_t old_bytes, uint64_t new_bytes, bool unseen)
{
	FAULT_POINT(GUEST_POOL_GREW);
	if (!charge_keeps(guest, category, unseen))
		return;
	if (new_bytes > old_bytes)
		quota_charge(guest_slot(guest), device->ledger, category, new_bytes - old_bytes);
	else if (new_bytes < old_bytes) {
		quota_release(guest_slot(guest), device->ledger, category, old_bytes - new_bytes);
		later_released(device);
	}
}

void charge_follow(struct guest *guest, struct guest_device *device, enum category category,
		   uint64_t old_bytes, uint64_t new_bytes)
{
	charge_move(guest, device, category, old_bytes, new_bytes, false);
}

void charge_follow_unseen(struct guest *guest, struct guest_device *device, enum category category,
			  uint64_t old_bytes, uint64_t new_bytes)
{
	charge_move(guest, device, category, old_bytes, new_bytes, true);
	atomic_fetch_add(&device->account->unseen_bytes, new_bytes - old_bytes);
}

bool charge_clear_dead(struct guest *guest, struct guest_device *device)
{
	figure_await_dead(guest, device);
	return quota_reclaim(guest->ledger) > 0;
}

/*
 * Bytes that other processes have reserved count twice from when the driver gave them until the
 * commit. So the tenant is over only if the sum is above without them, or stays above.
 */
static bool charge_is_over_by_driver(struct guest *guest, struct guest_device *device,
				     uint64_t limit)
{
	uint64_t until = now_monotonic_ns() + OVER_WAIT_NS, pending, sum;

	do {
		pending = quota_pending(guest->ledger, device->ledger);
		sum = charge_sum_by_driver(guest, device);
		if (sum <= limit)
			return false;
	} while (pending && sum <= sat_add_u64(limit, pending) && charge_nap(until));
	return true;
}

static bool charge_is_over(struct guest *guest, struct guest_device *device)
{
	uint64_t limit = charge_limit(guest, device);

	if (guest_by_driver(guest))
		return charge_is_over_by_driver(guest, device, limit);
	if (quota_used(guest->ledger, device->ledger) <= limit)
		return false;
	charge_clear_dead(guest, device);
	return quota_over(guest_slot(guest), device->ledger, limit);
}

bool charge_over(struct guest *guest, struct guest_device *device)
{
	int cancel = cancel_hold();
	bool over = charge_is_over(guest, device);

	if (over) {
		charge_begin_again(guest, device);
		charge_await_others(guest);
		over = charge_is_over(guest, device);
		charge_end_again(guest);
	}
	cancel_release(cancel);
	return over;
}

bool charge_stale(struct guest *guest, struct guest_device *device)
{
	atomic_store(&device->account->stale, true);
	return !guest_by_driver(guest) && figure_due_now(guest, device) &&
	       figure_reconcile(guest, device);
}
