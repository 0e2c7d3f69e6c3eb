/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swap thread: one in each process of a swappable tenant, from cuInit on, or from the first
 * call for an AMD GPU. It sleeps on the word in the policy that says what is asked for
 * (ledger/swap.h), and does it: an idle process leaves the device without a call of its own, and a
 * busy one without its threads' doing. It is not the monitor thread, which begins with the first
 * metered launch, and which must not be away for as long as 100 GiB take. All signals are blocked
 * in it.
 *
 * A process that exits does so with its memory on the device: exit() waits as other calls do.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/futex.h"
#include "base/host_memory.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/word.h"
#include "guest/amd/memory/again.h"
#include "guest/core/exporter.h"
#include "guest/core/guest.h"
#include "guest/core/pass.h"
#include "guest/core/thread.h"
#include "guest/core/trace.h"
#include "guest/swap/ahead.h"
#include "guest/swap/amd/amd_move.h"
#include "guest/swap/beside.h"
#include "guest/swap/drain.h"
#include "guest/swap/move.h"
#include "guest/swap/residency.h"
#include "ledger/slot.h"
#include "ledger/spare.h"
#include "ledger/swap.h"
#include "sched/tuning.h"

/* How often the thread checks that the requester lives, in phases that end with it. */
#define LOOK_NS (50 * NS_PER_MS)

/* Retry interval for a process that was told to run but found no room on the device. */
#define AGAIN_NS NS_PER_S

/* How long all of it takes is known from a part that is no smaller. */
#define LEAST_PART 32

struct swap {
	struct guest *guest;
	pid_t pid;  /* a forked child has a copy of this, and no thread */
	bool wants; /* the program waits for what is away, by work that no call told of */
	struct move move;
	struct amd_move amd;
	struct movers movers;
	struct ahead ahead;
	struct swap_answer answer; /* the last */
};

static void swap_answer(struct swap *swap, uint32_t request, enum swap_state state,
			enum swap_why why)
{
	swap->answer.request = request;
	swap->answer.state = state;
	swap->answer.why = why;
	swap_say(swap->guest->claimed, &swap->answer);
	trace(swap->guest, TRACE_SWAP_SAID, -1, state, why, swap->answer.bytes);
}

/* On the way: what the last answer was is known, and the request is not answered yet. */
static void swap_begin(struct swap *swap, enum swap_state state)
{
	struct swap_answer answer = swap->answer;

	answer.state = state;
	swap_say(swap->guest->claimed, &answer);
}

/* --- Work that no call tells of --------------------------------------------------------------- */

/*
 * In a tenant that comes back by itself it is use, or waits, as a call is and does. When to look
 * again.
 */
static uint64_t swap_look(struct swap *swap)
{
	enum mover_work work;

	if (!swap->guest->use || swap->wants)
		return UINT64_MAX;
	work = movers_work(&swap->movers);
	if (work == MOVER_WORKS && swap->answer.state == SWAP_RUNNING)
		pass_use(swap->guest);
	if (work == MOVER_WORKS && swap->answer.state != SWAP_RUNNING) {
		swap->wants = true;
		pass_want(swap->guest);
		return UINT64_MAX;
	}
	return work == MOVER_BY_CALLS ? UINT64_MAX
				      : now_monotonic_ns() + TUNING_RESIDENCY_LOOK_NS;
}

/* --- The gate --------------------------------------------------------------------------------- */

static void swap_let_on(struct swap *swap)
{
	if (swap->wants)
		pass_want_no_more(swap->guest);
	swap->wants = false;
	pass_open(swap->guest);
}

/* Nothing was moved, or all of it is back. */
static void swap_open(struct swap *swap)
{
	movers_done(&swap->movers);
	swap_let_on(swap);
}

/* What the memory cgroup allows for content, with what has its place on the host. */
static uint64_t swap_allowed(struct swap *swap, uint64_t room)
{
	return sat_sub_u64(sat_add_u64(movers_kept(&swap->movers), room), move_lacks(&swap->move));
}

/* Of what is to leave, beside others of the tenant that are asked for theirs: see beside.h. */
static uint64_t swap_claim(struct swap *swap, uint64_t bytes)
{
	swap->answer.bytes = bytes;
	swap->answer.moved = movers_kept(&swap->movers);
	swap->answer.why = SWAP_FINE;
	swap_begin(swap, SWAP_SUSPENDING);
	return swap_allowed(swap, beside_claims(swap->guest));
}

/* Says what has no room on the host; with an error, the file of that size that could not be had. */
static void swap_lack(struct swap *swap, uint64_t bytes, int error)
{
	if (error) {
		swap->answer.file.bytes = bytes;
		swap->answer.file.error = -error;
	} else {
		swap->answer.lacks = bytes;
	}
}

/*
 * A file for what has no room on the host, by whoever asks or by the memory cgroup. All of what a
 * mover has is divided, however much of that is to leave: more may follow.
 */
static enum swap_why swap_take_file(struct swap *swap)
{
	uint64_t split = swap_request_split(swap->guest->policy_map);
	const char *dir = swap->guest->policy.swap_dir;
	uint64_t room = swap_claim(swap, movers_bytes(&swap->movers, SWAP_ALL));

	for (int i = 0; i < MOVERS; i++) {
		const struct mover *mover = &swap->movers.mover[i];
		uint64_t bytes = mover->kind->bytes(mover->self, SWAP_ALL);
		uint64_t host = min_u64(swap_host_bytes(bytes, split), room);
		int error;

		if (host < bytes) {
			host -= host % STAGE_STEP_BYTES;
			if (!mover->kind->take(mover->self, host, dir)) {
				error = mover->kind->file(mover->self).error;
				swap_lack(swap, bytes - host, error);
				return error ? SWAP_FILE : SWAP_HOST;
			}
		}
		room -= host;
	}
	return SWAP_FINE;
}

/* For so much, of which nothing is away. */
static enum swap_why swap_find_room(struct swap *swap, uint64_t bytes)
{
	if (*swap->guest->policy.swap_dir)
		return swap_take_file(swap);
	if (bytes <= swap_claim(swap, bytes))
		return SWAP_FINE;
	swap->answer.lacks = bytes;
	return SWAP_HOST;
}

/* --- What is asked for ------------------------------------------------------------------------ */

static uint32_t swap_us(uint64_t ns)
{
	uint64_t us = ns / NS_PER_US + 1;

	return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

/* For whoever decides how long a turn is, and for people: how long all of it would have taken. */
static void swap_note_way(const struct swap *swap, bool out, uint64_t moved)
{
	struct slot *slot = swap->guest->claimed;
	struct swap_use *use = swap_use_of(slot_ledger(slot), slot_index(slot));
	uint64_t all = movers_bytes(&swap->movers, SWAP_ALL);

	/* From a small part nothing follows about all of it. */
	if (moved < all / LEAST_PART)
		return;
	word_write(out ? &use->out_us : &use->back_us,
		   swap_us((uint64_t)((double)swap->answer.took_ns *
				      (moved ? (double)all / (double)moved : 1))));
}

/* What has its place on the host leaves as fast as it came, whatever it took to find that place. */
static void swap_note_kept(const struct swap *swap)
{
	struct slot *slot = swap->guest->claimed;
	struct swap_use *use = swap_use_of(slot_ledger(slot), slot_index(slot));
	uint32_t back_us = word_read(&use->back_us);

	if (back_us && back_us < word_read(&use->out_us))
		word_write(&use->out_us, back_us);
}

/* So much of it, 0: back. */
static enum swap_why swap_move_measured(struct swap *swap, uint32_t request, uint32_t part)
{
	uint64_t begin = now_monotonic_ns(), before = movers_away(&swap->movers), after, moved;
	enum swap_why why;

	swap_begin(swap, part ? SWAP_SUSPENDING : SWAP_RESUMING);
	why = movers_move(&swap->movers, part, part ? 0 : swap_part_of(request));
	swap->answer.took_ns = now_monotonic_ns() - begin;
	after = movers_away(&swap->movers);
	moved = after > before ? after - before : before - after;
	trace(swap->guest, TRACE_SWAP_MOVED, -1, swap->answer.took_ns, moved, after);
	if (part && movers_are_away(&swap->movers))
		swap->answer.bytes = after;
	if (!why)
		swap_note_way(swap, part, moved);
	return why;
}

/* What has moved, or could not. With what is in a file, or why there is none. */
static void swap_answer_away(struct swap *swap, uint32_t request, enum swap_state state,
			     enum swap_why why)
{
	struct mover_file file = movers_file(&swap->movers);

	swap->answer.filed = file.holds;
	if (why == SWAP_FILE || why == SWAP_HOST)
		swap_lack(swap, why == SWAP_FILE ? file.bytes : 0,
			  why == SWAP_FILE ? file.error : 0);
	swap_answer(swap, request, state, why);
}

static void swap_run(struct swap *swap, uint32_t request)
{
	uint32_t part = swap_part_of(request);
	bool again = swap->answer.state == SWAP_RUNNING, filed = movers_file(&swap->movers).bytes;
	enum swap_why why =
		movers_are_away(&swap->movers) ? swap_move_measured(swap, request, 0) : SWAP_FINE;

	if (why) {
		swap_answer_away(swap, request, SWAP_SUSPENDED, why);
		return;
	}
	movers_done(&swap->movers);
	exporter_is_back(swap->guest, SHARE_ALL, request);
	swap->answer.list_at = 0;
	swap_answer(swap, request, SWAP_RUNNING, SWAP_FINE);
	swap_let_on(swap);
	if (ahead_back(&swap->ahead, part, again, filed))
		swap_note_kept(swap);
}

/* Nothing moves. Whether it is ready to, with so much of it. */
static bool swap_prepare(struct swap *swap, uint32_t request, uint32_t part)
{
	enum swap_why why = SWAP_FINE;
	uint64_t bytes;

	if (swap->answer.state == SWAP_READY || swap->answer.state == SWAP_RETURNED) {
		bytes = movers_bytes(&swap->movers, part);
		/* One that returned has its content still where it was. */
		if (swap->answer.state == SWAP_READY)
			why = swap_find_room(swap, bytes);
		swap->answer.bytes = bytes;
		swap_answer(swap, request,
			    movers_are_away(&swap->movers) ? SWAP_SUSPENDED : SWAP_READY, why);
		return !why;
	}
	bytes = swap->answer.bytes = swap->answer.moved = 0;
	swap_begin(swap, SWAP_SUSPENDING);
	why = drain_process(swap->guest, request, &swap->movers);
	if (!why)
		why = movers_prepare(&swap->movers, &swap->answer.obstacle);
	if (!why) {
		bytes = movers_bytes(&swap->movers, part);
		why = swap_find_room(swap, bytes);
	}
	if (why)
		swap_open(swap);
	FAULT_POINT(GUEST_SWAP_SHUT);
	swap->answer.bytes = why ? 0 : bytes;
	if (!why)
		swap->answer.kept = movers_kept(&swap->movers);
	swap_answer(swap, request, why ? SWAP_RUNNING : SWAP_READY, why);
	return !why;
}

/*
 * What follows was looked at by no PREPARE. Who could not leave after all has given its file away;
 * what has just come back is where it was, too.
 */
static enum swap_why swap_has_room(struct swap *swap, uint64_t bytes)
{
	if (swap->answer.state == SWAP_RETURNED || movers_file(&swap->movers).bytes)
		return SWAP_FINE;
	if (!movers_are_away(&swap->movers))
		return *swap->guest->policy.swap_dir ? swap_take_file(swap) : SWAP_FINE;
	if (bytes <= movers_away(&swap->movers))
		return SWAP_FINE;
	/* Who says how much may be on the host does so whatever is free. */
	if (!swap->guest->policy.host_bytes &&
	    bytes > sat_add_u64(movers_kept(&swap->movers), host_memory_room()))
		return SWAP_HOST;
	return bytes <= swap_allowed(swap, beside_others(swap->guest)) ? SWAP_FINE : SWAP_HOST;
}

static void swap_leave(struct swap *swap, uint32_t request, uint32_t part)
{
	enum swap_why why;
	uint64_t bytes;

	if (!movers_are_away(&swap->movers) && swap->answer.state != SWAP_READY &&
	    swap->answer.state != SWAP_RETURNED && !swap_prepare(swap, request, part))
		return;
	bytes = movers_bytes(&swap->movers, part);
	why = swap_has_room(swap, bytes);
	if (!why)
		why = swap_move_measured(swap, request, part);
	swap_answer_away(swap, request,
			 movers_are_away(&swap->movers) ? SWAP_SUSPENDED : SWAP_READY, why);
}

/* What whoever asks puts back, or somebody from an image, gets its place first. */
static enum swap_why swap_give_content(struct swap *swap)
{
	move_give(&swap->move);
	return swap->move.given && swap_request_split(swap->guest->policy_map)
		       ? swap_take_file(swap)
		       : SWAP_FINE;
}

/* So that who looks from outside finds what has left; and for GIVEN all of that is gone then. */
static void swap_bare(struct swap *swap, uint32_t request, bool give)
{
	enum swap_why why = SWAP_FINE;

	if (!swap->move.away)
		swap_leave(swap, request, SWAP_ALL);
	else if (!swap->move.given)
		why = swap_move_measured(swap, request, SWAP_ALL);
	if (!swap->move.away)
		return;
	/* A disk may take long for what was put in the file. */
	if (swap->move.given && !give)
		swap_begin(swap, SWAP_SUSPENDING);
	if (!why && (!give || !swap->move.given))
		why = move_bare(&swap->move);
	if (why) {
		swap_answer_away(swap, request, SWAP_SUSPENDED, why);
		return;
	}
	if (give)
		why = swap_give_content(swap);
	FAULT_POINT(GUEST_SWAP_BARE);
	swap->answer.list_at = (uint64_t)(uintptr_t)swap->move.list;
	if (why)
		swap_answer(swap, request, SWAP_SUSPENDED, why);
	else
		swap_answer_away(swap, request, SWAP_SUSPENDED, SWAP_FINE);
}

/* Whoever asks has CRIU take what is on the devices, too. */
static void swap_still(struct swap *swap, uint32_t request)
{
	enum swap_why why = movers_are_away(&swap->movers) ? SWAP_ELSEWHERE : SWAP_FINE;

	if (!why)
		why = drain_process(swap->guest, request, NULL);
	if (!why)
		swap->answer.obstacle = amd_again_obstacle(swap->guest);
	if (!why && swap->answer.obstacle)
		why = SWAP_DMABUFS;
	if (why && !movers_are_away(&swap->movers))
		swap_open(swap);
	swap_answer(swap, request, why ? swap->answer.state : SWAP_READY, why);
}

/*
 * Here a process finds itself when it comes back from an image. Whoever had it come back asks for
 * something else than before. One whose slot is another's says nothing in it.
 */
static bool swap_has_slot(struct swap *swap)
{
	int r = slot_adopt(swap->guest->claimed);

	if (r > 0)
		amd_again(swap->guest);
	return r >= 0;
}

/* As long as that stands, and who asked lives. */
static void swap_come(struct swap *swap, uint32_t request)
{
	const uint32_t *word = swap_request(swap->guest->policy_map);

	while (word_acquire(word) == request && swap_is_asked(swap->guest->dir)) {
		if (!movers_come(&swap->movers))
			futex_wait_until(word, request, now_monotonic_ns() + TUNING_RESIDENCY_TRY_NS);
	}
	movers_come_end(&swap->movers);
}

static void swap_return(struct swap *swap, uint32_t request)
{
	bool runs = swap->answer.state == SWAP_RUNNING;
	enum swap_why why = runs ? SWAP_FINE : move_ask_again(&swap->move);

	if (!runs && !why)
		why = amd_move_ask_again(&swap->amd);
	if (!movers_are_away(&swap->movers)) {
		exporter_is_back(swap->guest, SHARE_ALL, request);
		swap_answer(swap, request,
			    runs  ? SWAP_RUNNING
			    : why ? SWAP_READY
				  : SWAP_RETURNED,
			    why);
		return;
	}
	why = swap_move_measured(swap, request, 0);
	swap_answer_away(swap, request, why ? SWAP_SUSPENDED : SWAP_RETURNED, why);
}

static void swap_act(struct swap *swap, uint32_t request, enum swap_phase phase)
{
	if (!swap_has_slot(swap))
		return;
	trace_follow(swap->guest);
	trace(swap->guest, TRACE_SWAP_ASKED, -1, phase, swap_part_of(request),
	      swap_is_by_command(swap->guest->dir));
	ahead_end(&swap->ahead);
	switch (phase) {
	case SWAP_PREPARE:
	case SWAP_PREPARE_CONTEXTS:
		swap->move.contexts = phase == SWAP_PREPARE_CONTEXTS;
		if (movers_are_away(&swap->movers))
			swap_answer_away(swap, request, SWAP_SUSPENDED, SWAP_FINE);
		else
			swap_prepare(swap, request, swap_part_of(request));
		break;
	case SWAP_OUT:
		swap_leave(swap, request, swap_part_of(request));
		if (movers_are_away(&swap->movers))
			ahead_left(&swap->ahead, swap_part_of(request));
		break;
	case SWAP_COME:
		swap_come(swap, request);
		break;
	case SWAP_BACK:
		swap_return(swap, request);
		break;
	case SWAP_BARE:
		swap_bare(swap, request, false);
		break;
	case SWAP_GIVEN:
		swap_bare(swap, request, true);
		break;
	case SWAP_STILL:
		swap_still(swap, request);
		break;
	default:
		swap_run(swap, request);
		break;
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
		while (word_acquire(word) == request && phase != swap_phase_rests(phase)) {
			futex_wait_until(word, request, now_monotonic_ns() + LOOK_NS);
			if (swap_is_asked(swap->guest->dir) || word_acquire(word) != request)
				continue;
			phase = swap_phase_rests(phase);
			swap_act(swap, request, phase);
		}
		while (word_acquire(word) == request) {
			movers_yield(&swap->movers);
			if (phase != SWAP_RUN || !movers_are_away(&swap->movers)) {
				futex_wait_until(word, request,
						 min_u64(ahead_step(&swap->ahead, &swap->answer),
							 swap_look(swap)));
				continue;
			}
			/* It was stopped until the others ran, and has to follow them. */
			futex_wait_until(word, request, now_monotonic_ns() + AGAIN_NS);
			if (word_acquire(word) == request)
				swap_act(swap, request, phase);
		}
	}
	return NULL;
}

static struct swap *swap_own;

/* Has a pass from here on, so that nothing moves while the driver shuts down. */
static void swap_exit(void)
{
	struct guest *guest = guest_made();

	if (!guest || !guest->swappable)
		return;
	pass_wait(guest);
	if (swap_own->pid != getpid())
		return;
	move_exit(&swap_own->move);
	/* What is spare goes when the process ends, as all else does: nobody is to wait for that. */
	atomic_store(&guest->yields, false);
	spare_end(guest->claimed);
}

void swap_start(struct guest *guest)
{
	struct swap *swap;

	if (!once_take(&guest->swaps))
		return;
	swap = pages_map(sizeof(*swap));
	if (!swap)
		return; /* nothing of this process is said: nobody suspends the tenant */
	guest->tenant_before = exporter_tenant(guest);
	swap->guest = guest;
	swap->pid = getpid();
	swap->move.guest = guest;
	swap->amd.guest = guest;
	swap->movers = (struct movers){{{&move_kind, &swap->move}, {&amd_move_kind, &swap->amd}}};
	swap->ahead = (struct ahead){.guest = guest, .movers = &swap->movers};
	if (thread_start(swap_watch, swap)) {
		munmap(swap, sizeof(*swap));
		return;
	}
	swap_own = swap;
	atexit(swap_exit);
	atomic_store(&guest->yields, true);
	if (guest->use)
		residency_start(guest);
}
