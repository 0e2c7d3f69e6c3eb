/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swap thread: one in each process of a swappable tenant, from cuInit on, or from the first call
 * for an AMD GPU. It sleeps on the word
 * in the policy that says what is asked for (ledger/swap.h), and does it: an idle process leaves the
 * device without a call of its own, and a busy one without its threads' doing. It is not the monitor
 * thread, which begins with the first metered launch, and which must not be away for as long as 100
 * GiB take. All signals are blocked in it.
 *
 * A process that exits does so with its memory on the device: exit() waits as other calls do.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/fault.h"
#include "base/futex.h"
#include "base/now.h"
#include "base/word.h"
#include "guest/core/guest.h"
#include "guest/core/pass.h"
#include "guest/core/thread.h"
#include "guest/swap/amd/amd_move.h"
#include "guest/swap/cgroup_room.h"
#include "guest/swap/drain.h"
#include "guest/swap/move.h"
#include "guest/swap/residency.h"
#include "ledger/slot.h"
#include "ledger/swap.h"

/* So often a process looks whether who asked still lives, where that matters. */
#define LOOK_NS (50 * NS_PER_MS)

#define MOVERS 2

struct swap {
	struct guest *guest;
	struct move move;
	struct amd_move amd;
	struct mover mover[MOVERS];
	struct swap_answer answer; /* the last */
};

static void swap_answer(struct swap *swap, uint32_t request, enum swap_state state,
			enum swap_why why)
{
	swap->answer.request = request;
	swap->answer.state = state;
	swap->answer.why = why;
	swap_say(swap->guest->claimed, &swap->answer);
}

/* On the way: what the last answer was is known, and the request is not answered yet. */
static void swap_begin(struct swap *swap, enum swap_state state)
{
	struct swap_answer answer = swap->answer;

	answer.state = state;
	swap_say(swap->guest->claimed, &answer);
}

/* --- All vendors' memory ---------------------------------------------------------------------- */

static bool swap_is_away(const struct swap *swap)
{
	for (int i = 0; i < MOVERS; i++)
		if (swap->mover[i].kind->is_away(swap->mover[i].self))
			return true;
	return false;
}

static void swap_done(struct swap *swap)
{
	for (int i = 0; i < MOVERS; i++)
		swap->mover[i].kind->done(swap->mover[i].self);
}

/* Nothing was moved, or all of it is back. */
static void swap_open(struct swap *swap)
{
	swap_done(swap);
	pass_open(swap->guest);
}

static enum swap_why swap_find_obstacle(struct swap *swap)
{
	enum swap_why why = SWAP_FINE;

	for (int i = 0; !why && i < MOVERS; i++)
		why = swap->mover[i].kind->prepare(swap->mover[i].self, &swap->answer.amount);
	return why;
}

static uint64_t swap_bytes(struct swap *swap)
{
	uint64_t bytes = 0;

	for (int i = 0; i < MOVERS; i++)
		bytes += swap->mover[i].kind->bytes(swap->mover[i].self);
	return bytes;
}

static enum swap_why swap_move_one(const struct mover *mover, bool out)
{
	return out ? mover->kind->out(mover->self) : mover->kind->back(mover->self);
}

/* All of them, or none: those before one that fails go the other way again. */
static enum swap_why swap_move(struct swap *swap, bool out)
{
	enum swap_why why = SWAP_FINE;
	int i = 0;

	while (i < MOVERS && !(why = swap_move_one(&swap->mover[i], out)))
		i++;
	while (why && i-- > 0)
		swap_move_one(&swap->mover[i], !out);
	return why;
}

/* --- What is asked for ------------------------------------------------------------------------ */

static uint32_t swap_us(uint64_t ns)
{
	uint64_t us = ns / NS_PER_US + 1;

	return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

/* All of it, and for whoever decides how long a turn is, and for people, how long that took. */
static enum swap_why swap_move_measured(struct swap *swap, bool out)
{
	struct slot *slot = swap->guest->claimed;
	struct swap_use *use = swap_use_of(slot_ledger(slot), slot_index(slot));
	uint64_t begin = now_monotonic_ns();
	enum swap_why why;

	swap_begin(swap, out ? SWAP_SUSPENDING : SWAP_RESUMING);
	why = swap_move(swap, out);
	swap->answer.took_ns = now_monotonic_ns() - begin;
	if (!why)
		word_write(out ? &use->out_us : &use->back_us, swap_us(swap->answer.took_ns));
	return why;
}

static void swap_run(struct swap *swap, uint32_t request)
{
	enum swap_why why = swap_is_away(swap) ? swap_move_measured(swap, false) : SWAP_FINE;

	if (why) {
		swap_answer(swap, request, SWAP_SUSPENDED, why);
		return;
	}
	swap_done(swap);
	swap->answer.amount = swap->answer.list_at = 0;
	swap_answer(swap, request, SWAP_RUNNING, SWAP_FINE);
	pass_open(swap->guest);
}

/* Nothing moves. Whether it is ready to. */
static bool swap_prepare(struct swap *swap, uint32_t request)
{
	enum swap_why why;
	uint64_t bytes = 0;

	if (swap->answer.state == SWAP_READY || swap->answer.state == SWAP_RETURNED) {
		swap_answer(swap, request, swap_is_away(swap) ? SWAP_SUSPENDED : SWAP_READY, SWAP_FINE);
		return true;
	}
	swap->answer.amount = 0;
	swap_begin(swap, SWAP_SUSPENDING);
	why = drain_process(swap->guest, request, swap->mover, MOVERS);
	if (!why)
		why = swap_find_obstacle(swap);
	if (!why) {
		bytes = swap_bytes(swap);
		if (bytes > cgroup_room()) {
			swap->answer.amount = bytes;
			why = SWAP_HOST;
		}
	}
	if (why)
		swap_open(swap);
	FAULT_POINT(GUEST_SWAP_SHUT);
	swap->answer.bytes = why ? 0 : bytes;
	swap_answer(swap, request, why ? SWAP_RUNNING : SWAP_READY, why);
	return !why;
}

static void swap_leave(struct swap *swap, uint32_t request)
{
	enum swap_why why;

	if (swap_is_away(swap)) {
		swap_answer(swap, request, SWAP_SUSPENDED, SWAP_FINE);
		return;
	}
	if (swap->answer.state != SWAP_READY && swap->answer.state != SWAP_RETURNED &&
	    !swap_prepare(swap, request))
		return;
	why = swap_move_measured(swap, true);
	swap_answer(swap, request, why ? SWAP_READY : SWAP_SUSPENDED, why);
}

/* So that who looks from outside finds what has left; and for GIVEN all of that is gone then. */
static void swap_bare(struct swap *swap, uint32_t request, bool give)
{
	if (!swap->move.away)
		swap_leave(swap, request);
	if (!swap->move.away)
		return;
	if ((!give || !swap->move.given) && !move_bare(&swap->move)) {
		swap_answer(swap, request, SWAP_SUSPENDED, SWAP_HOST);
		return;
	}
	if (give)
		move_give(&swap->move);
	FAULT_POINT(GUEST_SWAP_BARE);
	swap->answer.list_at = (uint64_t)(uintptr_t)swap->move.list;
	swap_answer(swap, request, SWAP_SUSPENDED, SWAP_FINE);
}

/*
 * Here a process finds itself when it comes back from an image, with the content given away before.
 * Whoever had it come back asks again. One whose slot is another's says nothing in it.
 */
static void swap_give(struct swap *swap, uint32_t request)
{
	if (!slot_adopt(swap->guest->claimed))
		swap_bare(swap, request, true);
}

static void swap_return(struct swap *swap, uint32_t request)
{
	enum swap_why why;

	if (!swap_is_away(swap)) {
		swap_answer(swap, request,
			    swap->answer.state == SWAP_RUNNING ? SWAP_RUNNING : SWAP_RETURNED,
			    SWAP_FINE);
		return;
	}
	why = swap_move_measured(swap, false);
	swap_answer(swap, request, why ? SWAP_SUSPENDED : SWAP_RETURNED, why);
}

static void swap_act(struct swap *swap, uint32_t request, enum swap_phase phase)
{
	switch (phase) {
	case SWAP_PREPARE:
	case SWAP_PREPARE_CONTEXTS:
		swap->move.contexts = phase == SWAP_PREPARE_CONTEXTS;
		if (swap_is_away(swap))
			swap_answer(swap, request, SWAP_SUSPENDED, SWAP_FINE);
		else
			swap_prepare(swap, request);
		break;
	case SWAP_OUT:
		swap_leave(swap, request);
		break;
	case SWAP_BACK:
		swap_return(swap, request);
		break;
	case SWAP_BARE:
		swap_bare(swap, request, false);
		break;
	case SWAP_GIVEN:
		swap_give(swap, request);
		break;
	default:
		swap_run(swap, request);
		break;
	}
}

/* Where a request that is on the way to something ends when who asked is dead. */
static enum swap_phase swap_fallback(enum swap_phase phase)
{
	switch (phase) {
	case SWAP_PREPARE:
	case SWAP_PREPARE_CONTEXTS:
		return SWAP_RUN;
	case SWAP_BACK:
		return SWAP_OUT;
	default:
		return phase;
	}
}

static void *swap_watch(void *arg)
{
	struct swap *swap = arg;
	const uint32_t *word = swap_request(swap->guest->policy_map);

	/* For people who look at a program's threads. */
	prctl(PR_SET_NAME, "allot-swap");
	for (;;) {
		uint32_t request = word_acquire(word);
		enum swap_phase phase = swap_phase_of(request);

		swap_act(swap, request, phase);
		while (word_acquire(word) == request && phase != swap_fallback(phase)) {
			futex_wait_until(word, request, now_monotonic_ns() + LOOK_NS);
			if (swap_is_asked(swap->guest->dir) || word_acquire(word) != request)
				continue;
			phase = swap_fallback(phase);
			swap_act(swap, request, phase);
		}
		while (word_acquire(word) == request)
			futex_wait(word, request);
	}
	return NULL;
}

/* Has a pass from here on, so that nothing moves while the driver shuts down. */
static void swap_exit(void)
{
	struct guest *guest = guest_made();

	if (guest && guest->swappable)
		pass_wait(guest);
}

void swap_start(struct guest *guest)
{
	struct swap *swap;

	if (!once_take(&guest->swaps))
		return;
	swap = mmap(NULL, sizeof(*swap), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (swap == MAP_FAILED)
		return; /* nothing of this process is said: nobody suspends the tenant */
	swap->guest = guest;
	swap->move.guest = guest;
	swap->amd.guest = guest;
	swap->mover[0] = (struct mover){&move_kind, &swap->move};
	swap->mover[1] = (struct mover){&amd_move_kind, &swap->amd};
	if (thread_start(swap_watch, swap)) {
		munmap(swap, sizeof(*swap));
		return;
	}
	atexit(swap_exit);
	if (guest->use)
		residency_start(guest);
}
