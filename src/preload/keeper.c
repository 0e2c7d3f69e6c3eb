/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/keeper.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/now.h"
#include "preload/gate.h"
#include "preload/park.h"
#include "preload/thread.h"
#include "preload/turns.h"

#define MS	   UINT64_C(1000000)
/* While there is work in flight, and another tenant may wait for its end; otherwise. */
#define TICK_NS	   MS
#define ALONE_NS   (2 * MS)
/* Work that others make way for is seen to begin so soon, or after a part more of its wait. */
#define BEGIN_NS   (MS / 10)
#define BEGIN_PART 8
/*
 * While threads that launch, or are held, look for themselves; and so long after work, since a
 * program that pauses for a moment would else ring for each of its bursts.
 */
#define REST_NS	   (10 * MS)
#define LINGER_NS  (50 * MS)
/* What another thread looked at so short a time ago it need not look at. */
#define RECENT_NS  (5 * MS)
/* An arbiter that says nothing for so long is replaced. */
#define SILENCE_NS (25 * MS)
/* How long who holds the role keeps it for others, with nothing to do itself. */
#define IDLE_NS	   (1000 * MS)

static void wake(struct keeper *keeper)
{
	atomic_fetch_add(&keeper->bell, 1);
	futex_wake_all(&keeper->bell);
}

static uint64_t begin_tick(const struct meter_device *md, uint64_t now)
{
	uint64_t tick = (now - atomic_load(&md->started_ns)) / BEGIN_PART;

	return tick > BEGIN_NS && tick < TICK_NS ? tick : BEGIN_NS;
}

/*
 * Answers whether work is in flight; *ret_tick: how soon to look again. That is sooner where nobody
 * but the keeper looks (`rung`: it was called to), or other processes of the tenant would hide what
 * is in flight by billing theirs.
 */
static bool collect(struct guest *guest, uint64_t now, bool rung, uint64_t *ret_tick)
{
	bool held = atomic_load(&gate_get(guest)->waiting), busy = false;
	bool left = rung;
	bool alone = gate_alone(guest, now);
	uint64_t begin = 0;

	for (int i = 0; i < guest->ndevices; i++) {
		struct meter_device *md = gate_device_made(guest, i);

		if (!md)
			continue;
		left |= meter_has_peers(md) ||
			(!held && atomic_load(&md->collected_ns) == md->kept_ns);
		if (left || !alone || now > atomic_load(&md->collected_ns) + RECENT_NS)
			meter_collect(guest, md);
		md->kept_ns = atomic_load(&md->collected_ns);
		meter_publish(md, now);
		if (gate_wishes(guest, md, now))
			begin = begin_tick(md, now);
		if (!atomic_load(&md->marks) && now >= atomic_load(&md->end_ns) + METER_GAP_NS)
			meter_settle(guest, md, now);
		busy |= atomic_load(&md->marks) ||
			atomic_load(&md->end_ns) + METER_GAP_NS > now;
	}
	if (begin)
		*ret_tick = begin;
	else if (gate_contended(guest, now))
		*ret_tick = TICK_NS;
	else
		*ret_tick = busy && (left || !alone) ? ALONE_NS : REST_NS;
	return busy;
}

/* The role, if it is ours or free. Answers when to look again. */
static uint64_t arbitrate(struct guest *guest, struct turns *turns, uint64_t now, uint64_t worked)
{
	const struct policy_turn *turn = gate_get(guest)->turn;
	bool silent = !turn || policy_turn_silent(turn, now, SILENCE_NS);
	uint64_t next;

	if (!turns_held(turns)) {
		if (now >= worked + SILENCE_NS)
			return UINT64_MAX;
		if (!silent || !turns_take(turns))
			return now + SILENCE_NS / 2;
	}
	next = turns_step(turns, now);
	if (!turns_busy(turns) || now <= worked + IDLE_NS)
		return next;
	turns_drop(turns);
	return UINT64_MAX;
}

static bool working(struct guest *guest)
{
	bool any = false;

	for (int i = 0; i < guest->ndevices; i++) {
		struct meter_device *md = gate_device_made(guest, i);

		any |= md && atomic_load(&md->marks);
	}
	return any;
}

static void *keep(void *arg)
{
	struct guest *guest = arg;
	struct gate *gate = gate_get(guest);
	struct keeper *keeper = &gate->keeper;
	struct turns *turns = NULL;
	uint64_t worked = now_monotonic_ns();
	uint32_t heard = 0;

	/* Who looks at a program's threads is to know whose this one is. */
	prctl(PR_SET_NAME, "allot-keeper");
	/* Of this thread alone: the usual 50 us are a percent of a turn. */
	prctl(PR_SET_TIMERSLACK, 1000);
	if (!turns_open(guest->dir, &turns))
		atomic_store(&keeper->turns, turns);
	while (!atomic_load(&keeper->stop)) {
		uint32_t seen = atomic_load(&keeper->bell);
		uint32_t rung = turns ? turns_bell(turns) : 0;
		uint64_t now, next, tick, parked;
		bool busy;

		atomic_store(&keeper->working, 1);
		if (atomic_load(&keeper->stop))
			break;
		parked = park_look(guest, now_monotonic_ns());
		now = now_monotonic_ns();
		busy = collect(guest, now, seen != heard, &tick);
		heard = seen;
		gate_steer(guest, now);
		atomic_store(&keeper->working, 0);
		worked = busy ? now : worked;
		next = turns ? arbitrate(guest, turns, now, worked) : UINT64_MAX;
		busy |= gate_alone(guest, now) && now < worked + LINGER_NS;
		if (busy && next > now + tick)
			next = now + tick;
		next = parked < next ? parked : next;
		atomic_store(&keeper->next_ns, next);
		atomic_store(&keeper->asleep, !busy);
		if (!busy && working(guest)) /* begun since: nobody would ring */
			continue;
		if (turns && turns_held(turns))
			turns_sleep(turns, rung, next);
		else
			futex_wait_until(&keeper->bell, seen, next);
		atomic_store(&keeper->asleep, 0);
		atomic_store(&keeper->next_ns, 0);
	}
	atomic_store(&keeper->working, 0);
	return NULL;
}

/* The driver is about to shut down: from here on nobody calls it behind the program's back. */
static void stop(void)
{
	struct guest *guest = guest_made();
	struct gate *gate = guest ? gate_get(guest) : NULL;

	if (!gate || atomic_load(&gate->keeper.started) != 1)
		return;
	atomic_store(&gate->keeper.stop, 1);
	wake(&gate->keeper);
	for (int i = 0; i < 1000 && atomic_load(&gate->keeper.working); i++)
		usleep(100);
	for (int i = 0; i < guest->ndevices; i++) {
		struct meter_device *md = gate_device_made(guest, i);

		if (md) {
			park_open(md);
			meter_end_all(guest, md);
		}
	}
}

static void start(struct guest *guest, struct keeper *keeper)
{
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong(&keeper->started, &expected, 1))
		return;
	if (thread_start(keep, guest))
		atomic_store(&keeper->started, 2);
	else
		atexit(stop);
}

void keeper_work(struct guest *guest)
{
	struct keeper *keeper = &gate_get(guest)->keeper;

	if (__builtin_expect(!atomic_load_explicit(&keeper->started, memory_order_relaxed), 0))
		start(guest, keeper);
	/* After the mark was counted: either the keeper sees that or we see it asleep. */
	if (__builtin_expect(atomic_load(&keeper->asleep), 0) &&
	    atomic_exchange(&keeper->asleep, 0))
		keeper_look(guest);
}

void keeper_look(struct guest *guest)
{
	wake(&gate_get(guest)->keeper);
	keeper_ring(guest); /* it may hold the role, and then sleeps on that bell */
}

/* Whoever finds it awake, or about to sleep, cannot know what it has seen. */
void keeper_expect(struct guest *guest, uint64_t at_ns)
{
	uint64_t next = atomic_load(&gate_get(guest)->keeper.next_ns);

	if (!next || next > at_ns)
		keeper_look(guest);
}

void keeper_ring(struct guest *guest)
{
	struct turns *turns = atomic_load(&gate_get(guest)->keeper.turns);

	if (turns)
		turns_ring(turns);
}
