/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/room.h"

#include <sched.h>

#include "base/futex.h"
#include "base/now.h"
#include "preload/place.h"
#include "share/between.h"

#define MS UINT64_C(1000000)

/*
 * Work in flight, by expected time: two kernels of 1 ms keep a device busy. More where nobody else
 * waits for the device, as far as it is paid for soon: a program that launches now faster, now
 * slower than the device works keeps ahead of it, and a launch that finds no room waits until there
 * is some for several, since a wake-up costs the processor 50 us and more.
 */
#define INFLIGHT_NS    (2 * MS)
#define ALONE_LEAST_NS (4 * MS)
#define ALONE_MOST_NS  (12 * MS)
#define ALONE_PAUSE_NS (36 * MS)
/* Where so brief a pause pays for more, so much: there is more to do between two wake-ups. */
#define LARGE_MOST_NS  (24 * MS)
#define LARGE_PAUSE_NS (8 * MS)
/*
 * Who found no room has some again when so much of it is done. Of ranks the one that has more in
 * flight when they stop is ahead by as much afterwards, and waits for the others.
 */
#define REFILL_PART	  2
#define REFILL_RANKS_PART 8
/*
 * What several processes have in flight together takes no longer than this to pay for. The driver
 * gives each 2 ms at a time, and turns to the next before that, at the tenant's cost, where nothing
 * is left to do: of one that fills up again when half is done, that is not to be.
 */
#define PAUSE_NS     (16 * MS)
#define PART_MOST_NS (8 * MS)
/* Where a round of one launch of each process takes longer to pay for, fewer go at once. */
#define ROUND_PAUSE_NS (100 * MS)
/*
 * While a higher priority may come, so much, since the device works off all that is queued before
 * it turns to another context. What takes longer goes one launch at a time, the next when the end
 * of the last was seen: sleeping is too coarse for that, so we look out for it. Not a moment
 * sooner: it is while nothing is queued that the device turns to who waits.
 */
#define URGED_NS   (MS * 7 / 20)
#define LOOKOUT_NS (MS / 8)
/*
 * A program may wait in one stream for what it is about to launch in another, so work in flight is
 * waited for beyond its expected end only so long.
 */
#define PATIENCE_NS (20 * MS)
#define DOUBT_NS    (200 * MS) /* where nobody knows how long it takes */
/* A bound beside which nothing is in flight. */
#define NOTHING_NS 1
#define UNBOUNDED_NS (UINT64_MAX / 2)
/* What takes less than was expected is seen so soon, where that may be. */
#define GLANCE_NS MS

static uint64_t alone_ns(int64_t share_permille)
{
	int64_t part = between(room_paid_in_ns(share_permille, ALONE_PAUSE_NS), ALONE_LEAST_NS,
			       ALONE_MOST_NS);
	int64_t large = between(room_paid_in_ns(share_permille, LARGE_PAUSE_NS), 0, LARGE_MOST_NS);

	return (uint64_t)(large > part ? large : part);
}

/*
 * The part of one of the tenant's processes: all together have no more in flight than is paid for
 * soon, or they would work and pause in rounds so many times as long.
 */
static uint64_t part_ns(const struct gate *gate, const struct meter_device *md, bool contended,
			unsigned int processes)
{
	int64_t n = processes;
	uint64_t asked = atomic_load(&gate->inflight_us) * UINT64_C(1000);
	int64_t share = atomic_load(&gate->share_permille[md->device->ledger]);

	if (asked)
		return asked > processes ? asked / processes : 1;
	if (contended)
		return INFLIGHT_NS / processes;
	if (n == 1)
		return alone_ns(share);
	return (uint64_t)between(room_paid_in_ns(share, PAUSE_NS) / n, INFLIGHT_NS / n,
				 PART_MOST_NS);
}

/* 0: unbounded. */
static uint64_t inflight_bound(struct guest *guest, const struct gate *gate,
			       const struct unit *unit, bool *ret_spread)
{
	bool contended = gate_turn_flags(gate, unit->now_ns) & POLICY_TURN_CONTENDED;
	bool limited = gate_capped(gate, unit->device->device->ledger);
	unsigned int n = meter_processes(guest, unit->device, unit->now_ns);
	uint64_t bound;

	*ret_spread = true;
	if (atomic_load(&guest->in_space) || (!contended && !limited))
		return 0;
	/* What takes longer than a slice, or may, is paid for before more begins. */
	if (!meter_knows(unit->device)) {
		*ret_spread = false;
		return NOTHING_NS;
	}
	bound = part_ns(gate, unit->device, contended, n);
	if (limited && n * meter_pending_ns(unit->device) > gate_slice_ns(gate) + n * bound)
		return NOTHING_NS;
	return bound;
}

/* Where processes take turns on the device, each one's work takes so many times as long. */
static uint64_t patience_ns(struct guest *guest, const struct unit *unit)
{
	struct meter_device *md = unit->device;
	unsigned int others = meter_processes(guest, md, unit->now_ns) - 1;

	return (meter_knows(md) ? PATIENCE_NS : DOUBT_NS) + others * meter_pending_ns(md);
}

/* As room_wait, until nothing is in flight. */
static bool wait_alone(struct guest *guest, struct unit *unit, struct hold *hold)
{
	static const uint32_t nothing;
	struct meter_device *md = unit->device;
	bool waited = false;

	unit->marked = true;
	for (meter_collect(guest, md); meter_works(md, unit->now_ns); meter_collect(guest, md)) {
		uint64_t end = atomic_load(&md->end_ns), now = unit->now_ns;

		if (!hold->give_up_ns)
			hold->give_up_ns = (end > now ? end : now) + PATIENCE_NS;
		if (now >= hold->give_up_ns)
			return waited;
		if (end > now + GLANCE_NS)
			futex_wait_until(&nothing, 0, now + GLANCE_NS - LOOKOUT_NS);
		else if (end > now + LOOKOUT_NS)
			futex_wait_until(&nothing, 0, end - LOOKOUT_NS);
		else if (now > end + LOOKOUT_NS)
			futex_wait_until(&nothing, 0, now + LOOKOUT_NS / 2);
		else
			sched_yield(); /* the processor may be wanted, too */
		unit->now_ns = now_monotonic_ns();
		waited = true;
	}
	return waited;
}

/* Beside how much a launch is no more than may be in flight where a higher priority may come. */
static uint64_t brief_bound(struct unit *unit)
{
	uint64_t took = meter_knows(unit->device) ? meter_expect(unit) : 0;

	return took && took + LOOKOUT_NS <= URGED_NS ? URGED_NS - took : 0;
}

/* Whether there is a place for it, where long launches of several processes need one. */
static bool has_place(struct guest *guest, const struct gate *gate, struct unit *unit)
{
	struct meter_device *md = unit->device;
	int64_t share = atomic_load(&gate->share_permille[md->device->ledger]);
	unsigned int n = meter_processes(guest, md, unit->now_ns);
	uint64_t took;

	if (n <= COMPUTE_PLACES || !gate_capped(gate, md->device->ledger) ||
	    gate_contended(guest, unit->now_ns))
		return true;
	took = meter_expect(unit);
	if (n * took <= (uint64_t)room_paid_in_ns(share, ROUND_PAUSE_NS))
		return true;
	return place_take(md, unit->now_ns, unit->now_ns + COMPUTE_PLACES * took + PATIENCE_NS);
}

/* After which another look at what the device and others do is due. */
static void nap(struct guest *guest, struct gate *gate, struct unit *unit, uint64_t until_ns)
{
	static const uint32_t nothing;

	gate_nap(gate, &nothing, 0, until_ns);
	unit->now_ns = now_monotonic_ns();
	meter_active(guest, unit);
	meter_collect(guest, unit->device);
}

static uint64_t refilled_ns(const struct meter_device *md, uint64_t bound_ns)
{
	return bound_ns - bound_ns / (atomic_load(&md->beside) ? REFILL_RANKS_PART : REFILL_PART);
}

/* What comes with the launch may take any time, so none where long ones need a place. */
static uint64_t passing_ns(const struct unit *unit, uint64_t bound_ns, bool spread)
{
	if (!bound_ns)
		return UNBOUNDED_NS;
	if (!spread || atomic_peek(&unit->device->processes) > COMPUTE_PLACES)
		return 0;
	return bound_ns;
}

bool room_wait(struct guest *guest, struct gate *gate, struct unit *unit, struct hold *hold)
{
	bool waited = false, full = false, spread = false;
	uint64_t brief = 0;

	hold->room_ns = 0;
	if (gate_turn_flags(gate, unit->now_ns) & POLICY_TURN_URGED) {
		brief = brief_bound(unit);
		if (!brief)
			return wait_alone(guest, unit, hold);
	}
	for (;;) {
		uint64_t bound = brief ? brief : inflight_bound(guest, gate, unit, &spread);
		uint64_t most = full && !brief ? refilled_ns(unit->device, bound) : bound;
		uint64_t until = bound ? meter_room(guest, unit, most, spread) : 0, glance;

		/* Beside work of other streams it takes no time, and they stay abreast. */
		if (!until || (spread && !brief && meter_fits(unit))) {
			if (!bound || has_place(guest, gate, unit)) {
				hold->room_ns = passing_ns(unit, bound, spread && !brief);
				return waited;
			}
			nap(guest, gate, unit, unit->now_ns + GLANCE_NS);
			return true;
		}
		if (!full) {
			full = true;
			if (gate_alone(guest, unit->now_ns) && !meter_has_peers(unit->device))
				atomic_store_explicit(&unit->device->full_ns, unit->now_ns,
						      memory_order_relaxed);
			continue;
		}
		glance = meter_knows(unit->device) && bound > GLANCE_NS ? bound : GLANCE_NS;
		if (!hold->give_up_ns)
			hold->give_up_ns = until + patience_ns(guest, unit);
		if (unit->now_ns >= hold->give_up_ns) {
			meter_trust(unit->device);
			return waited;
		}
		if (until > unit->now_ns + glance)
			until = unit->now_ns + glance;
		nap(guest, gate, unit, until);
		waited = true;
	}
}
