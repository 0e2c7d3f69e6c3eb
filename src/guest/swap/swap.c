/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swap thread: one in each process of a swappable tenant, from cuInit on, or from the first
 * call for an AMD GPU. It sleeps on the word in the policy that says what is asked for
 * (ledger/swap.h), and does it: an idle process leaves the device without a call of its own, and a
 * busy one without its threads' doing. It is not the monitor thread, which begins with the first
 * metered launch, and which must not be busy for as long as 100 GiB take. All signals are blocked
 * in it.
 *
 * A process that exits does so with its memory on the device: exit() waits as other calls do.
 */
#include "guest/swap/swap.h"

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
#include "guest/core/guest.h"
#include "guest/core/pass.h"
#include "guest/core/trace.h"
#include "guest/lend/exporter.h"
#include "guest/lend/state.h"
#include "guest/movable/state.h"
#include "guest/process/thread.h"
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

/* From a smaller part than this nothing follows about how long all of it takes. */
#define LEAST_PART 32

struct swap {
	struct guest *guest;
	pid_t pid;  /* a forked child has a copy of this, and no thread */
	bool wants; /* the program waits for memory that is out, by work without a call */
	struct move move;
	struct amd_move amd;
	struct movers movers;
	struct ahead ahead;
	struct swap_answer answer; /* the last */
};

/* Answers a request, with the state that the process is in by now. */
static void swap_answer(struct swap *swap, uint32_t request, enum swap_why why)
{
	struct swap_answer *answer = &swap->answer;

	answer->request = request;
	answer->why = why;
	if (swap_figure_of(answer) == SWAP_FIGURE_KEPT)
		answer->kept = movers_kept(&swap->movers);
	else if (swap_figure_of(answer) == SWAP_FIGURE_FILED)
		answer->filed = movers_file(&swap->movers).holds;
	swap_say(swap->guest->claimed, answer);
	trace(swap->guest, TRACE_SWAP_SAID, -1, answer->state, why, answer->bytes);
}

/* Says that the process is on its way; the answer to the request is still the last one. */
static void swap_begin(struct swap *swap, enum swap_state state)
{
	struct swap_answer answer = swap->answer;

	answer.state = state;
	swap_say(swap->guest->claimed, &answer);
}

/* --- Work that no call tells of --------------------------------------------------------------- */

/*
 * In a tenant that comes back by itself such work counts as use, or waits, as a call does. Returns
 * when to look again.
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

/* Bytes of content that the memory cgroup allows: prepared host memory, and room for more. */
static uint64_t swap_allowed(struct swap *swap, uint64_t room)
{
	return sat_sub_u64(sat_add_u64(movers_kept(&swap->movers), room), move_lacks(&swap->move));
}

/* Announces bytes that are to move out, beside other processes of the tenant: see beside.h. */
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
 * Takes a file for bytes that have no room on the host, by the requester's split or by the memory
 * cgroup. All bytes of a mover are split, also if only a part moves out: more may follow.
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

/* Finds room for bytes that are all on the device. */
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

/* Notes how long moving all of it would have taken, for the role holder and for people. */
static void swap_note_way(const struct swap *swap, bool out, uint64_t moved)
{
	struct slot *slot = swap->guest->claimed;
	struct swap_use *use = swap_use_of(slot_ledger(slot), slot_index(slot));
	uint64_t all = movers_bytes(&swap->movers, SWAP_ALL);

	if (moved < all / LEAST_PART)
		return;
	word_write(out ? &use->out_us : &use->back_us,
		   swap_us((uint64_t)((double)swap->answer.took_ns *
				      (moved ? (double)all / (double)moved : 1))));
}

/*
 * With host pages already allocated, moving out takes as long as moving in did; do not count the
 * first allocation.
 */
static void swap_note_kept(const struct swap *swap)
{
	struct slot *slot = swap->guest->claimed;
	struct swap_use *use = swap_use_of(slot_ledger(slot), slot_index(slot));
	uint32_t back_us = word_read(&use->back_us);

	if (back_us && back_us < word_read(&use->out_us))
		word_write(&use->out_us, back_us);
}

/* The figure of a move that failed. */
static void swap_note_failure(struct swap *swap, enum swap_why why)
{
	struct mover_file file = movers_file(&swap->movers);

	swap->answer.moved = 0;
	if (why == SWAP_FILE)
		swap_lack(swap, file.bytes, file.error);
}

/* Moves `part` of SWAP_ALL out; 0: all of it back. */
static enum swap_why swap_move_measured(struct swap *swap, uint32_t request, uint32_t part)
{
	uint64_t begin = now_monotonic_ns(), before = movers_away(&swap->movers), after, moved;
	enum swap_why why;

	swap->answer.moved = part ? movers_kept(&swap->movers) : 0;
	swap_begin(swap, part ? SWAP_SUSPENDING : SWAP_RESUMING);
	why = movers_move(&swap->movers, part, part ? 0 : swap_part_of(request));
	swap->answer.took_ns = now_monotonic_ns() - begin;
	after = movers_away(&swap->movers);
	moved = after > before ? after - before : before - after;
	trace(swap->guest, TRACE_SWAP_MOVED, -1, swap->answer.took_ns, moved, after);
	if (part && movers_are_away(&swap->movers))
		swap->answer.bytes = after;
	if (why)
		swap_note_failure(swap, why);
	else
		swap_note_way(swap, part, moved);
	return why;
}

/* --- Steps ------------------------------------------------------------------------------------ */

/* The part that a request is for. */
static uint32_t swap_part(uint32_t request)
{
	enum swap_phase phase = swap_phase_of(request);

	return phase == SWAP_BARE || phase == SWAP_GIVEN ? SWAP_ALL : swap_part_of(request);
}

/* All is on the device, and about to be used. */
static enum swap_why swap_settle(struct swap *swap, uint32_t request)
{
	movers_done(&swap->movers);
	exporter_is_back(swap->guest, SHARE_ALL, request);
	swap->answer.list_at = 0;
	return SWAP_FINE;
}

static enum swap_why swap_count(struct swap *swap, uint32_t request)
{
	swap->answer.bytes = movers_bytes(&swap->movers, swap_part(request));
	return SWAP_FINE;
}

/* The gate is shut already. */
static enum swap_why swap_prepare_again(struct swap *swap, uint32_t request)
{
	uint64_t bytes = movers_bytes(&swap->movers, swap_part(request));
	enum swap_why why = swap_find_room(swap, bytes);

	swap->answer.bytes = bytes;
	return why;
}

static enum swap_why swap_prepare(struct swap *swap, uint32_t request)
{
	enum swap_why why;

	swap->answer.bytes = 0;
	swap_begin(swap, SWAP_SUSPENDING);
	why = drain_process(swap->guest, request, &swap->movers);
	if (!why)
		why = movers_prepare(&swap->movers, &swap->answer.obstacle);
	if (!why)
		why = swap_prepare_again(swap, request);
	if (why)
		swap_open(swap);
	FAULT_POINT(GUEST_SWAP_SHUT);
	if (why)
		swap->answer.bytes = 0;
	return why;
}

static enum swap_why swap_out_all(struct swap *swap, uint32_t request)
{
	return swap_move_measured(swap, request, swap_part(request));
}

/* A process that could not move out after all has given its file back: it takes another one. */
static enum swap_why swap_out_first(struct swap *swap, uint32_t request)
{
	bool has_file = !*swap->guest->policy.swap_dir || movers_file(&swap->movers).bytes;
	enum swap_why why = has_file ? SWAP_FINE : swap_take_file(swap);

	return why ? why : swap_out_all(swap, request);
}

/* No PREPARE has looked for the host memory of what follows the first part. */
static bool swap_has_room(struct swap *swap, uint64_t bytes)
{
	if (movers_file(&swap->movers).bytes || bytes <= movers_away(&swap->movers))
		return true;
	bytes = sat_sub_u64(bytes, movers_empty(&swap->movers));
	/* --host-memory counts whatever is free. */
	if (!swap->guest->policy.host_bytes &&
	    bytes > sat_add_u64(movers_kept(&swap->movers), host_memory_room()))
		return false;
	return bytes <= swap_allowed(swap, beside_others(swap->guest));
}

static enum swap_why swap_out_rest(struct swap *swap, uint32_t request)
{
	if (!swap_has_room(swap, movers_bytes(&swap->movers, swap_part(request))))
		return SWAP_HOST;
	return swap_out_all(swap, request);
}

static enum swap_why swap_back(struct swap *swap, uint32_t request)
{
	return swap_move_measured(swap, request, 0);
}

/* Importers that did not know if their exporters had left ask again. */
static enum swap_why swap_return(struct swap *swap, uint32_t request)
{
	enum swap_why why = move_ask_again(&swap->move);

	if (!why)
		why = amd_move_ask_again(&swap->amd);
	if (movers_are_away(&swap->movers))
		return swap_back(swap, request);
	exporter_is_back(swap->guest, SHARE_ALL, request);
	return why;
}

/* Others may have waited for this process, which has been running all the time. */
static enum swap_why swap_say_back(struct swap *swap, uint32_t request)
{
	exporter_is_back(swap->guest, SHARE_ALL, request);
	return SWAP_FINE;
}

/* A reader from outside finds what has left by the list. */
static void swap_show(struct swap *swap)
{
	FAULT_POINT(GUEST_SWAP_BARE);
	swap->answer.list_at = (uint64_t)(uintptr_t)swap->move.list;
}

static enum swap_why swap_make_bare(struct swap *swap, uint32_t request)
{
	enum swap_why why = SWAP_FINE;

	/* The disk may take long for content that was put back into the file. */
	if (swap->move.given)
		swap_begin(swap, SWAP_SUSPENDING);
	else
		why = swap_out_all(swap, request);
	if (why)
		return why;
	why = move_bare(&swap->move);
	if (why)
		swap_note_failure(swap, why);
	return why;
}

static enum swap_why swap_bare(struct swap *swap, uint32_t request)
{
	enum swap_why why = swap_make_bare(swap, request);

	if (!why)
		swap_show(swap);
	return why;
}

/* The content is lost from here on. Its place on the host is found before it is put back. */
static enum swap_why swap_give(struct swap *swap, uint32_t request)
{
	enum swap_why why = swap->move.given ? SWAP_FINE : swap_make_bare(swap, request);

	if (why)
		return why;
	move_give(&swap->move);
	if (swap->move.given && swap_request_split(swap->guest->policy_map))
		why = swap_take_file(swap);
	swap_show(swap);
	return why;
}

/* The requester has CRIU take what is on the devices, too. */
static enum swap_why swap_still(struct swap *swap, uint32_t request)
{
	enum swap_why why;

	if (movers_are_away(&swap->movers))
		return SWAP_ELSEWHERE;
	why = drain_process(swap->guest, request, NULL);
	if (!why)
		swap->answer.obstacle = amd_again_obstacle(swap->guest);
	if (!why && swap->answer.obstacle)
		why = SWAP_DMABUFS;
	if (why) {
		swap_open(swap);
		swap->answer.state = SWAP_RUNNING;
	}
	return why;
}

/*
 * The steps of a phase, by the state that the process is in: TO ends in a state and answers; ON
 * leads to a state, whose step of the same phase follows. A process whose action fails is as
 * swap_state_behind says. COME is no request that is answered.
 */
struct swap_step {
	enum swap_why (*action)(struct swap *swap, uint32_t request); /* NULL: nothing to do */
	enum swap_state next;
	bool on;
};

#define TO(action, state) {action, SWAP_##state, false}
#define ON(action, state) {action, SWAP_##state, true}
#define STEPS(running, ready, returned, suspended)                                                \
	{[SWAP_RUNNING] = running, [SWAP_READY] = ready, [SWAP_RETURNED] = returned,              \
	 [SWAP_SUSPENDED] = suspended}
#define STEPS_PREPARE STEPS(TO(swap_prepare, READY), TO(swap_prepare_again, READY),               \
			    TO(swap_count, READY), TO(NULL, SUSPENDED))
#define STEPS_BEHIND_OUT(action) STEPS(ON(swap_prepare, READY), ON(swap_out_first, SUSPENDED),    \
				       ON(swap_out_all, SUSPENDED), TO(action, SUSPENDED))

static const struct swap_step steps[SWAP_PHASES][SWAP_STATES] = {
	[SWAP_RUN] = STEPS(TO(swap_settle, RUNNING), TO(swap_settle, RUNNING),
			   TO(swap_settle, RUNNING), ON(swap_back, RETURNED)),
	[SWAP_PREPARE] = STEPS_PREPARE,
	[SWAP_PREPARE_CONTEXTS] = STEPS_PREPARE,
	[SWAP_OUT] = STEPS(ON(swap_prepare, READY), TO(swap_out_first, SUSPENDED),
			   TO(swap_out_all, SUSPENDED), TO(swap_out_rest, SUSPENDED)),
	[SWAP_BACK] = STEPS(TO(swap_say_back, RUNNING), TO(swap_return, RETURNED),
			    TO(swap_return, RETURNED), TO(swap_return, RETURNED)),
	[SWAP_BARE] = STEPS_BEHIND_OUT(swap_bare),
	[SWAP_GIVEN] = STEPS_BEHIND_OUT(swap_give),
	[SWAP_STILL] = STEPS(TO(swap_still, READY), TO(swap_still, READY),
			     TO(swap_still, READY), TO(swap_still, READY)),
};

static enum swap_state swap_state(const struct swap *swap)
{
	return movers_are_away(&swap->movers) ? SWAP_SUSPENDED : swap->answer.state;
}

/* Memory that is back after a failure has lost its place on the host: it is as good as prepared. */
static enum swap_state swap_state_behind(const struct swap *swap)
{
	enum swap_state state = swap_state(swap);

	return state == SWAP_RETURNED ? SWAP_READY : state;
}

/*
 * A process that was restored from an image goes on here: the restoring command makes a request. If
 * the slot is another process's by now, this one says nothing in it.
 */
static bool swap_has_slot(struct swap *swap)
{
	int r = slot_adopt(swap->guest->claimed);

	if (r > 0)
		amd_again(swap->guest);
	return r >= 0;
}

/* Moves in what has room, until there is another request or the requester dies. */
static void swap_come(struct swap *swap, uint32_t request)
{
	const uint32_t *word = swap_request(swap->guest->policy_map);

	while (word_acquire(word) == request && swap_is_asked(swap->guest->dir)) {
		if (!movers_come(&swap->movers))
			futex_wait_until(word, request, now_monotonic_ns() + TUNING_RESIDENCY_TRY_NS);
	}
	movers_come_end(&swap->movers);
}

static enum swap_why swap_step(struct swap *swap, uint32_t request, enum swap_phase phase)
{
	const struct swap_step *step;
	enum swap_why why;

	swap->answer.moved = 0;
	swap->answer.state = swap_state(swap);
	do {
		step = &steps[phase][swap->answer.state];
		why = step->action ? step->action(swap, request) : SWAP_FINE;
		swap->answer.state = why ? swap_state_behind(swap) : step->next;
	} while (!why && step->on);
	return why;
}

static void swap_act(struct swap *swap, uint32_t request, enum swap_phase phase)
{
	bool again = swap->answer.state == SWAP_RUNNING, filed;
	enum swap_why why;

	if (!swap_has_slot(swap))
		return;
	trace_follow(swap->guest);
	trace(swap->guest, TRACE_SWAP_ASKED, -1, phase, swap_part_of(request),
	      swap_is_by_command(swap->guest->dir));
	ahead_end(&swap->ahead);
	if (phase == SWAP_COME) {
		swap_come(swap, request);
		return;
	}
	if (phase == SWAP_PREPARE || phase == SWAP_PREPARE_CONTEXTS)
		swap->move.contexts = phase == SWAP_PREPARE_CONTEXTS;
	filed = movers_file(&swap->movers).bytes;
	why = swap_step(swap, request, phase);
	swap_answer(swap, request, why);
	if (phase == SWAP_OUT && movers_are_away(&swap->movers))
		ahead_left(&swap->ahead, swap_part_of(request));
	if (phase != SWAP_RUN || why)
		return;
	swap_let_on(swap);
	if (ahead_back(&swap->ahead, swap_part_of(request), again, filed))
		swap_note_kept(swap);
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

		/* A phase of a later version is taken for RUN. */
		if (phase >= SWAP_PHASES)
			phase = SWAP_RUN;
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
	atomic_store(&guest->movable->yields, false);
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
	guest->lend->tenant_before = exporter_tenant(guest);
	swap->guest = guest;
	swap->pid = getpid();
	swap->move.guest = guest;
	swap->amd.guest = guest;
	swap->movers = (struct movers){{{&move_kind, &swap->move}, {&amd_move_kind, &swap->amd}}};
	swap->answer.state = SWAP_RUNNING;
	swap->ahead = (struct ahead){.guest = guest, .movers = &swap->movers};
	if (thread_start(swap_watch, swap)) {
		munmap(swap, sizeof(*swap));
		return;
	}
	swap_own = swap;
	atexit(swap_exit);
	atomic_store(&guest->movable->yields, true);
	if (guest->use)
		residency_start(guest);
}
