/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate in front of device memory, in the processes of a swappable tenant. Every call that uses,
 * takes or gives device memory (nvidia/cuda_kind.def says which) has a pass while it is under way.
 * The swap thread shuts the gate, and then waits until no pass is out; then nobody touches memory:
 *
 *	program's thread	inside + 1 ── is it open? ── the driver ── inside - 1
 *	swap thread		shut ── inside == 0? ── nobody touches memory until it is open again
 *
 * Each publishes and then checks, so one of the two sees the other. It is no lock: a thread that
 * finds the gate shut takes its count back and sleeps. Calls within a call of the same thread pass.
 *
 * In a tenant that comes back by itself a call also notes that memory is used, and a thread that
 * finds the gate shut notes that it waits: ledger/swap.h.
 *
 * If the tenant is not swappable a call reads one word that never changes. A launch or a copy reads
 * none if nothing else is limited, since the policy's gate word is open only then.
 */
#ifndef ALLOT_GUEST_CORE_PASS_H
#define ALLOT_GUEST_CORE_PASS_H

#include "guest/core/guest.h"

enum pass_shut {
	PASS_OPEN,
	/* work is to end; the thread that sees the request withdrawn opens it again */
	PASS_SHUTTING,
	PASS_SHUT,     /* only the swap thread opens it */
};

/* By each vendor's part when the process has its slot, before a call can need the gate. */
void pass_init(struct guest *guest);

/* Waits until it is open. Answers the guest, for pass_leave. */
struct guest *pass_wait(struct guest *guest);
/* The same where there is no time to wait: NULL when it is shut. */
struct guest *pass_try(struct guest *guest);
void pass_end(struct guest *guest);

static inline struct guest *pass_enter(struct guest *guest)
{
	return __builtin_expect(guest->swappable, 0) ? pass_wait(guest) : NULL;
}

static inline void pass_leave(struct guest **guest)
{
	if (__builtin_expect(*guest != NULL, 0))
		pass_end(*guest);
}

/* This thread waits for memory to come back, or for more of it; and no more. Wakes who decides. */
void pass_want(struct guest *guest);
void pass_want_no_more(struct guest *guest);

/* Has no pass for a while, in the middle of a call; pass_wait ends that. False: in a call of a call. */
bool pass_lend(struct guest *guest);

/* Around a call that waits for work on the device: it is used as long as that takes. */
void pass_work(struct guest *guest, int more);

#define PASS_WORK(guest, call)                                             \
	({                                                                 \
		CUresult work_result_;                                     \
		if (__builtin_expect((guest)->use != NULL, 0))             \
			pass_work(guest, 1);                               \
		work_result_ = call;                                       \
		if (__builtin_expect((guest)->use != NULL, 0))             \
			pass_work(guest, -1);                              \
		work_result_;                                              \
	})

/* Memory is used by work that no call told of. */
void pass_use(struct guest *guest);

/* --- For the swap thread alone -------------------------------------------------------------- */

/* pass_shut begins to shut an open gate. pass_is_empty: true if nobody has a pass. */
void pass_shut(struct guest *guest);
bool pass_is_empty(const struct guest *guest);
/* From shutting to shut. False: it was opened meanwhile, since nobody asks any more. */
bool pass_confirm(struct guest *guest);
void pass_open(struct guest *guest);

#endif
