/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/queue/keeper.h"

#include <sys/prctl.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/number.h"
#include "base/word.h"
#include "guest/amd/queue/hold.h"
#include "guest/amd/queue/work.h"
#include "guest/process/thread.h"
#include "ledger/device_time.h"
#include "ledger/policy.h"

/* How often the keeper looks at the policy, and when it tries again what failed. */
#define LOOK_NS	  (20 * NS_PER_MS)
#define RETRY_NS  (2 * NS_PER_MS)
/*
 * How long the keeper stays after the last queue. Without that, a program that makes a queue for
 * each copy would have a new thread for each, and its queue would be done before the first look.
 */
#define LINGER_NS (200 * NS_PER_MS)

/*
 * True if a queue on the hardware has work. A compute queue tells only what was begun, so it always
 * counts as having some.
 */
static bool queue_keeper_has_work(const struct queue *q)
{
	return q->kind != QUEUE_COPIES || queue_has_more(q);
}

static bool queue_keeper_is_busy(struct queues *queues, int device, enum queue_kind kind)
{
	uint32_t high = queues_high(queues);
	bool busy = false;

	for (uint32_t i = 0; !busy && i < high; i++) {
		struct queue is;

		lock_take(&queues->lock);
		is = queues->queue[i];
		lock_drop(&queues->lock);
		busy = is.used && is.device == device && is.kind == kind && is.duty.told & 0xff &&
		       queue_keeper_has_work(&is);
	}
	return busy;
}

/*
 * Bills the time since `from_ns` and asks whether the queues may work on. The processes of a tenant
 * have one account: time in which several of them worked counts once.
 */
static struct duty_answer queue_keeper_step(struct queues *queues, int device, enum queue_kind kind,
					    const struct share_params *params, uint64_t from_ns,
					    uint64_t now)
{
	struct device_time *time =
		device_time_of(queues->guest->ledger, queues->amd->device[device].ledger);
	bool copies = kind == QUEUE_COPIES;
	uint64_t *hot = copies ? &time->hot : &time->masked_hot;
	uint64_t *covered = copies ? &time->worked_ns : &time->masked_covered_ns;
	uint64_t begin = now, busy = device_time_cover(covered, from_ns, now, &begin);
	struct duty_answer answer;
	uint64_t was;

	do {
		was = word_read(hot);
		answer = duty_step(&controller_deficit, params, was, begin, begin + busy, now);
	} while (answer.hot != was && !word_swap_if(hot, was, answer.hot));
	return answer;
}

/*
 * Opens or closes the queues of a kind on a device. Answers when to come again; UINT64_MAX: all of
 * the time is the tenant's, and nothing is to be done.
 */
static uint64_t queue_keeper_take_turns(struct queues *queues, int device, enum queue_kind kind,
					uint64_t now)
{
	struct queue_device *d = &queues->device[device];
	struct queue_turn turn, next = {.next_ns = UINT64_MAX};
	struct share_params params;
	struct duty_answer answer;
	uint64_t from_ns;

	lock_take(&queues->lock);
	turn = d->turn[kind];
	params = (struct share_params){
		.share_permille = d->hold.limited ? d->hold.permille[kind] : 1000,
		.slice_ns = d->hold.slice_ns ? d->hold.slice_ns : DUTY_SLICE_NS};
	lock_drop(&queues->lock);
	if (params.share_permille < 1000) {
		if (turn.looked_ns && now < turn.next_ns)
			return turn.next_ns;
		from_ns =
			turn.looked_ns && !turn.closed && queue_keeper_is_busy(queues, device, kind)
				? turn.looked_ns
				: now;
		answer = queue_keeper_step(queues, device, kind, &params, from_ns, now);
		next = (struct queue_turn){!answer.open, now, answer.next_ns};
	}
	lock_take(&queues->lock);
	d->turn[kind] = next;
	lock_drop(&queues->lock);
	return next.next_ns;
}

static bool queue_keeper_has_queues(struct queues *queues, int device)
{
	bool any;

	lock_take(&queues->lock);
	any = queues->device[device].n;
	lock_drop(&queues->lock);
	return any;
}

/* Answers when to come again at the latest. */
static uint64_t queue_keeper_keep_device(struct queues *queues, int device, bool changed)
{
	bool any = queue_keeper_has_queues(queues, device);
	uint64_t next = UINT64_MAX;

	if (any && (changed || queue_hold_is_old(queues, device)) &&
	    queue_hold_refresh(queues, device, false))
		next = now_monotonic_ns() + RETRY_NS;
	for (int kind = 0; kind < QUEUE_KINDS; kind++) {
		uint64_t at = queue_keeper_take_turns(queues, device, kind, now_monotonic_ns());

		next = min_u64(at, next);
	}
	if (any)
		queues_tell(queues, device);
	return next;
}

/* A new keeper bills from its first look on: nobody looked at what was before. */
static void queue_keeper_begin(struct queues *queues)
{
	lock_take(&queues->lock);
	for (int i = 0; i < GUEST_DEVICES; i++)
		for (int kind = 0; kind < QUEUE_KINDS; kind++)
			queues->device[i].turn[kind].looked_ns = 0;
	lock_drop(&queues->lock);
}

/* The next step after a look. */
enum after {
	AFTER_LOOK,
	AFTER_WATCH, /* nothing is limited, but there are queues and a policy that can change */
	AFTER_END,
};

/*
 * Decides under the lock whether this thread goes on. A thread that adds a queue takes the same
 * lock (queue_keeper_need): either this one sees its queue, or that one sees that nobody keeps it.
 */
static enum after queue_keeper_after_look(struct queues *queues, uint64_t *needed_ns)
{
	uint64_t now = now_monotonic_ns();
	enum after after = AFTER_END;
	bool any = false;

	lock_take(&queues->lock);
	for (int i = 0; i < GUEST_DEVICES; i++)
		any |= queues->device[i].n && queues->device[i].hold.limited;
	if (any)
		*needed_ns = now;
	queues->kept = now < *needed_ns + LINGER_NS;
	if (queues->kept) {
		after = AFTER_LOOK;
	} else if (queues->n && !queues->watched) {
		after = AFTER_WATCH;
		queues->watched = true;
	}
	lock_drop(&queues->lock);
	return after;
}

/* Under the lock. Waits while another thread makes the keeper, since that may fail. */
static void queue_keeper_wait_for_start(struct queues *queues)
{
	while (queues->starting) {
		lock_drop(&queues->lock);
		futex_wait(&queues->starting, 1);
		lock_take(&queues->lock);
	}
}

/*
 * Sleeps until the policy is another one than `generation`. True: the caller is the keeper again.
 * False: there is a keeper by now, and the caller is to end. The end of the last queue does not
 * wake the caller: for a program that makes a queue for each copy, sleeping on costs less.
 */
static bool queue_keeper_watch(struct queues *queues, uint64_t generation)
{
	bool kept;

	policy_wait(queues->guest->policy_map, generation);
	lock_take(&queues->lock);
	queue_keeper_wait_for_start(queues);
	queues->watched = false;
	kept = queues->kept;
	queues->kept = true;
	lock_drop(&queues->lock);
	return !kept;
}

/* Keeps while any queue is limited, and a moment longer. True: then the caller is to watch. */
static bool queue_keeper_keep_limited(struct queues *queues, uint64_t *ret_generation)
{
	static const uint32_t nothing;
	struct policy_map *policy = queues->guest->policy_map;
	uint64_t needed_ns = now_monotonic_ns();
	enum after after;
	uint32_t heard = 0;
	bool first = true;

	queue_keeper_begin(queues);
	do {
		uint64_t generation = policy ? policy_generation(policy) : 0;
		uint32_t seen = queues->allotment ? allotment_changes(queues->allotment) : 0;
		uint64_t next = now_monotonic_ns() + LOOK_NS;

		for (int i = 0; i < (int)queues->amd->ndevices; i++) {
			uint64_t at = queue_keeper_keep_device(queues, i, first || seen != heard);

			next = min_u64(at, next);
		}
		first = false;
		heard = seen;
		if (queues->allotment) {
			allotment_look(queues->allotment, now_monotonic_ns());
			allotment_sleep(queues->allotment, seen, next);
		} else {
			futex_wait_until(&nothing, 0, next);
		}
		after = queue_keeper_after_look(queues, &needed_ns);
		*ret_generation = generation;
	} while (after == AFTER_LOOK);
	return after == AFTER_WATCH;
}

static void *queue_keeper_keep(void *arg)
{
	struct queues *queues = arg;
	uint64_t generation;

	prctl(PR_SET_NAME, "allot-keeper");
	guest_depth++; /* what this thread calls is our own affair */
	while (queue_keeper_keep_limited(queues, &generation) &&
	       queue_keeper_watch(queues, generation))
		;
	return NULL;
}

/* Under the lock. */
static bool queue_keeper_is_needed(const struct queues *queues, int device)
{
	if (queues->kept)
		return false;
	return queues->device[device].hold.limited || !queues->watched;
}

int queue_keeper_need(struct queues *queues, int device)
{
	bool needed;
	int r;

	lock_take(&queues->lock);
	queue_keeper_wait_for_start(queues);
	needed = queue_keeper_is_needed(queues, device);
	if (needed) {
		queues->kept = true;
		queues->starting = 1;
	}
	lock_drop(&queues->lock);
	if (!needed)
		return 0;
	r = thread_start(queue_keeper_keep, queues);
	lock_take(&queues->lock);
	if (r)
		queues->kept = false;
	queues->starting = 0;
	lock_drop(&queues->lock);
	futex_wake_all(&queues->starting);
	return r;
}
