/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/ahead.h"

#include "base/host_memory.h"
#include "base/now.h"
#include "base/trial.h"
#include "base/word.h"
#include "guest/core/guest.h"
#include "guest/swap/stage.h"
#include "ledger/role/residency_file.h"
#include "sched/tuning.h"

/*
 * After a way back a process keeps its host memory for this long: the next way out takes half the
 * time then, or less in a virtual machine. It does so while 1 / KEEP_PART of the host's memory is
 * free, which it checks every KEEP_LOOK_NS. Tenants that take turns need less of it free, since the
 * role holder can have them return it.
 */
#define KEEP_NS	     (30 * NS_PER_S)
#define KEEP_LOOK_NS (NS_PER_S / 2)
#define KEEP_PART    2

/*
 * A process whose device finds by hashes what has not changed (look.h) keeps the copy for longer, while
 * all but 1 / KEEP_ON_PART of the host's memory is free beside it. Nobody can ask it to return the copy
 * for a tenant of another user, so there is to be room for any tenant without that.
 */
#define KEEP_ON_PART 4

/*
 * While any tenant is moving, prepare no host memory; check again every BUSY_NS. If pages are still
 * missing, retry every AHEAD_NS.
 */
#define BUSY_NS	 (20 * NS_PER_MS)
#define AHEAD_NS (100 * NS_PER_MS)

/* After a process returned host memory that another tenant needed, it prepares none for this long.
 */
#define MISSED_NS (10 * NS_PER_S)

/* A tenant that made room receives its follow-up request within this time, or none at all. */
#define BEHIND_NS (100 * NS_PER_MS)

/* How much of the host's memory must be free beside what this process keeps. */
static uint64_t ahead_least(const struct ahead *ahead)
{
	return host_memory_total() / (ahead->guest->use ? TUNING_RESIDENCY_HOST_PART : KEEP_PART);
}

/*
 * Threads of ours prepare host memory for `part`, and register it; 0: they end. They leave a
 * quarter more free than ahead_least, so that it is not returned at once. Returns true if all is
 * prepared.
 */
static bool ahead_prepare(struct ahead *ahead, uint32_t part)
{
	return movers_ahead(ahead->movers, part, part ? ahead_least(ahead) / 4 * 5 : 0);
}

static const struct residency_file *ahead_file(const struct ahead *ahead)
{
	return atomic_load(&ahead->guest->residency);
}

/* How many times a tenant could not leave because the host had no memory left for it. */
static uint32_t ahead_count_missed(const struct ahead *ahead)
{
	const struct residency_file *file = ahead_file(ahead);

	return file ? residency_file_missed(file) : 0;
}

static bool ahead_is_busy(const struct ahead *ahead)
{
	const struct residency_file *file = ahead_file(ahead);

	return file && word_read(residency_file_moves(file));
}

static void ahead_plan(struct ahead *ahead, uint32_t part, uint64_t from_ns)
{
	ahead->part = part;
	ahead->from_ns = from_ns;
	ahead->until_ns = from_ns + KEEP_NS;
}

void ahead_end(struct ahead *ahead)
{
	ahead_prepare(ahead, 0);
	ahead->part = 0;
	ahead->missed = ahead_count_missed(ahead);
}

bool ahead_back(struct ahead *ahead, uint32_t part, bool again, bool filed)
{
	uint64_t now = now_monotonic_ns();

	ahead_plan(ahead, part, now);
	/* Copies to a file leave nothing but their buffers. */
	if (part || (!movers_kept(ahead->movers) && !filed && !ahead->keeps))
		return false;
	ahead->keeps = true;
	again |= !trial_has("keep");
	ahead->keeps_until_ns = again ? now : now + KEEP_NS;
	ahead->keeps_on = !again && !(ahead->guest->policy.flags & POLICY_LOOKS) &&
			  movers_know(ahead->movers);
	return !again && !filed;
}

/*
 * Registers the buffers: a process that leaves again soon can then copy by DMA, without CPU time. A
 * tenant that makes room for others has theirs moved first.
 */
void ahead_left(struct ahead *ahead, uint32_t part)
{
	ahead_plan(ahead, part, now_monotonic_ns() + (ahead->guest->use ? BEHIND_NS : 0));
}

/*
 * Tries again until all is prepared: other processes may be returning what they kept, or a move of
 * another tenant called it off. Returns when to look again.
 */
static uint64_t ahead_try(struct ahead *ahead, uint64_t now)
{
	if (now < ahead->from_ns)
		return ahead->from_ns;
	if (ahead_is_busy(ahead) && now < ahead->until_ns)
		return now + BUSY_NS;
	ahead->keeps = true;
	ahead->keeps_until_ns = UINT64_MAX;
	if (ahead_prepare(ahead, ahead->part) || now >= ahead->until_ns)
		ahead->part = 0;
	return now + (ahead->part ? AHEAD_NS : KEEP_LOOK_NS);
}

/* True if the process has moved out, maybe in part, and no request is being carried out. */
static bool ahead_has_left(const struct ahead *ahead, const struct swap_answer *answer)
{
	return swap_phase_of(answer->request) == SWAP_OUT && movers_are_away(ahead->movers);
}

/* True if there is host memory beside that of the content: it was prepared for more than has left. */
static bool ahead_keeps_beside(const struct ahead *ahead, const struct swap_answer *answer)
{
	return ahead_has_left(ahead, answer) &&
	       movers_kept(ahead->movers) + movers_empty(ahead->movers) >
		       movers_away(ahead->movers) + STAGE_STEP_BYTES;
}

static bool ahead_is_missed(const struct ahead *ahead, const struct swap_answer *answer)
{
	return ahead_count_missed(ahead) != ahead->missed &&
	       (answer->state == SWAP_RUNNING || ahead_has_left(ahead, answer));
}

/* Returns host memory to the host. Memory that was missed is prepared again later. */
static void ahead_return(struct ahead *ahead, const struct swap_answer *answer, bool missed,
			 uint64_t now)
{
	uint32_t part = swap_part_of(answer->request);

	if (missed && ahead_has_left(ahead, answer))
		ahead_left(ahead, part);
	else if (missed)
		ahead_plan(ahead, part, now);
	if (missed || movers_kept(ahead->movers))
		ahead->from_ns = now + MISSED_NS;
	movers_forget(ahead->movers);
	ahead->missed = ahead_count_missed(ahead);
	ahead->keeps = false;
}

/* True if host memory is to be returned, although nobody misses it and there is enough beside it. */
static bool ahead_has_kept_enough(const struct ahead *ahead, uint64_t now)
{
	uint64_t total = host_memory_total();

	return now >= ahead->keeps_until_ns &&
	       !(ahead->keeps_on && host_memory_own_room() >= total - total / KEEP_ON_PART);
}

uint64_t ahead_step(struct ahead *ahead, const struct swap_answer *answer)
{
	uint64_t now = now_monotonic_ns();
	bool missed = ahead_is_missed(ahead, answer);
	bool keeps = answer->state == SWAP_RUNNING && ahead->keeps;
	bool any = keeps || ahead_keeps_beside(ahead, answer);

	if (missed || (keeps && ahead_has_kept_enough(ahead, now)) ||
	    (any && host_memory_own_room() < ahead_least(ahead))) {
		ahead_return(ahead, answer, missed, now);
		any = false;
	}
	if (ahead->part)
		return ahead_try(ahead, now);
	return any ? now + KEEP_LOOK_NS : UINT64_MAX;
}
