/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's virtual time is its device time divided by its weight. It is kept as the tenant's lead
 * over the least one in its group, which is all that it competes with, directly or through others.
 * So groups that never met start even when they meet, a tenant that was alone has no lead, and
 * nothing grows without bound. Only tenants of one priority compete; a tenant that a higher
 * priority keeps from running is left out meanwhile.
 *
 * A floor is a debt to the tenant in device time. It grows while the tenant does not have the
 * device, up to one lift, and falls by all that is measured of its work, so a tenant that comes
 * back after a while does not wait. A lifted tenant is above all priorities until the debt of a
 * lift is paid; then it has to grow again. A kernel that took longer than that makes the debt
 * negative, so the next lift is later by that time. Lifts are long and rare: a tenant of the first
 * priority waits for the whole of one, and a hundred steps of 5 ms shall see one at most. The first
 * ones of a tenant are briefer, each twice as long as the last that it used up: a new tenant
 * would otherwise wait for a whole one, whatever little it wants. Its very first one is at once.
 *
 * The first in line reserves its devices while it cannot run yet. Otherwise a tenant on devices A
 * and B could wait forever, between a neighbour on A and one on B whose turns never end together.
 * The price is that A is sometimes idle until B is free.
 */
#include "sched/arbiter.h"

#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "sched/rounds.h"
#include "sched/tuning.h"

const struct arbiter_params arbiter_defaults = {
	.slice_ns = TUNING_SLICE_NS,
	.brief_ns = TUNING_BRIEF_NS,
	.brief_slice_ns = TUNING_BRIEF_SLICE_NS,
	.long_ns = TUNING_LONG_NS,
	.rounds = {
		.latency_ns = TUNING_LATENCY_NS,
		.cheap_ns = TUNING_CHEAP_SLICE_NS,
		.cheap_long_ns = TUNING_LONG_SLICE_NS,
		.least_ns = TUNING_LEAST_SLICE_NS,
		.hand_over_ns = TUNING_HAND_OVER_NS,
	},
	.lift_ns = TUNING_LIFT_NS,
	.grace_ns = 150000,
	.long_grace_ns = TUNING_LONG_GRACE_NS,
	.lead_ns = 500000,
	.edge_ns = 30000,
	.lease_ns = 20000000,
};

/* Units of virtual time in a nanosecond of the lightest tenant, so that heavy ones round well. */
#define VIRTUAL_SCALE 65536

/* Most that a tenant owes: a kernel of 100 s, or a damaged counter. */
#define OWED_MAX_NS (100 * NS_PER_S)

/* The first lift of a tenant is this part of one. */
#define FIRST_LIFT_PART 8

/*
 * Nobody waits longer for the work of a turn that is over, whatever its owner says of it. Work that
 * was waited for in vain waits for the work of another tenant, it may be, which gets no turn before:
 * for a while such work of the owner's is waited for no longer than that.
 */
#define LEAVING_MAX_NS	    NS_PER_S
#define LEAVING_LATE_MAX_NS TUNING_LEAVING_NS
#define VAIN_NS		    (60 * NS_PER_S)

/*
 * A tenant that wanted a device so short a time ago will want it again: it pays a debt, or computes
 * something else. Until then a neighbour keeps little in flight, although it is alone.
 */
#define RECENT_NS (100 * NS_PER_MS)

/* A pause that is longer than this does not tell how long the next one will be. */
#define GAP_MOST_NS (10 * NS_PER_MS)

/* The longest time for which a device idles for its owner, which comes first. */
#define HOLD_MOST_NS NS_PER_MS

/* A step that is due within this time of another has no wake-up of its own. */
#define STEP_MIN_NS (20 * NS_PER_US)

/* Turns that were charged before they were measured; see arbiter_charge_ahead. */
#define AHEAD_TURNS 4

/*
 * How much longer than planned turns are counts up to this: a kernel of a second shortens nobody's
 * turns by more. A shorter turn takes this part off.
 */
#define OVER_MOST_NS (100 * NS_PER_MS)
#define OVER_PART    64

struct machine {
	const struct arbiter_params *params;
	struct arbiter_tenant *tenant;
	int n;
	uint64_t now_ns;
};

static bool arbiter_takes_part(const struct arbiter_tenant *a, const struct arbiter_tenant *b)
{
	return a != b && a->id && b->id && (a->devices & b->devices);
}

static bool arbiter_competes(const struct arbiter_tenant *a, const struct arbiter_tenant *b)
{
	return arbiter_takes_part(a, b) && a->priority == b->priority;
}

/* True if `a` goes before `b`, whatever time either has had. */
static bool arbiter_outranks(const struct arbiter_tenant *a, const struct arbiter_tenant *b)
{
	return a->lifted != b->lifted ? a->lifted : !a->lifted && a->priority > b->priority;
}

/* True if another tenant of at least that priority wants a device of this one. */
static bool arbiter_is_rivalled(const struct machine *m, const struct arbiter_tenant *t,
				int32_t priority)
{
	for (int i = 0; i < m->n; i++)
		if (arbiter_takes_part(&m->tenant[i], t) && m->tenant[i].wants &&
		    m->tenant[i].priority >= priority)
			return true;
	return false;
}

/*
 * Returns the part of a device that others leave it, and the sum of the weights of its priority
 * that divide that part.
 */
static uint32_t arbiter_part_of_device(const struct machine *m, const struct arbiter_tenant *t,
				       uint64_t device)
{
	uint64_t weight = t->weight ? t->weight : 1, all = weight;
	int64_t left = 1000;

	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (other == t || !other->id || !other->wants || !(other->devices & device))
			continue;
		if (other->priority > t->priority)
			left -= other->cap_permille ? other->cap_permille : 1000;
		else if (other->priority < t->priority)
			left -= other->floor_permille;
		else
			all += other->weight ? other->weight : 1;
	}
	left = clamp_i64(left, 0, 1000) * (int64_t)weight / (int64_t)all;
	return (uint32_t)max_u64((uint64_t)left, t->floor_permille);
}

/* Its part by priorities and weights, on the device where that is least. */
static uint32_t arbiter_entitled_permille(const struct machine *m, const struct arbiter_tenant *t)
{
	uint32_t least = 1000;

	for (uint64_t left = t->devices; left; left &= left - 1)
		least = (uint32_t)min_u64(least, arbiter_part_of_device(m, t, left & -left));
	return least ? least : 1;
}

typedef bool arbiter_burst(const struct machine *m, const struct arbiter_tenant *t);

static bool arbiter_is_brief(const struct machine *m, const struct arbiter_tenant *t)
{
	return t->burst_ns && t->burst_ns < m->params->brief_ns;
}

/* A longer burst is a turn by itself, and so is that of a tenant that never waits. */
static bool arbiter_is_long(const struct machine *m, const struct arbiter_tenant *t)
{
	return t->burst_ns >= m->params->long_ns && t->burst_ns <= m->params->slice_ns;
}

/* True if the tenant, and all that want a device of it, have such bursts. */
static bool arbiter_all_are(const struct machine *m, const struct arbiter_tenant *t,
			    arbiter_burst *is)
{
	if (!is(m, t))
		return false;
	for (int i = 0; i < m->n; i++)
		if (arbiter_takes_part(&m->tenant[i], t) && m->tenant[i].wants &&
		    !is(m, &m->tenant[i]))
			return false;
	return true;
}

/* Properties that all that want a device have in common. */
struct round_of {
	bool is_brief, is_long; /* their bursts are */
	uint64_t asked_ns; /* the longest turn that any asks for; UINT64_MAX if one asks for none */
};

static uint64_t arbiter_longest_asked_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t longest_ns = t->slice_ns ? t->slice_ns : UINT64_MAX;

	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (other->wants && arbiter_competes(other, t))
			longest_ns = max_u64(longest_ns,
					     other->slice_ns ? other->slice_ns : UINT64_MAX);
	}
	return longest_ns;
}

/*
 * Its turn where no latency says otherwise. A round has all turns by weight, so a tenant that asks for
 * a short one would shorten those of the others: that is so only if all ask for it.
 */
static uint64_t arbiter_preferred_ns(const struct machine *m, const struct arbiter_tenant *t,
				     const struct round_of *of)
{
	uint64_t usual_ns = m->params->slice_ns;

	if (of->is_brief)
		usual_ns = m->params->brief_slice_ns;
	else if (of->is_long)
		usual_ns = m->params->rounds.cheap_long_ns;
	return max_u64(t->slice_ns, min_u64(usual_ns, of->asked_ns));
}

static struct rounds_tenant arbiter_for_rounds(const struct machine *m,
					       const struct arbiter_tenant *t,
					       const struct round_of *of)
{
	uint64_t patient = t->slice_ns ? UINT64_MAX : 0;
	/* A latency that cannot be kept costs others no more than the least that can. */
	uint64_t least_ns = t->least_latency_ns == UINT64_MAX ? 0 : t->least_latency_ns;

	return (struct rounds_tenant){
		.weight = t->weight,
		.prefer_ns = arbiter_preferred_ns(m, t, of),
		.over_ns = t->over_ns,
		.unit_ns = t->unit_ns,
		.burst_ns = of->is_long ? t->burst_ns : 0,
		.latency_ns = t->latency_ns ? max_u64(t->latency_ns, least_ns) : patient,
	};
}

/* Decides how long the tenant's turns are beside those that want a device of it. */
static void arbiter_plan_turn(const struct machine *m, struct arbiter_tenant *t)
{
	struct round_of of = {
		.is_brief = arbiter_all_are(m, t, arbiter_is_brief),
		.is_long = arbiter_all_are(m, t, arbiter_is_long),
		.asked_ns = arbiter_longest_asked_ns(m, t),
	};
	struct rounds_tenant round[ARBITER_TENANTS];
	int n = 1;

	round[0] = arbiter_for_rounds(m, t, &of);
	for (int i = 0; i < m->n; i++)
		if (m->tenant[i].wants && arbiter_competes(&m->tenant[i], t))
			round[n++] = arbiter_for_rounds(m, &m->tenant[i], &of);
	t->turn = rounds_turn_of(&m->params->rounds, round, n, 0);
}

/* How much device time this tenant's turn has. */
static uint64_t arbiter_slice_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	if (t->lifted)
		return t->lift_ns;
	return t->ahead ? m->params->rounds.least_ns : t->turn.slice_ns;
}

static void arbiter_plan(const struct machine *m)
{
	for (int i = 0; i < m->n; i++) {
		struct arbiter_tenant *t = &m->tenant[i];

		if (t->id)
			arbiter_plan_turn(m, t);
		if (t->owner)
			t->told_ns = max_u64(t->told_ns, arbiter_slice_ns(m, t));
	}
}

/* How long the turn is by the clock. */
static uint64_t arbiter_wall_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	return arbiter_slice_ns(m, t) + arbiter_slice_ns(m, t) / 2;
}

/*
 * Work in flight, less what the device has done of it: a kernel is measured at its end. It works
 * since the latest of: its last measurement, its return, its turn. A guess is no part of it:
 * otherwise a turn of 4 ms would end a millisecond early whenever this is asked shortly after work
 * should be done.
 */
static uint64_t arbiter_in_flight_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t from = max_u64(max_u64(t->billed_ns, t->resumed_ns), t->turn_from_ns);
	uint64_t until = max_u64(sat_sub_u64(t->done_ns, t->guess_ns), m->now_ns);

	if (!t->wants || t->done_ns <= m->now_ns)
		return 0;
	return min_u64(until - min_u64(from, m->now_ns), OWED_MAX_NS);
}

/* Device time that the turn has used; work in flight belongs to the turn, too. */
static uint64_t arbiter_used_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	return t->turn_busy_ns + arbiter_in_flight_ns(m, t);
}

/* ... and the rest of it. */
static uint64_t arbiter_left_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	return sat_sub_u64(arbiter_slice_ns(m, t), arbiter_used_ns(m, t));
}

static uint64_t arbiter_virtual_of(const struct arbiter_tenant *t, uint64_t busy_ns)
{
	uint64_t weight = t->weight ? t->weight : 1;

	return min_u64(busy_ns, OWED_MAX_NS) * VIRTUAL_SCALE / weight;
}

static void arbiter_charge(struct arbiter_tenant *t, uint64_t busy_ns)
{
	uint64_t most = arbiter_virtual_of(t, OWED_MAX_NS);

	t->virtual_ns += arbiter_virtual_of(t, busy_ns);
	if (t->virtual_ns > most)
		t->virtual_ns = most;
}

/*
 * A turn that ended by the clock is charged by the clock, even if less work was measured: otherwise
 * a tenant that holds the device and does nothing would never lose its place in line. Work that is
 * measured later is then not charged again.
 */
static void arbiter_charge_ahead(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t most = arbiter_wall_ns(m, t) * AHEAD_TURNS, ahead_ns;

	if (t->turn_busy_ns >= arbiter_slice_ns(m, t))
		return;
	ahead_ns = arbiter_wall_ns(m, t) - t->turn_busy_ns;
	arbiter_charge(t, ahead_ns);
	if (t->ahead_ns < most)
		t->ahead_ns = t->ahead_ns + ahead_ns < most ? t->ahead_ns + ahead_ns : most;
}

/*
 * Likewise a tenant is charged the time for which others waited for its work after its turn:
 * otherwise it could claim any length for its work. When that work is measured, it is not charged
 * again.
 */
static void arbiter_charge_leaving(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t held_ns = m->now_ns - t->left_ns;

	if (held_ns < arbiter_wall_ns(m, t) || held_ns < t->turn_busy_ns)
		return;
	arbiter_charge(t, held_ns - t->turn_busy_ns);
	t->ahead_ns += held_ns - t->turn_busy_ns;
}

/*
 * Its next turn begins, and work of the last one is still in flight: nobody would charge that, if it
 * is never measured, as its time counts from the beginning of the turn.
 */
static void arbiter_charge_in_flight(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t from = max_u64(max_u64(t->billed_ns, t->resumed_ns), t->turn_from_ns);
	uint64_t flew_ns = arbiter_in_flight_ns(m, t) ? sat_sub_u64(m->now_ns, from) : 0;

	flew_ns = min_u64(flew_ns, OWED_MAX_NS);
	arbiter_charge(t, flew_ns);
	t->ahead_ns += flew_ns;
}

static void arbiter_forget(const struct machine *m, struct arbiter_tenant *t)
{
	t->known_id = t->id;
	t->last_busy_ns = t->busy_ns;
	t->virtual_ns = min_u64(t->inherited_ns, arbiter_virtual_of(t, OWED_MAX_NS));
	t->ahead_ns = 0;
	t->turn_from_ns = t->turn_busy_ns = t->left_ns = 0;
	t->over_ns = t->took_ns = t->told_ns = t->alone_ns = t->waits_ns = 0;
	t->ahead = false;
	t->turn = (struct rounds_turn){m->params->slice_ns, UINT64_MAX, UINT64_MAX};
	t->idle_since_ns = 1;
	t->billed_ns = t->resumed_ns = t->gap_ns = t->came_ns = t->stay_ns = 0;
	t->idle = t->away = true;
	t->owner = t->leaving = t->outranked = false;
	t->lift_ns = m->params->lift_ns / FIRST_LIFT_PART;
	t->owed_ns = (int64_t)t->lift_ns;
	t->paid_ahead_ns = t->late_ns = t->vain_ns = 0;
	t->looked_ns = t->lifted_ns = 0;
	t->lifted = t->landing = false;
}

/*
 * The floor is a part of all the time, so of the time in which the tenant does not work it is a
 * little more. Time that it used while no debt to it was open is no advance on its floor.
 */
static void arbiter_owe(const struct machine *m, struct arbiter_tenant *t, uint64_t busy_ns)
{
	uint64_t passed_ns = min_u64(m->now_ns - t->looked_ns, OWED_MAX_NS);
	uint64_t waited_ns = t->owner && t->wants ? 0 : passed_ns;
	uint64_t ahead_ns = min_u64(busy_ns, t->paid_ahead_ns);

	t->paid_ahead_ns -= ahead_ns;
	busy_ns -= ahead_ns;
	if (t->looked_ns)
		t->owed_ns += (int64_t)(waited_ns * t->floor_permille /
					(1000 - t->floor_permille));
	if (t->lifted || t->landing)
		t->owed_ns -= (int64_t)busy_ns;
	else if (t->owed_ns > 0)
		t->owed_ns = clamp_i64(t->owed_ns - (int64_t)busy_ns, 0, INT64_MAX);
	t->owed_ns = clamp_i64(t->owed_ns, -(int64_t)OWED_MAX_NS,
			       (int64_t)m->params->lift_ns);
	t->looked_ns = m->now_ns;
	if (!t->done_ns && !busy_ns)
		t->landing = false;
}

static void arbiter_account(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t busy_ns = sat_sub_u64(t->busy_ns, t->last_busy_ns),
		 ahead_ns;

	t->last_busy_ns = t->busy_ns;
	if (busy_ns)
		t->billed_ns = m->now_ns;
	busy_ns = min_u64(busy_ns, OWED_MAX_NS);
	arbiter_owe(m, t, busy_ns);
	t->turn_busy_ns += busy_ns;
	ahead_ns = min_u64(busy_ns, t->ahead_ns);
	t->ahead_ns -= ahead_ns;
	arbiter_charge(t, busy_ns - ahead_ns);
}

/*
 * A tenant that comes back after a real pause keeps its debt, and starts no earlier in line than
 * those that stayed. A pause of less than a slice, or one in which its work was still billed, is no
 * real one: otherwise a tenant that waits for each of its bursts would lose its place each time.
 */
static void arbiter_come_back(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (arbiter_competes(other, t) && !other->away && other->virtual_ns < least)
			least = other->virtual_ns;
	}
	if (least != UINT64_MAX && t->virtual_ns < least)
		t->virtual_ns = least;
}

/*
 * Virtual time with the work that is launched and not measured yet. Without that, a tenant whose
 * turn has just ended would still look as if it had had little, and would get another turn.
 */
static uint64_t arbiter_expected_virtual(const struct machine *m, const struct arbiter_tenant *t)
{
	return t->virtual_ns + arbiter_virtual_of(t, arbiter_in_flight_ns(m, t));
}

/*
 * A tenant whose turn has just ended counts as if half of another one were gone. If one turn was
 * too long, or charged by the clock, the others would otherwise have two turns in a row for it, and
 * a tenant that waits for these would wait twice.
 */
static uint64_t arbiter_place_in_line(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t more_ns = t->left_ns == m->now_ns ? arbiter_slice_ns(m, t) / 2 : 0;

	return arbiter_expected_virtual(m, t) + arbiter_virtual_of(t, more_ns);
}

/* By when its latency ends; UINT64_MAX if it does not wait, or its latency cannot be kept. */
static uint64_t arbiter_latency_ends_ns(const struct arbiter_tenant *t)
{
	if (!t->waits_ns || !t->latency_ns || t->latency_ns < t->least_latency_ns)
		return UINT64_MAX;
	return t->waits_ns + t->latency_ns;
}

static bool arbiter_latency_ends_sooner(const struct arbiter_tenant *a,
					const struct arbiter_tenant *b)
{
	return arbiter_competes(a, b) && arbiter_latency_ends_ns(a) < arbiter_latency_ends_ns(b);
}

/* ... less the shortest turns of those whose latency ends sooner. */
static uint64_t arbiter_begins_by_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t by_ns = arbiter_latency_ends_ns(t), before_ns = 0;

	for (int i = 0; by_ns != UINT64_MAX && i < m->n; i++)
		if (arbiter_latency_ends_sooner(&m->tenant[i], t))
			before_ns += m->params->rounds.least_ns + m->tenant[i].over_ns;
	return sat_sub_u64(by_ns, before_ns);
}

/* When the turn of another tenant begins at the latest, for the latencies of those that wait. */
static uint64_t arbiter_next_begins_by_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t by_ns = UINT64_MAX;

	for (int i = 0; i < m->n; i++)
		if (m->tenant[i].waits_ns && arbiter_competes(&m->tenant[i], t))
			by_ns = min_u64(by_ns, arbiter_begins_by_ns(m, &m->tenant[i]));
	return sat_sub_u64(by_ns, m->params->rounds.hand_over_ns);
}

static uint64_t arbiter_least_turn_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	return rounds_least_turn_ns(&m->params->rounds, t->unit_ns, t->over_ns);
}

/*
 * True if its latency would end in the shortest turn of another tenant that begins now. A tenant
 * whose latency ends sooner goes before it anyway.
 */
static bool arbiter_is_pressed(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t by_ns = arbiter_begins_by_ns(m, t), longest_ns = 0;

	if (by_ns == UINT64_MAX)
		return false;
	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (arbiter_competes(other, t) && other->wants &&
		    !arbiter_latency_ends_sooner(other, t))
			longest_ns = max_u64(longest_ns, arbiter_least_turn_ns(m, other));
	}
	return m->now_ns + longest_ns > by_ns;
}

/*
 * When its latency ends, if it goes before others for that: it is pressed, or a tenant is that goes
 * behind it. UINT64_MAX: another turn can come before its own.
 */
static uint64_t arbiter_deadline_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	bool pressed = t->pressed;

	for (int i = 0; !pressed && i < m->n; i++)
		pressed = m->tenant[i].pressed && arbiter_latency_ends_sooner(t, &m->tenant[i]);
	return pressed ? arbiter_latency_ends_ns(t) : UINT64_MAX;
}

static bool arbiter_goes_before(const struct machine *m, const struct arbiter_tenant *a,
				const struct arbiter_tenant *b)
{
	uint64_t of_a = arbiter_place_in_line(m, a), of_b = arbiter_place_in_line(m, b);

	if (a->wants != b->wants)
		return a->wants;
	if (arbiter_outranks(a, b) || arbiter_outranks(b, a))
		return arbiter_outranks(a, b);
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	if (of_a != of_b)
		return of_a < of_b;
	return a->turn_from_ns < b->turn_from_ns;
}

static int arbiter_line_up(const struct machine *m, struct arbiter_tenant *line[ARBITER_TENANTS])
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		m->tenant[i].pressed = arbiter_is_pressed(m, &m->tenant[i]);
	for (int i = 0; i < m->n; i++)
		m->tenant[i].deadline_ns = arbiter_deadline_ns(m, &m->tenant[i]);
	for (int i = 0; i < m->n; i++) {
		int at = n;

		if (!m->tenant[i].id)
			continue;
		for (; at > 0 && arbiter_goes_before(m, &m->tenant[i], line[at - 1]); at--)
			line[at] = line[at - 1];
		line[at] = &m->tenant[i];
		n++;
	}
	return n;
}

/* True if a tenant that waits for one of its devices is before it in line by now. */
static bool arbiter_should_yield(const struct machine *m, const struct arbiter_tenant *t)
{
	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (arbiter_takes_part(other, t) && other->wants &&
		    (other->priority != t->priority ||
		     arbiter_expected_virtual(m, other) <= arbiter_expected_virtual(m, t)))
			return true;
	}
	return false;
}

/*
 * How long an owner with nothing to do keeps its turn. An owner that is known to come back later
 * than is worth waiting for gives it up, unless it is still the first in line. For if it gave it up
 * then, too, a tenant that waits for each of its bursts would get one burst for each of a
 * neighbour's, whatever their weights.
 */
static uint64_t arbiter_grace_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t worth_ns = arbiter_all_are(m, t, arbiter_is_long) ? m->params->long_grace_ns
								   : m->params->grace_ns;

	if (t->gap_ns <= worth_ns)
		return worth_ns;
	if (arbiter_should_yield(m, t) || 2 * t->gap_ns > HOLD_MOST_NS)
		return 0;
	return 2 * t->gap_ns;
}

/*
 * True if another tenant would wait for too long by the end of the next burst. The usual latency is
 * worth no turn that is much shorter than planned.
 */
static bool arbiter_next_is_too_long(const struct machine *m, const struct arbiter_tenant *t,
				     uint64_t burst_ns)
{
	uint64_t from_ns = max_u64(t->turn_from_ns, t->alone_ns);
	uint64_t end_ns = max_u64(t->done_ns, m->now_ns) + t->gap_ns + burst_ns;
	uint64_t took_ns = sat_sub_u64(end_ns, from_ns);

	if (!t->lifted && end_ns > arbiter_next_begins_by_ns(m, t))
		return true;
	if (t->lifted || took_ns <= min_u64(t->turn.asked_end_ns, t->turn.usual_end_ns))
		return false;
	return took_ns > t->turn.asked_end_ns ||
	       arbiter_used_ns(m, t) >= t->turn.slice_ns - t->turn.slice_ns / 4;
}

/*
 * True if an owner that waits for its work gives its turn up at the end of that work: it then
 * pauses for longer than is worth waiting for, its next burst would exceed the slice by more than
 * this one falls short of it, or another tenant would wait too long.
 */
static bool arbiter_ends_with_burst(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t in_flight = arbiter_in_flight_ns(m, t);

	return in_flight && arbiter_is_rivalled(m, t, t->priority) &&
	       (!arbiter_grace_ns(m, t) || arbiter_next_is_too_long(m, t, in_flight) ||
		arbiter_used_ns(m, t) + in_flight / 2 >= arbiter_slice_ns(m, t));
}

/*
 * Finds which tenants are outranked: a higher priority wants one of their devices and keeps them
 * from running, and is not kept from running itself.
 */
static void arbiter_rank(const struct machine *m)
{
	struct arbiter_tenant *line[ARBITER_TENANTS];
	int n = arbiter_line_up(m, line);

	for (int i = 0; i < n; i++) {
		line[i]->outranked = false;
		for (int j = 0; j < i && !line[i]->outranked; j++)
			line[i]->outranked =
				arbiter_takes_part(line[j], line[i]) && line[j]->wants &&
				arbiter_outranks(line[j], line[i]) && !line[j]->outranked;
	}
}

static uint64_t arbiter_follow_up(uint64_t mean_ns, uint64_t ns)
{
	return mean_ns ? (3 * mean_ns + ns) / 4 : ns;
}

/* A pause may have been taken to begin when its work was about done, see arbiter_host.c. */
static void arbiter_resume(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t brief_ns = m->params->lead_ns + m->params->grace_ns, gap_ns;

	if (t->idle_since_ns) {
		gap_ns = m->now_ns - t->idle_since_ns;
		t->returns = gap_ns < brief_ns;
		gap_ns = min_u64(gap_ns, GAP_MOST_NS);
		if (t->resumed_ns) /* before it first came is no pause */
			t->gap_ns = arbiter_follow_up(t->gap_ns, gap_ns);
		t->resumed_ns = m->now_ns;
		if (!t->returns) {
			if (t->came_ns)
				t->stay_ns = arbiter_follow_up(t->stay_ns,
							       t->idle_since_ns - t->came_ns);
			t->came_ns = m->now_ns;
		}
	}
	t->idle_since_ns = 0;
}

/*
 * Follows by how much the tenant's turns are longer than planned, while others wait: by a kernel,
 * by pauses of the program, by the hand-over. The longest counts, and is forgotten slowly.
 */
static void arbiter_learn_over(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t from_ns = max_u64(t->turn_from_ns, t->alone_ns);
	uint64_t took_ns = sat_sub_u64(m->now_ns, from_ns);
	uint64_t over_ns = min_u64(sat_sub_u64(took_ns, t->told_ns), OVER_MOST_NS);

	t->took_ns = took_ns;
	if (over_ns >= t->over_ns)
		t->over_ns = over_ns;
	else if (took_ns >= t->told_ns / 2)
		t->over_ns -= (t->over_ns - over_ns) / OVER_PART;
}

/* True if it had a real pause, after which it loses its place in line. */
static bool arbiter_is_away(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t since = max_u64(t->idle_since_ns, t->billed_ns);

	return t->idle_since_ns && m->now_ns - since >= m->params->slice_ns;
}

/* Until when the work of a turn that is over is waited for, at the latest. */
static uint64_t arbiter_leaves_by_ns(const struct arbiter_tenant *t)
{
	bool vain = t->late_ns && t->vain_ns && t->left_ns < t->vain_ns + VAIN_NS;

	return vain ? max_u64(t->late_ns, t->left_ns) + LEAVING_LATE_MAX_NS
		    : t->left_ns + LEAVING_MAX_NS;
}

static bool arbiter_has_left(const struct machine *m, const struct arbiter_tenant *t)
{
	return !t->wants || t->done_ns <= m->now_ns + m->params->lead_ns ||
	       m->now_ns >= arbiter_leaves_by_ns(t);
}

/* A wait ends with work in flight, not with a turn: that may end before it was used. */
static void arbiter_follow_wait(const struct machine *m, struct arbiter_tenant *t)
{
	bool works = t->done_ns > m->now_ns;

	if (!t->wants || (t->owner && works))
		t->waits_ns = 0;
	else if (works || (!t->owner && !t->waits_ns))
		t->waits_ns = m->now_ns;
}

static void arbiter_look(const struct machine *m)
{
	bool away[ARBITER_TENANTS] = {false};

	for (int i = 0; i < m->n; i++) {
		struct arbiter_tenant *t = &m->tenant[i];

		if (t->id != t->known_id)
			arbiter_forget(m, t);
		arbiter_account(m, t);
		if (!t->guess_ns)
			t->late_ns = 0;
		else if (!t->late_ns)
			t->late_ns = m->now_ns;
		if (t->wants)
			arbiter_resume(m, t);
		else if (!t->idle_since_ns)
			t->idle_since_ns = m->now_ns;
		t->idle =
			t->idle_since_ns && m->now_ns - t->idle_since_ns >= arbiter_grace_ns(m, t);
		away[i] = arbiter_is_away(m, t);
		arbiter_follow_wait(m, t);
	}
	for (int i = 0; i < m->n; i++)
		if (!arbiter_is_rivalled(m, &m->tenant[i], m->tenant[i].priority))
			m->tenant[i].alone_ns = m->now_ns;
	for (int i = 0; i < m->n; i++)
		if (m->tenant[i].away && !away[i])
			arbiter_come_back(m, &m->tenant[i]);
	for (int i = 0; i < m->n; i++) {
		struct arbiter_tenant *t = &m->tenant[i];

		t->away = away[i];
		if (t->away)
			t->ahead_ns = 0;
		if (t->leaving && arbiter_has_left(m, t)) {
			if (m->now_ns >= arbiter_leaves_by_ns(t))
				t->vain_ns = m->now_ns;
			arbiter_charge_leaving(m, t);
			arbiter_learn_over(m, t);
			t->leaving = false;
		}
	}
}

/*
 * The devices of the group that it competes in: its own, and those of all that share one of them.
 */
static uint64_t arbiter_group_of(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t mask = t->devices, before;

	do {
		before = mask;
		for (int i = 0; i < m->n; i++) {
			const struct arbiter_tenant *other = &m->tenant[i];

			if (other->id && !other->away && !other->outranked &&
			    other->priority == t->priority && (other->devices & mask))
				mask |= other->devices;
		}
	} while (mask != before);
	return mask;
}

static bool arbiter_owes_somebody(const struct machine *m, const struct arbiter_tenant *t)
{
	for (int i = 0; i < m->n; i++)
		if (arbiter_competes(&m->tenant[i], t) && !m->tenant[i].away)
			return true;
	return false;
}

/*
 * Subtracts from each lead the least one of the group. An idle tenant's debt falls with the rest.
 */
static void arbiter_rebase(const struct machine *m)
{
	bool done[ARBITER_TENANTS] = {false};

	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *t = &m->tenant[i];
		uint64_t mask, least = t->virtual_ns;

		if (!t->id || t->away || t->outranked || done[i])
			continue;
		mask = arbiter_group_of(m, t);
		for (int j = i; j < m->n; j++) {
			const struct arbiter_tenant *other = &m->tenant[j];

			if (!other->id || other->away || other->outranked ||
			    other->priority != t->priority || !(other->devices & mask))
				continue;
			done[j] = true;
			if (other->virtual_ns < least)
				least = other->virtual_ns;
		}
		for (int j = 0; least && j < m->n; j++) {
			struct arbiter_tenant *other = &m->tenant[j];

			if (other->priority == t->priority && (other->devices & mask))
				other->virtual_ns -= min_u64(other->virtual_ns, least);
		}
	}
	for (int i = 0; i < m->n; i++)
		if (m->tenant[i].away && !arbiter_owes_somebody(m, &m->tenant[i]))
			m->tenant[i].virtual_ns = 0;
}

/* Ends a lift: its debt is paid, or the tenant has no use for it. */
static void arbiter_lower(struct arbiter_tenant *t)
{
	t->landing = t->lifted;
	t->lifted = false;
}

static void arbiter_end_turn(const struct machine *m, struct arbiter_tenant *t)
{
	bool lifted = t->lifted;

	arbiter_lower(t);
	t->owner = false;
	t->leaving = t->wants && t->done_ns > m->now_ns + m->params->lead_ns;
	if (!t->leaving && !lifted)
		arbiter_learn_over(m, t);
	t->left_ns = m->now_ns;
	t->turn_busy_ns = 0; /* from here on: measured since */
}

static void arbiter_begin_turn(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t most = arbiter_wall_ns(m, t) * AHEAD_TURNS;

	if (t->leaving)
		arbiter_charge_leaving(m, t);
	arbiter_charge_in_flight(m, t);
	/* Work that was charged ahead and is not measured by now never will be: it is forgotten. */
	if (t->done_ns <= m->now_ns && t->ahead_ns > most)
		t->ahead_ns = most;
	t->ahead = t->deadline_ns != UINT64_MAX && arbiter_should_yield(m, t);
	t->owner = true;
	t->leaving = false;
	t->turn_from_ns = m->now_ns;
	t->turn_busy_ns = 0;
	t->told_ns = arbiter_slice_ns(m, t);
}

/*
 * True if a tenant that waits is behind by more than a turn. It had pauses, in which others had
 * their turns. A turn for a latency goes on, at least until the tenant has launched.
 */
static bool arbiter_is_overdue(const struct machine *m, const struct arbiter_tenant *t)
{
	if (t->ahead || (t->latency_ns && t->waits_ns))
		return false;
	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (arbiter_competes(other, t) && other->wants && !other->outranked &&
		    arbiter_expected_virtual(m, other) +
				    arbiter_virtual_of(t, arbiter_slice_ns(m, t)) <
			    arbiter_expected_virtual(m, t))
			return true;
	}
	return false;
}

/* By the clock a lift takes half as long again at most, after the work that was under way. */
static bool arbiter_is_lifted_for_long(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t since = t->owner ? max_u64(t->lifted_ns, t->turn_from_ns) : t->lifted_ns;

	return m->now_ns - since >= (t->owner ? t->lift_ns + t->lift_ns / 2 : LEAVING_MAX_NS);
}

/*
 * The time of the lift that is not measured yet. Work that was in flight before its turn does not
 * count: it may wait for work of this turn.
 */
static int64_t arbiter_lift_used_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	return t->owner ? (int64_t)arbiter_in_flight_ns(m, t) : 0;
}

/* Otherwise work that is never measured would be lifted again at once, and forever. */
static void arbiter_pay_ahead(const struct machine *m, struct arbiter_tenant *t)
{
	int64_t used_ns = clamp_i64(arbiter_lift_used_ns(m, t), 0, t->owed_ns > 0 ? t->owed_ns : 0);

	t->owed_ns -= used_ns;
	t->paid_ahead_ns += (uint64_t)used_ns;
}

static void arbiter_begin_lift(const struct machine *m, struct arbiter_tenant *t)
{
	t->lifted = true;
	t->lifted_ns = m->now_ns;
	t->lift_ns = max_u64(t->lift_ns, (uint64_t)t->owed_ns);
}

/*
 * `late`: the lift is over by the clock. A tenant whose work was slow gets the rest soon; one that
 * did nothing, or says so, later. Work that is late may wait for a launch that this lift had no time
 * for: the next one is a whole one.
 */
static void arbiter_end_lift(const struct machine *m, struct arbiter_tenant *t, bool late)
{
	bool idle = late && !t->turn_busy_ns;

	if (late)
		t->owed_ns = clamp_i64(t->owed_ns, -(int64_t)OWED_MAX_NS,
				       idle ? 0 : (int64_t)t->lift_ns / 2);
	arbiter_pay_ahead(m, t);
	if (idle || (t->late_ns && t->done_ns > m->now_ns))
		t->lift_ns = m->params->lift_ns;
	else if (late || t->owed_ns <= 0)
		t->lift_ns = min_u64(2 * t->lift_ns, m->params->lift_ns);
	if (t->owner)
		arbiter_end_turn(m, t);
	else
		arbiter_lower(t);
}

/* Before the ranks are found: by those of the step before, it waited until now. */
static void arbiter_lift(const struct machine *m)
{
	for (int i = 0; i < m->n; i++) {
		struct arbiter_tenant *t = &m->tenant[i];
		bool late = t->lifted && arbiter_is_lifted_for_long(m, t);

		if (t->lifted &&
		    (late || !t->wants || t->owed_ns <= arbiter_lift_used_ns(m, t)))
			arbiter_end_lift(m, t, late);
		else if (!t->lifted && t->id && t->wants && t->outranked && t->floor_permille &&
			 t->owed_ns >= (int64_t)t->lift_ns)
			arbiter_begin_lift(m, t);
	}
}

/* True if another tenant has waited for so long that the work in flight is to be the last. */
static bool arbiter_is_awaited(const struct machine *m, const struct arbiter_tenant *t)
{
	return !t->lifted &&
	       max_u64(t->done_ns, m->now_ns) >= arbiter_next_begins_by_ns(m, t);
}

static void arbiter_end_turns(const struct machine *m)
{
	for (int i = 0; i < m->n; i++) {
		struct arbiter_tenant *t = &m->tenant[i];
		bool late = m->now_ns - t->turn_from_ns >= arbiter_wall_ns(m, t);

		if (!t->owner)
			continue;
		if (t->outranked || arbiter_is_overdue(m, t) || arbiter_is_awaited(m, t) ||
		    (t->idle && arbiter_is_rivalled(m, t, INT32_MIN)) ||
		    (t->rests && t->done_ns <= m->now_ns + m->params->lead_ns &&
		     arbiter_ends_with_burst(m, t))) {
			arbiter_end_turn(m, t);
		} else if ((late || !arbiter_left_ns(m, t)) &&
			   arbiter_is_rivalled(m, t, t->priority)) {
			if (late) {
				arbiter_charge_ahead(m, t);
				/* It waits anew, or it would be before all others for ever. */
				t->waits_ns = t->waits_ns ? m->now_ns : 0;
			}
			arbiter_end_turn(m, t);
		}
	}
}

/* True if the tenant has to wait for work of an earlier turn on one of its devices. */
static bool arbiter_drains(const struct machine *m, const struct arbiter_tenant *t)
{
	for (int i = 0; i < m->n; i++)
		if (arbiter_takes_part(&m->tenant[i], t) && m->tenant[i].leaving &&
		    (t->lifted || m->tenant[i].priority >= t->priority))
			return true;
	return false;
}

/*
 * First the tenants whose turn continues, then those for which there is room, in the order of the
 * line.
 */
static void arbiter_begin_turns(const struct machine *m)
{
	struct arbiter_tenant *line[ARBITER_TENANTS];
	uint64_t taken = 0;
	int n = arbiter_line_up(m, line);

	for (int i = 0; i < n; i++) {
		if (!line[i]->owner)
			continue;
		/* Devices may have been given to a tenant in the middle of its turn. */
		if (line[i]->devices & taken)
			arbiter_end_turn(m, line[i]);
		else
			taken |= line[i]->devices;
	}
	for (int i = 0; i < n; i++) {
		if (line[i]->owner)
			continue;
		if (!(line[i]->devices & taken) && !arbiter_drains(m, line[i]))
			arbiter_begin_turn(m, line[i]);
		if (line[i]->owner || (line[i]->wants && !line[i]->outranked))
			taken |= line[i]->devices;
	}
}

static void arbiter_urge(const struct machine *m, struct arbiter_tenant *t)
{
	t->urged = false;
	t->urgent_ns = UINT64_MAX;
	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (!arbiter_takes_part(other, t) || other->priority <= t->priority)
			continue;
		t->urged = true;
		t->urgent_ns = min_u64(t->urgent_ns, other->stay_ns);
	}
	if (!t->urged)
		t->urgent_ns = 0;
}

/* True if it is above all that share a device with it, and there are some: it waits for nobody. */
static bool arbiter_is_first(const struct machine *m, const struct arbiter_tenant *t)
{
	bool any = false;

	for (int i = 0; i < m->n; i++) {
		if (!arbiter_takes_part(&m->tenant[i], t))
			continue;
		if (m->tenant[i].priority >= t->priority || m->tenant[i].lifted || t->lifted)
			return false;
		any = true;
	}
	return any;
}

/* A tenant whose latency can be kept, and is sooner over than a neighbour's work in flight may be. */
static bool arbiter_is_in_haste(const struct arbiter_tenant *t)
{
	return t->latency_ns && t->latency_ns < RECENT_NS && t->latency_ns >= t->least_latency_ns;
}

static bool arbiter_is_contended(const struct machine *m, const struct arbiter_tenant *t)
{
	for (int i = 0; i < m->n; i++)
		if (arbiter_takes_part(&m->tenant[i], t) &&
		    (!m->tenant[i].idle_since_ns || arbiter_is_in_haste(&m->tenant[i]) ||
		     m->now_ns - m->tenant[i].idle_since_ns < RECENT_NS))
			return true;
	return false;
}

/*
 * The least latency that its turns can keep if all want its devices that take turns on them. None
 * can be said beside higher priorities, or if its neighbours have turns on other devices, too.
 */
static uint64_t arbiter_least_latency_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	struct rounds_tenant round[ARBITER_TENANTS];
	struct round_of of = {0};
	int n = 1;

	if (!t->id || t->first)
		return 0;
	round[0] = arbiter_for_rounds(m, t, &of);
	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (!arbiter_takes_part(other, t) || other->priority < t->priority)
			continue;
		if (other->priority > t->priority || other->devices != t->devices)
			return UINT64_MAX;
		round[n++] = arbiter_for_rounds(m, other, &of);
	}
	return rounds_least_latency_ns(&m->params->rounds, round, n, 0);
}

/* When the work of those before it is about done. */
static uint64_t arbiter_open_from_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t done_ns = 0;

	for (int i = 0; i < m->n; i++)
		if ((arbiter_competes(&m->tenant[i], t) ||
		     (t->lifted && arbiter_takes_part(&m->tenant[i], t))) &&
		    m->tenant[i].done_ns > done_ns)
			done_ns = m->tenant[i].done_ns;
	done_ns = min_u64(done_ns, m->now_ns + m->params->lead_ns);
	return done_ns > m->now_ns + m->params->edge_ns ? done_ns - m->params->edge_ns : 0;
}

/* Notes for how long the tenant waited for the turn that begins, and for whose turn. */
static void arbiter_note_wait(const struct machine *m, struct arbiter_tenant *t)
{
	uint64_t opens_ns = max_u64(t->open_from_ns, m->now_ns);

	t->waited_ns = t->behind_ns = 0;
	t->behind = -1;
	if (!t->owner || t->turn_from_ns != m->now_ns || !t->waits_ns)
		return;
	t->waited_ns = max_u64(opens_ns - min_u64(t->waits_ns, opens_ns), 1);
	for (int i = 0; i < m->n; i++) {
		const struct arbiter_tenant *other = &m->tenant[i];

		if (!arbiter_takes_part(other, t) || other->left_ns < t->waits_ns ||
		    other->took_ns < t->behind_ns)
			continue;
		t->behind = i;
		t->behind_ns = other->took_ns;
	}
}

static void arbiter_answer(const struct machine *m, struct arbiter_tenant *t)
{
	t->contended = arbiter_is_contended(m, t);
	arbiter_urge(m, t);
	t->first = arbiter_is_first(m, t);
	t->open = t->owner || t->first;
	t->least_latency_ns = arbiter_least_latency_ns(m, t);
	t->entitled_permille = t->id ? arbiter_entitled_permille(m, t) : 0;
	t->open_until_ns = t->open_from_ns = 0;
	if (t->open)
		t->open_from_ns = arbiter_open_from_ns(m, t);
	arbiter_note_wait(m, t);
	if (!t->open)
		return;
	t->open_until_ns = m->now_ns + m->params->lease_ns;
	if (arbiter_is_rivalled(m, t, t->priority))
		t->open_until_ns =
			min_u64(t->open_until_ns, t->turn_from_ns + arbiter_wall_ns(m, t));
}

/*
 * When to look whether another tenant's latency ends the turn: a short turn before that, and then as
 * it does, not sooner than it is of use.
 */
static uint64_t arbiter_awaited_from_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t by_ns = arbiter_next_begins_by_ns(m, t);
	uint64_t from_ns = sat_sub_u64(by_ns, m->params->rounds.least_ns);

	return from_ns > m->now_ns ? from_ns : max_u64(by_ns, m->now_ns + m->params->grace_ns);
}

/* When something about this tenant can change by itself. */
static uint64_t arbiter_next_ns(const struct machine *m, const struct arbiter_tenant *t)
{
	uint64_t next = UINT64_MAX;

	if (t->lifted)
		next = m->now_ns + (uint64_t)clamp_i64(t->owed_ns - arbiter_lift_used_ns(m, t), 0,
						       INT64_MAX);
	else if (t->wants && t->outranked && t->floor_permille)
		next = m->now_ns +
		       (uint64_t)clamp_i64((int64_t)t->lift_ns - t->owed_ns, 0,
					    INT64_MAX) *
			       (1000 - t->floor_permille) / t->floor_permille;
	if (t->leaving)
		next = min_u64(next, min_u64(t->done_ns - m->params->lead_ns,
					    arbiter_leaves_by_ns(t)));
	if (!t->owner || !arbiter_is_rivalled(m, t, INT32_MIN))
		return next;
	/* It does not tell when it goes idle: look when its work in flight may be done. */
	if (t->idle_since_ns)
		next = min_u64(next, t->idle_since_ns + arbiter_grace_ns(m, t));
	else if (t->done_ns > m->now_ns + m->params->lead_ns && arbiter_ends_with_burst(m, t))
		next = min_u64(next, t->done_ns - m->params->lead_ns);
	else
		next = min_u64(next, t->done_ns > m->now_ns ? t->done_ns
							    : m->now_ns + m->params->grace_ns);
	if (arbiter_is_rivalled(m, t, t->priority)) {
		next = min_u64(next, t->turn_from_ns + arbiter_wall_ns(m, t));
		if (!t->lifted)
			next = min_u64(next, arbiter_awaited_from_ns(m, t));
		/* No sooner: a device works no faster than the clock goes. */
		if (!t->rests)
			next = min_u64(next, m->now_ns + arbiter_left_ns(m, t));
	}
	return next;
}

uint64_t arbiter_step(const struct arbiter_params *params, struct arbiter_tenant *tenant, int n,
		      uint64_t now_ns)
{
	const struct machine m = {
		.params = params,
		.tenant = tenant,
		.n = n < ARBITER_TENANTS ? n : ARBITER_TENANTS,
		.now_ns = now_ns,
	};
	uint64_t next = now_ns + params->lease_ns / 2;

	arbiter_look(&m);
	arbiter_plan(&m);
	arbiter_lift(&m);
	arbiter_rank(&m);
	arbiter_rebase(&m);
	arbiter_end_turns(&m);
	arbiter_begin_turns(&m);
	for (int i = 0; i < m.n; i++) {
		arbiter_answer(&m, &tenant[i]);
		next = min_u64(next, arbiter_next_ns(&m, &tenant[i]));
	}
	return next > now_ns + STEP_MIN_NS ? next : now_ns + STEP_MIN_NS;
}
