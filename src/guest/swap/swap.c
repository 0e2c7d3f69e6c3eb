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
#include "guest/swap/amd/amd_move.h"
#include "guest/swap/beside.h"
#include "guest/swap/cgroup_room.h"
#include "guest/swap/drain.h"
#include "guest/swap/move.h"
#include "guest/swap/residency.h"
#include "ledger/role/residency_file.h"
#include "ledger/slot.h"
#include "ledger/spare.h"
#include "ledger/swap.h"
#include "sched/tuning.h"

/* So often a process looks whether who asked still lives, where that matters. */
#define LOOK_NS (50 * NS_PER_MS)

/*
 * Host memory that content came back from is kept for so long, ready for the next way out, which
 * takes half as long then, or a part of that where the machine's memory is a guest's of another
 * one. But only while so much of what the machine has is free beside it, which is looked at so
 * often: of tenants that take turns, which leave again soon, less, since whoever decides about
 * turns can have it given back. Who is the next to leave has host memory for that, with the same
 * part of it free, for as long as it is, and when it has left in part for the rest.
 */
#define KEEP_NS	     (30 * NS_PER_S)
#define KEEP_LOOK_NS (NS_PER_S / 2)
#define KEEP_PART    2

/* Nothing is found ahead while tenants move, which is looked at so often; and what is missing. */
#define BUSY_NS	 (20 * NS_PER_MS)
#define AHEAD_NS (100 * NS_PER_MS)

/* What was given back, as it was missed, is not found anew before. */
#define MISSED_NS (10 * NS_PER_S)

/* Who leaves for others is asked for what follows within that, or nothing does. */
#define BEHIND_NS (100 * NS_PER_MS)

/* Who is to run and found no room for what is away tries again so often. */
#define AGAIN_NS NS_PER_S

/* How long all of it takes is known from a part that is no smaller. */
#define LEAST_PART 32

#define MOVERS 2

struct swap {
	struct guest *guest;
	pid_t pid; /* a forked child has a copy of this, and no thread */
	uint64_t keeps_until_ns; /* 0: nothing is kept */
	/*
	 * So much is to leave next, 0: nothing. Host memory for it is to be found, if there is room,
	 * and known to the driver.
	 */
	uint32_t ahead;
	uint64_t ahead_from_ns, ahead_until_ns;
	uint32_t missed; /* so often others had found no room on the host when it was asked last */
	bool wants; /* the program waits for what is away, by work that no call told of */
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
	trace(swap->guest, TRACE_SWAP_SAID, -1, state, why, swap->answer.bytes);
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

static uint64_t swap_kept(const struct swap *swap)
{
	uint64_t bytes = 0;

	for (int i = 0; i < MOVERS; i++)
		bytes += swap->mover[i].kind->kept(swap->mover[i].self);
	return bytes;
}

static uint64_t swap_away_bytes(const struct swap *swap)
{
	uint64_t bytes = 0;

	for (int i = 0; i < MOVERS; i++)
		bytes += swap->mover[i].kind->away(swap->mover[i].self);
	return bytes;
}

/* What is to be free of the host beside what is kept. */
static uint64_t swap_keep_least(const struct swap *swap)
{
	return host_memory_total() / (swap->guest->use ? TUNING_RESIDENCY_HOST_PART : KEEP_PART);
}

static uint64_t swap_bytes(const struct swap *swap, uint32_t part)
{
	uint64_t bytes = 0;

	for (int i = 0; i < MOVERS; i++)
		bytes += swap->mover[i].kind->bytes(swap->mover[i].self, part);
	return bytes;
}

/*
 * Threads of ours find host memory for so much, and have the driver know it; 0: they are gone. They
 * leave some more than is to be free, so that it is not given back at once. Whether all of it is
 * there.
 */
static bool swap_ahead(struct swap *swap, uint32_t part)
{
	uint64_t least = part ? swap_keep_least(swap) / 4 * 5 : 0;
	bool all = true;

	for (int i = 0; i < MOVERS; i++)
		if (swap->mover[i].kind->ahead)
			all &= swap->mover[i].kind->ahead(swap->mover[i].self, part, least);
	return all;
}

/* So much, from then on. */
static void swap_plan_ahead(struct swap *swap, uint32_t part, uint64_t from_ns)
{
	swap->ahead = part;
	swap->ahead_from_ns = from_ns;
	swap->ahead_until_ns = from_ns + KEEP_NS;
}

/*
 * Who comes back, and leaves once more, takes no processors for its copies when the driver knows
 * where those are. Who makes room for others has them move first. What is left of it goes next, and
 * finds its place meanwhile; but what all processes may have on the host nobody divides here.
 */
static void swap_plan_behind(struct swap *swap, uint32_t part)
{
	const struct policy *policy = &swap->guest->policy;
	bool rest = swap->guest->use && !*policy->swap_dir && !policy->host_bytes;

	swap_plan_ahead(swap, rest ? SWAP_ALL : part,
			now_monotonic_ns() + (swap->guest->use ? BEHIND_NS : 0));
}

static bool swap_is_busy(const struct swap *swap)
{
	const struct residency_file *file = atomic_load(&swap->guest->residency);

	return file && word_read(residency_file_moves(file));
}

/*
 * What was asked for is begun, and once more as long as not all is there: others may be giving back
 * what they kept, or it was called off while others moved. When to look again.
 */
static uint64_t swap_try_ahead(struct swap *swap, uint64_t now)
{
	if (now < swap->ahead_from_ns)
		return swap->ahead_from_ns;
	if (swap_is_busy(swap) && now < swap->ahead_until_ns)
		return now + BUSY_NS;
	swap->keeps_until_ns = UINT64_MAX;
	if (swap_ahead(swap, swap->ahead) || now >= swap->ahead_until_ns)
		swap->ahead = 0;
	return now + (swap->ahead ? AHEAD_NS : KEEP_LOOK_NS);
}

/* So often a tenant could not leave since all had something on the host. */
static uint32_t swap_missed(const struct swap *swap)
{
	const struct residency_file *file = atomic_load(&swap->guest->residency);

	return file ? residency_file_missed(file) : 0;
}

/* Others of the host have enough beside what is kept. */
static bool swap_is_enough(const struct swap *swap)
{
	return cgroup_host_room() >= swap_keep_least(swap);
}

static void swap_forget(struct swap *swap)
{
	for (int i = 0; i < MOVERS; i++)
		swap->mover[i].kind->forget(swap->mover[i].self);
}

/* It has left, in part maybe, and nothing is being asked of it. */
static bool swap_has_left(const struct swap *swap)
{
	return swap_phase_of(swap->answer.request) == SWAP_OUT && swap_is_away(swap);
}

/* What was found ahead, and is not its content's. */
static bool swap_keeps_beside(const struct swap *swap)
{
	return swap_has_left(swap) && swap_kept(swap) > swap_away_bytes(swap) + STAGE_STEP_BYTES;
}

static bool swap_is_missed(const struct swap *swap)
{
	return swap_missed(swap) != swap->missed &&
	       (swap->answer.state == SWAP_RUNNING || swap_has_left(swap));
}

/* As when it was asked last. */
static void swap_plan_anew(struct swap *swap, uint64_t now)
{
	uint32_t part = swap_part_of(swap->answer.request);

	if (swap_has_left(swap))
		swap_plan_behind(swap, part);
	else
		swap_plan_ahead(swap, part, now);
}

/* The program goes on meanwhile, or is away. When to look again; UINT64_MAX: nothing is kept. */
static uint64_t swap_keep(struct swap *swap)
{
	uint64_t now = now_monotonic_ns();
	bool keeps = swap->answer.state == SWAP_RUNNING && swap->keeps_until_ns;
	bool beside = swap_keeps_beside(swap), missed = swap_is_missed(swap);

	if (missed || (keeps && now >= swap->keeps_until_ns) ||
	    ((keeps || beside) && !swap_is_enough(swap))) {
		if (missed)
			swap_plan_anew(swap, now);
		if (missed || swap_kept(swap))
			swap->ahead_from_ns = now + MISSED_NS;
		swap_forget(swap);
		swap->missed = swap_missed(swap);
		swap->keeps_until_ns = 0;
		keeps = beside = false;
	}
	if (swap->ahead)
		return swap_try_ahead(swap, now);
	return keeps || beside ? now + KEEP_LOOK_NS : UINT64_MAX;
}

/* --- Work that no call tells of --------------------------------------------------------------- */

static enum mover_work swap_work(const struct swap *swap)
{
	enum mover_work all = MOVER_BY_CALLS, work;

	for (int i = 0; i < MOVERS; i++) {
		const struct mover *mover = &swap->mover[i];

		work = mover->kind->look ? mover->kind->look(mover->self) : MOVER_BY_CALLS;
		all = max_u64(work, all);
	}
	return all;
}

/*
 * In a tenant that comes back by itself it is use, or waits, as a call is and does. When to look
 * again.
 */
static uint64_t swap_look(struct swap *swap)
{
	enum mover_work work;

	if (!swap->guest->use || swap->wants)
		return UINT64_MAX;
	work = swap_work(swap);
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
	swap_done(swap);
	swap_let_on(swap);
}

static enum swap_why swap_find_obstacle(struct swap *swap)
{
	enum swap_why why = SWAP_FINE;

	for (int i = 0; !why && i < MOVERS; i++)
		why = swap->mover[i].kind->prepare(swap->mover[i].self, &swap->answer.amount);
	return why;
}

/* What the memory cgroup allows for content, with what has its place on the host. */
static uint64_t swap_allowed(struct swap *swap, uint64_t room)
{
	return sat_sub_u64(sat_add_u64(swap_kept(swap), room), move_lacks(&swap->move));
}

/* Of what is to leave, beside others of the tenant that are asked for theirs: see beside.h. */
static uint64_t swap_claim(struct swap *swap, uint64_t bytes)
{
	swap->answer.bytes = bytes;
	swap->answer.amount = swap_kept(swap);
	swap->answer.why = SWAP_FINE;
	swap_begin(swap, SWAP_SUSPENDING);
	return swap_allowed(swap, beside_claims(swap->guest));
}

static struct mover_file swap_file(const struct swap *swap)
{
	struct mover_file all = {0};

	for (int i = 0; i < MOVERS; i++) {
		struct mover_file file = swap->mover[i].kind->file(swap->mover[i].self);

		all.bytes += file.bytes;
		all.holds += file.holds;
		all.error = all.error ? all.error : file.error;
	}
	return all;
}

/* As it is said with SWAP_FILE. */
static uint64_t swap_file_amount(uint64_t bytes, int error)
{
	return SWAP_FILE_BYTES(bytes + 4095) | (uint64_t)-error;
}

/*
 * A file for what has no room on the host, by whoever asks or by the memory cgroup. All of what a
 * mover has is divided, however much of that is to leave: more may follow.
 */
static enum swap_why swap_take_file(struct swap *swap)
{
	uint64_t split = swap_request_split(swap->guest->policy_map);
	const char *dir = swap->guest->policy.swap_dir;
	uint64_t room = swap_claim(swap, swap_bytes(swap, SWAP_ALL));

	for (int i = 0; i < MOVERS; i++) {
		const struct mover *mover = &swap->mover[i];
		uint64_t bytes = mover->kind->bytes(mover->self, SWAP_ALL);
		uint64_t host = min_u64(swap_host_bytes(bytes, split), room);
		int error;

		if (host < bytes) {
			host -= host % STAGE_STEP_BYTES;
			if (!mover->kind->take(mover->self, host, dir)) {
				error = mover->kind->file(mover->self).error;
				swap->answer.amount = swap_file_amount(bytes - host, error);
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
	swap->answer.amount = bytes;
	return SWAP_HOST;
}

/* So much of all of them, 0: back. */
static enum swap_why swap_move_one(const struct mover *mover, uint32_t part)
{
	return part ? mover->kind->out(mover->self, part) : mover->kind->back(mover->self);
}

/*
 * All of them, or none: those before one that fails go the other way again. Where some was away and
 * more was to follow, what followed stays away.
 */
static enum swap_why swap_move(struct swap *swap, uint32_t request, uint32_t part)
{
	bool more = part && swap_is_away(swap);
	enum swap_why why = SWAP_FINE;
	int i = 0;

	while (i < MOVERS && !(why = swap_move_one(&swap->mover[i], part)))
		i++;
	while (why && !more && i-- > 0)
		swap_move_one(&swap->mover[i], part ? 0 : swap_part_of(request));
	return why;
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
	uint64_t all = swap_bytes(swap, SWAP_ALL);

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
	uint64_t begin = now_monotonic_ns(), before = swap_away_bytes(swap), after, moved;
	enum swap_why why;

	swap_begin(swap, part ? SWAP_SUSPENDING : SWAP_RESUMING);
	why = swap_move(swap, request, part);
	swap->answer.took_ns = now_monotonic_ns() - begin;
	after = swap_away_bytes(swap);
	moved = after > before ? after - before : before - after;
	trace(swap->guest, TRACE_SWAP_MOVED, -1, swap->answer.took_ns, moved, after);
	if (part && swap_is_away(swap))
		swap->answer.bytes = after;
	if (!why)
		swap_note_way(swap, part, moved);
	return why;
}

/* What has moved, or could not. With what is in a file, or why there is none. */
static void swap_answer_away(struct swap *swap, uint32_t request, enum swap_state state,
			     enum swap_why why)
{
	struct mover_file file = swap_file(swap);

	swap->answer.amount = why == SWAP_FILE ? swap_file_amount(file.bytes, file.error)
			      : why == SWAP_HOST ? 0 : file.holds;
	swap_answer(swap, request, state, why);
}

static void swap_run(struct swap *swap, uint32_t request)
{
	uint32_t part = swap_part_of(request);
	bool again = swap->answer.state == SWAP_RUNNING, filed = swap_file(swap).bytes;
	enum swap_why why = swap_is_away(swap) ? swap_move_measured(swap, request, 0) : SWAP_FINE;

	if (why) {
		swap_answer_away(swap, request, SWAP_SUSPENDED, why);
		return;
	}
	swap_done(swap);
	exporter_is_back(swap->guest, SHARE_ALL, request);
	swap->answer.amount = swap->answer.list_at = 0;
	swap_answer(swap, request, SWAP_RUNNING, SWAP_FINE);
	swap_let_on(swap);
	swap_plan_ahead(swap, part, now_monotonic_ns());
	/* Copies to a file leave nothing but their buffers. */
	if (part || (!swap_kept(swap) && !filed && !swap->keeps_until_ns))
		return;
	/* Who runs and is asked for that once more is to keep nothing. */
	swap->keeps_until_ns = again ? 1 : now_monotonic_ns() + KEEP_NS;
	if (!again && !filed)
		swap_note_kept(swap);
}

/* Nothing moves. Whether it is ready to, with so much of it. */
static bool swap_prepare(struct swap *swap, uint32_t request, uint32_t part)
{
	enum swap_why why = SWAP_FINE;
	uint64_t bytes;

	if (swap->answer.state == SWAP_READY || swap->answer.state == SWAP_RETURNED) {
		bytes = swap_bytes(swap, part);
		/* One that returned has its content still where it was. */
		if (swap->answer.state == SWAP_READY)
			why = swap_find_room(swap, bytes);
		swap->answer.bytes = bytes;
		swap_answer(swap, request, swap_is_away(swap) ? SWAP_SUSPENDED : SWAP_READY, why);
		return !why;
	}
	bytes = swap->answer.bytes = swap->answer.amount = 0;
	swap_begin(swap, SWAP_SUSPENDING);
	why = drain_process(swap->guest, request, swap->mover, MOVERS);
	if (!why)
		why = swap_find_obstacle(swap);
	if (!why) {
		bytes = swap_bytes(swap, part);
		why = swap_find_room(swap, bytes);
	}
	if (why)
		swap_open(swap);
	FAULT_POINT(GUEST_SWAP_SHUT);
	swap->answer.bytes = why ? 0 : bytes;
	if (!why)
		swap->answer.amount = swap_kept(swap);
	swap_answer(swap, request, why ? SWAP_RUNNING : SWAP_READY, why);
	return !why;
}

/*
 * What follows was looked at by no PREPARE. Who could not leave after all has given its file away;
 * what has just come back is where it was, too.
 */
static enum swap_why swap_has_room(struct swap *swap, uint64_t bytes)
{
	if (swap->answer.state == SWAP_RETURNED || swap_file(swap).bytes)
		return SWAP_FINE;
	if (!swap_is_away(swap))
		return *swap->guest->policy.swap_dir ? swap_take_file(swap) : SWAP_FINE;
	if (bytes <= swap_away_bytes(swap))
		return SWAP_FINE;
	/* Who says how much may be on the host does so whatever is free. */
	if (!swap->guest->policy.host_bytes &&
	    bytes > sat_add_u64(swap_kept(swap), host_memory_room()))
		return SWAP_HOST;
	return bytes <= swap_allowed(swap, beside_others(swap->guest)) ? SWAP_FINE : SWAP_HOST;
}

static void swap_leave(struct swap *swap, uint32_t request, uint32_t part)
{
	enum swap_why why;
	uint64_t bytes;

	if (!swap_is_away(swap) && swap->answer.state != SWAP_READY &&
	    swap->answer.state != SWAP_RETURNED && !swap_prepare(swap, request, part))
		return;
	bytes = swap_bytes(swap, part);
	why = swap_has_room(swap, bytes);
	if (!why)
		why = swap_move_measured(swap, request, part);
	swap_answer_away(swap, request, swap_is_away(swap) ? SWAP_SUSPENDED : SWAP_READY, why);
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
	enum swap_why why = swap_is_away(swap) ? SWAP_ELSEWHERE : SWAP_FINE;

	if (!why)
		why = drain_process(swap->guest, request, NULL, 0);
	if (!why)
		swap->answer.amount = amd_again_obstacle(swap->guest);
	if (!why && swap->answer.amount)
		why = SWAP_DMABUFS;
	if (why && !swap_is_away(swap))
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
		bool any = false;

		for (int i = 0; i < MOVERS; i++)
			if (swap->mover[i].kind->come)
				any |= swap->mover[i].kind->come(swap->mover[i].self);
		if (!any)
			futex_wait_until(word, request, now_monotonic_ns() + TUNING_RESIDENCY_TRY_NS);
	}
	for (int i = 0; i < MOVERS; i++)
		if (swap->mover[i].kind->come_end)
			swap->mover[i].kind->come_end(swap->mover[i].self);
}

static void swap_return(struct swap *swap, uint32_t request)
{
	bool runs = swap->answer.state == SWAP_RUNNING;
	enum swap_why why = runs ? SWAP_FINE : move_ask_again(&swap->move);

	if (!runs && !why)
		why = amd_move_ask_again(&swap->amd);
	if (!swap_is_away(swap)) {
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
	swap_ahead(swap, 0);
	swap->ahead = 0;
	swap->missed = swap_missed(swap);
	switch (phase) {
	case SWAP_PREPARE:
	case SWAP_PREPARE_CONTEXTS:
		swap->move.contexts = phase == SWAP_PREPARE_CONTEXTS;
		if (swap_is_away(swap))
			swap_answer_away(swap, request, SWAP_SUSPENDED, SWAP_FINE);
		else
			swap_prepare(swap, request, swap_part_of(request));
		break;
	case SWAP_OUT:
		swap_leave(swap, request, swap_part_of(request));
		if (swap_is_away(swap))
			swap_plan_behind(swap, swap_part_of(request));
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
			mover_yield(swap->mover, MOVERS);
			if (phase != SWAP_RUN || !swap_is_away(swap)) {
				futex_wait_until(word, request,
						 min_u64(swap_keep(swap), swap_look(swap)));
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
	swap->mover[0] = (struct mover){&move_kind, &swap->move};
	swap->mover[1] = (struct mover){&amd_move_kind, &swap->amd};
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
