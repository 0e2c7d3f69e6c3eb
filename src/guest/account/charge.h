/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one seam that every allocation passes: reserve, let the driver do it, then commit or cancel.
 * Hooks know what their call takes from the device. This module knows how the tenant is asked for
 * it, what can be given back before a refusal, and that a refusal is CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef ALLOT_GUEST_ACCOUNT_CHARGE_H
#define ALLOT_GUEST_ACCOUNT_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/granule.h"
#include "guest/account/state.h"
#include "guest/core/guest.h"
#include "guest/core/object.h"
#include "ledger/quota.h"

/* Bytes asked for and not yet committed. One may be reserved with 0 bytes. */
struct charge {
	struct guest *guest;
	struct guest_device *device;
	uint64_t reserved;
	uint64_t ended; /* guest.account->ended, before the driver was asked */
	bool unseen;	/* the driver's figure never has it: set ahead of the commit */
};

/*
 * CUDA_SUCCESS, or CUDA_ERROR_OUT_OF_MEMORY when the tenant's quota does not allow it, after what
 * this process can give back was given back. Call no driver function with a lock held. Every
 * success ends in one of three ways:
 *
 *	charge_reserve ── the driver ──┬─ gave it ──────────────────► charge_commit
 *	                               ├─ gave it, and a pool grew ─► charge_follow, charge_cancel
 *	                               └─ refused ──────────────────► charge_cancel
 */
CUresult charge_reserve(struct guest *guest, struct guest_device *device, uint64_t bytes,
			struct charge *ret);

/*
 * The same without giving anything back and without a refusal: false when the bytes cannot be had
 * just so.
 */
bool charge_try(struct guest *guest, struct guest_device *device, uint64_t bytes,
		struct charge *ret);

/*
 * The same for a bound of what a call may take, of which only the driver's figure tells how much it
 * was: without a look at what the driver took for itself.
 */
bool charge_try_bound(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      struct charge *ret);

/*
 * The same for a call that normally takes nothing, and may take up to `bytes` in spite of it: the
 * tenant may stand above its limit by as much until the call ends. It is admitted only where the
 * limit is kept without it, so there is one such call in the tenant at a time. The others wait for
 * it, at most a second.
 */
bool charge_try_doubtful(struct guest *guest, struct guest_device *device, uint64_t bytes,
			 struct charge *ret);

/*
 * As charge_try for what the tenant holds already and had away: a quota that was lowered meanwhile takes
 * nothing away. False where other processes of it have taken so much by now (one that was stopped comes
 * back behind them).
 */
bool charge_take_back(struct guest *guest, struct guest_device *device, uint64_t bytes,
		      struct charge *ret);

/* The driver did it and took `actual` bytes. */
void charge_commit(struct charge *charge, enum category category, uint64_t actual);
/*
 * The same in two halves. What is recorded in between is charged before anybody finds it, and its
 * context does not end meanwhile.
 */
void charge_commit_begin(struct charge *charge, enum category category, uint64_t actual);
void charge_commit_end(struct charge *charge);
/* The driver refused, or took nothing; or charge_follow has charged it, to a pool or to graphs. */
void charge_cancel(struct charge *charge);

/*
 * A call that gives memory back: begin before the driver frees, end with what it freed. In
 * between the driver's figure and ours may differ.
 */
void charge_release_begin(struct guest_device *device);
void charge_release_end(struct guest *guest, struct guest_device *device, enum category category,
			uint64_t bytes);
/* The same of what was committed as unseen. */
void charge_release_end_unseen(struct guest *guest, struct guest_device *device,
			       enum category category, uint64_t bytes);

/* The same for calls of which only the driver knows what they free, and on which device. */
void charge_release_begin_all(struct guest *guest);
void charge_release_end_all(struct guest *guest);

/* Follows a figure that the driver keeps (a pool's reserve): from `old` to `new` bytes. */
void charge_follow(struct guest *guest, struct guest_device *device, enum category category,
		   uint64_t old_bytes, uint64_t new_bytes);

/* The same of what is in no figure of the driver's for a process (managed memory). */
void charge_follow_unseen(struct guest *guest, struct guest_device *device, enum category category,
			  uint64_t old_bytes, uint64_t new_bytes);

/* The tenant's limit, less what the driver took for its other processes beyond their charges. */
uint64_t charge_limit(struct guest *guest, struct guest_device *device);

/*
 * Around another try for what was refused, while this thread has no call under way. What this
 * process holds without needing it goes, and what is charged for nothing, and nobody keeps anything
 * until the end; what others of the tenant keep goes when they are awaited (ledger/spare.h).
 */
void charge_begin_again(struct guest *guest, struct guest_device *device);
void charge_await_others(struct guest *guest);
void charge_end_again(struct guest *guest);

/*
 * Reclaims the slots of dead processes, which count until then, as soon as the driver has freed their
 * memory. Returns true if there were any.
 */
bool charge_clear_dead(struct guest *guest, struct guest_device *device);

/*
 * After something grew unasked: whether the tenant is over its limit now, with all given back that
 * can be. Calls that others have under way are waited for, about a millisecond, if they alone make
 * the difference.
 */
bool charge_over(struct guest *guest, struct guest_device *device);

/*
 * Code was loaded, or the next call may load some: the driver's figure has to be looked at again.
 * Answers whether that was done, since the limit is near, and what it says is charged.
 */
bool charge_stale(struct guest *guest, struct guest_device *device);

#endif
