/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has its memory on the devices: single decisions, and a model of tenants of random sizes that
 * work, pause and move, over a long time.
 */
#include "sched/residency.h"

#include <string.h>

#include "base/now.h"
#include "sched/residency_time.h"
#include "sched/tuning.h"
#include "tests/check.h"

#define GIB (UINT64_C(1) << 30)
#define MS NS_PER_MS
#define SECOND NS_PER_S
#define TENANTS 12

struct job {
	uint64_t size[RESIDENCY_DEVICES];
	uint64_t busy_ns, pause_ns; /* it works so long, and then does nothing; 0: no pause */
	uint64_t phase_until_ns;
	bool working;
	uint64_t moves_until_ns, worked_ns, longest_wait_ns;
	uint64_t visits;
};

struct world {
	struct residency_tenant tenant[TENANTS];
	struct residency_device device[RESIDENCY_DEVICES];
	struct job job[TENANTS];
	int n;
	uint64_t now_ns, random;
	uint64_t lost_ns; /* nobody worked */
};

static struct world world;

static uint64_t pick(struct world *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

static struct world *fresh(uint64_t capacity)
{
	memset(&world, 0, sizeof(world));
	world.now_ns = 100 * SECOND;
	world.random = UINT64_C(88172645463325252);
	world.device[0].capacity_bytes = capacity;
	return &world;
}

static struct residency_tenant *add(struct world *w, enum residency_place place, uint64_t bytes)
{
	struct residency_tenant *t = &w->tenant[w->n];

	*t = (struct residency_tenant){.id = 1 + (uint64_t)w->n, .place = place,
				       .asked = RESIDENCY_ALL};
	(place == RESIDENCY_HERE ? t->here : t->away)[0] = bytes;
	t->out_ns = t->back_ns = bytes / 100000 * NS_PER_US; /* 100 GB/s: a short model */
	w->job[w->n++].size[0] = bytes;
	return t;
}

static bool step(struct world *w)
{
	return residency_step(&residency_defaults, w->tenant, w->n, w->device, w->now_ns);
}

/* So long after it came, having used its memory up to now. */
static void later(struct world *w, uint64_t ns)
{
	w->now_ns += ns;
	for (int i = 0; i < w->n; i++)
		if (w->tenant[i].place == RESIDENCY_HERE)
			w->tenant[i].used_ns = w->now_ns;
}

/* --- Single decisions ----------------------------------------------------------------------- */

static void check_nobody_leaves_for_nobody(void)
{
	struct world *w = fresh(100 * GIB);

	add(w, RESIDENCY_HERE, 60 * GIB);
	add(w, RESIDENCY_AWAY, 60 * GIB);
	for (int i = 0; i < 100; i++) {
		CHECK(!step(w));
		CHECK(!w->tenant[0].leave && !w->tenant[1].come);
		w->now_ns += SECOND;
	}
}

/* Unused for so long, the one that is to leave then does, and all of it; and no other. */
static void check_idle_leaves(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *idle = add(w, RESIDENCY_HERE, 20 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_HERE, 20 * GIB);

	idle->idle_suspend_ns = 10 * SECOND;
	step(w);
	later(w, SECOND);
	CHECK_EQ(residency_leaves_idle_ns(idle), w->now_ns + 10 * SECOND);
	CHECK_EQ(residency_leaves_idle_ns(other), UINT64_MAX);
	w->now_ns += 10 * SECOND - 1;
	CHECK(!step(w) && !idle->leave);
	w->now_ns += 1;
	CHECK(!step(w));
	CHECK(idle->leave && idle->part == RESIDENCY_ALL && !other->leave);
	/* It cannot, or not now. */
	idle->fixed = true;
	CHECK(!step(w) && !idle->leave);
	CHECK_EQ(residency_leaves_idle_ns(idle), UINT64_MAX);
	idle->fixed = false;
	idle->stays_until_ns = w->now_ns + SECOND;
	CHECK(!step(w) && !idle->leave);
	CHECK_EQ(residency_leaves_idle_ns(idle), w->now_ns + SECOND);
	idle->stays_until_ns = 0;
	idle->idle_until_ns = w->now_ns + 2 * SECOND;
	CHECK(!step(w) && !idle->leave);
	CHECK_EQ(residency_leaves_idle_ns(idle), w->now_ns + 2 * SECOND);
	idle->idle_until_ns = 0;
	/* It waits for more, or works. */
	idle->wants = true;
	idle->more[0] = GIB;
	step(w);
	CHECK(!idle->leave);
	idle->wants = false;
	idle->more[0] = 0;
	idle->used_ns = w->now_ns;
	CHECK(!step(w) && !idle->leave);
	/* It has just come back, for a use that begins. */
	w->now_ns += 20 * SECOND;
	idle->place = RESIDENCY_COMING;
	step(w);
	idle->place = RESIDENCY_HERE;
	CHECK(!step(w) && !idle->leave);
	CHECK_EQ(residency_leaves_idle_ns(idle), w->now_ns + 10 * SECOND);
	/* Nothing of it is on a device. */
	idle->here[0] = 0;
	w->now_ns += 20 * SECOND;
	CHECK(!step(w) && !idle->leave);
}

/* Others had a part of it leave, and it did not come back. */
static void check_idle_leaves_the_rest(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *idle = add(w, RESIDENCY_AWAY, 20 * GIB);

	idle->idle_suspend_ns = 10 * SECOND;
	idle->here[0] = 5 * GIB;
	idle->away[0] = 15 * GIB;
	idle->leaves = true;
	idle->asked = RESIDENCY_ALL - 1;
	step(w);
	CHECK(!idle->leave);
	w->now_ns += 20 * SECOND;
	CHECK(!step(w));
	CHECK(idle->leave && idle->part == RESIDENCY_ALL);
	/* What still is there of all does not leave. */
	idle->asked = RESIDENCY_ALL;
	CHECK(!step(w) && !idle->leave);
	CHECK(!residency_may_leave_idle(idle));
}

/* It leaves for one that waits as any other idle one, and only once. */
static void check_idle_leaves_for_others(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *idle = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *comer = add(w, RESIDENCY_AWAY, 60 * GIB);

	idle->idle_suspend_ns = 10 * SECOND;
	step(w);
	w->now_ns += 20 * SECOND;
	comer->wants = true;
	CHECK(step(w));
	CHECK(idle->leave && idle->part < RESIDENCY_ALL);
}

static void check_comes_where_there_is_room(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *here = add(w, RESIDENCY_HERE, 30 * GIB);
	struct residency_tenant *away = add(w, RESIDENCY_AWAY, 60 * GIB);

	away->wants = true;
	CHECK(step(w));
	CHECK(away->come && !here->leave);
	/* Beside another one some is left free; alone it may have all. */
	w->device[0].spare_bytes = 11 * GIB;
	step(w);
	CHECK(!away->come);
	here->place = RESIDENCY_AWAY;
	memset(here->here, 0, sizeof(here->here));
	w->device[0].spare_bytes = 90 * GIB;
	step(w);
	CHECK(away->come);
}

/* While its turn goes on an active tenant stays; behind that it leaves. An idle one at once. */
static void check_turns(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *here = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *away = add(w, RESIDENCY_AWAY, 60 * GIB);
	uint64_t turn, came;

	step(w);
	came = w->now_ns;
	away->wants = true;
	turn = residency_turn_ns(&residency_defaults, here, away);
	CHECK_EQ(turn, 5 * (here->out_ns + away->back_ns));
	for (later(w, MS); w->now_ns < came + turn; later(w, 50 * MS)) {
		step(w);
		CHECK(!here->leave && !away->come);
	}
	step(w);
	CHECK(here->leave && !away->come);
	here->place = RESIDENCY_LEAVING;
	step(w);
	CHECK(!away->come);
	here->place = RESIDENCY_AWAY;
	here->away[0] = here->here[0];
	here->here[0] = 0;
	step(w);
	CHECK(away->come);

	w = fresh(100 * GIB);
	here = add(w, RESIDENCY_HERE, 60 * GIB);
	away = add(w, RESIDENCY_AWAY, 60 * GIB);
	step(w);
	later(w, MS);
	away->wants = true;
	w->now_ns += residency_swap_ns(&residency_defaults, here) / TUNING_RESIDENCY_IDLE_PART + 1;
	step(w);
	CHECK(here->leave);
	/* That the first way out took long says little of the way back. */
	away->back_ns = 0;
	away->out_ns = 1000 * SECOND;
	CHECK(residency_turn_ns(&residency_defaults, here, away) < 5 * (here->out_ns + 7 * SECOND));
}

/* What each may count on while all want a device, by weight; nothing is said where nobody waits. */
static void check_entitled(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *here = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *away = add(w, RESIDENCY_AWAY, 60 * GIB);
	struct residency_tenant *idle = add(w, RESIDENCY_AWAY, 60 * GIB);

	here->weight = 3;
	step(w);
	CHECK_EQ(here->entitled_permille, 0);
	away->wants = true;
	step(w);
	CHECK_EQ(here->entitled_permille, 750);
	CHECK_EQ(away->entitled_permille, 250);
	CHECK_EQ(idle->entitled_permille, 0);
	away->priority = 1;
	step(w);
	CHECK_EQ(away->entitled_permille, 1000);
}

/* Idle ones go first, then low priorities; nobody goes who need not. */
static void check_order(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *active = add(w, RESIDENCY_HERE, 30 * GIB);
	struct residency_tenant *low = add(w, RESIDENCY_HERE, 30 * GIB);
	struct residency_tenant *idle = add(w, RESIDENCY_HERE, 30 * GIB);
	struct residency_tenant *away = add(w, RESIDENCY_AWAY, 30 * GIB);

	low->priority = -1;
	away->wants = true;
	step(w);
	later(w, 100 * SECOND);
	idle->used_ns = 0;
	step(w);
	CHECK(idle->leave && !low->leave && !active->leave);
	idle->used_ns = w->now_ns;
	step(w);
	CHECK(!idle->leave && low->leave && !active->leave);
	/*
	 * The first that is enough for it alone, and not the small one that was chosen before it.
	 */
	w = fresh(100 * GIB);
	idle = add(w, RESIDENCY_HERE, 5 * GIB);
	active = add(w, RESIDENCY_HERE, 90 * GIB);
	away = add(w, RESIDENCY_AWAY, 80 * GIB);
	away->wants = true;
	step(w);
	later(w, 1000 * SECOND);
	idle->used_ns = 0;
	step(w);
	CHECK(active->leave && !idle->leave);
}

static void check_priority(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *high = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *low = add(w, RESIDENCY_AWAY, 60 * GIB);
	uint64_t turn, began;

	low->priority = -1;
	low->wants = true;
	began = w->now_ns;
	turn = residency_turn_ns(&residency_defaults, low, low);
	for (step(w); !high->leave; step(w)) {
		later(w, 100 * MS);
		CHECK(w->now_ns <= began + (TUNING_RESIDENCY_PATIENCE + 1) * turn);
	}
	CHECK(w->now_ns > began + TUNING_RESIDENCY_PATIENCE * turn);
	/* What came so has its turn, and what came otherwise only as long as moving takes. */
	for (int lifted = 0; lifted < 2; lifted++) {
		w = fresh(100 * GIB);
		low = add(w, RESIDENCY_HERE, 60 * GIB);
		high = add(w, RESIDENCY_AWAY, 60 * GIB);
		high->priority = 1;
		step(w);
		low->lifted = lifted;
		high->wants = true;
		began = w->now_ns;
		turn = residency_turn_ns(&residency_defaults, low, high);
		for (step(w); !low->leave; step(w))
			later(w, 10 * MS);
		CHECK(w->now_ns >= began + (lifted ? turn : turn / TUNING_RESIDENCY_SWAPS));
		CHECK(w->now_ns <= began + (lifted ? turn : turn / TUNING_RESIDENCY_SWAPS) + 20 * MS);
	}
}

/* An allocation that finds the device full: others leave, or it is refused. */
static void check_more(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *one = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_HERE, 30 * GIB);

	step(w);
	one->more[0] = 20 * GIB;
	one->wants = true;
	step(w);
	CHECK(!one->come && !one->refuse && !other->leave);
	later(w, 1000 * SECOND);
	step(w);
	CHECK(other->leave && !one->leave && !one->refuse);
	one->more[0] = 41 * GIB;
	step(w);
	CHECK(one->refuse && !other->leave);
	/* Who cannot leave is in the way, if that lasts, and who is to stay for a while is not. */
	one->wants = false;
	step(w);
	one->wants = true;
	one->more[0] = 20 * GIB;
	other->fixed = true;
	step(w);
	CHECK(!one->refuse && !other->leave);
	later(w, residency_defaults.refuse_ns);
	step(w);
	CHECK(one->refuse && !other->leave);
	other->place = RESIDENCY_COMING; /* it was asked to leave, and is told to go on */
	step(w);
	CHECK(one->refuse && !other->leave);
	other->place = RESIDENCY_HERE;
	other->fixed = false;
	other->stays_until_ns = w->now_ns + SECOND;
	step(w);
	CHECK(!one->refuse && !other->leave);
	other->place = RESIDENCY_LEAVING;
	step(w);
	CHECK(!one->refuse && !one->come);
	other->place = RESIDENCY_AWAY;
	other->here[0] = 0;
	step(w);
	CHECK(one->come);
	/* One that is stopped again and again may leave at any time, and is waited for no longer than one that stays. */
	w = fresh(100 * GIB);
	one = add(w, RESIDENCY_HERE, 60 * GIB);
	other = add(w, RESIDENCY_HERE, 30 * GIB);
	step(w);
	one->more[0] = 20 * GIB;
	one->wants = other->doubtful = true;
	step(w);
	later(w, residency_defaults.refuse_ns - 1);
	step(w);
	CHECK(!one->refuse && other->leave);
	later(w, 1);
	step(w);
	CHECK(one->refuse && !other->leave);
	one->more[0] = 9 * GIB; /* for which there is room beside it */
	step(w);
	CHECK(!one->refuse && one->come);
	one->more[0] = 20 * GIB;
	other->doubtful = false;
	step(w);
	CHECK(!one->refuse && other->leave);
	/* What is lost is waited for, and not for ever. */
	w = fresh(100 * GIB);
	one = add(w, RESIDENCY_HERE, 60 * GIB);
	step(w);
	one->more[0] = 50 * GIB;
	one->wants = true;
	w->device[0].lost_bytes = 10 * GIB;
	step(w);
	CHECK(!one->refuse && !one->come);
	w->device[0].lost_bytes = 9 * GIB;
	step(w);
	CHECK(one->refuse);
	w->device[0].lost_bytes = 10 * GIB;
	later(w, residency_defaults.refuse_ns);
	step(w);
	CHECK(one->refuse);
	/* What nobody asks is not refused: it may be waited for. */
	w = fresh(100 * GIB);
	one = add(w, RESIDENCY_AWAY, 160 * GIB);
	one->wants = true;
	step(w);
	CHECK(!one->refuse && !one->come);
}

/* A turn would be spent in waiting if what is left of who waits for it to end could not go. */
static void check_more_in_a_turn(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *one = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_AWAY, 20 * GIB);

	other->here[0] = 30 * GIB;
	later(w, MS);
	step(w);
	other->wants = true;
	later(w, MS);
	step(w);
	CHECK(!other->come && !one->leave);
	later(w, MS);
	one->wants = true;
	one->more[0] = 20 * GIB;
	step(w);
	CHECK(other->leave && !one->leave);
	later(w, 1000 * SECOND);
	step(w);
	CHECK(one->leave && !other->leave);
}

/*
 * As much leaves as is needed, of who does not run anyway more than of others, and it comes back.
 */
static void check_parts(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *one = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_HERE, 30 * GIB);
	struct residency_tenant *comer = add(w, RESIDENCY_AWAY, 30 * GIB);
	uint64_t leaves;

	step(w);
	later(w, 1000 * SECOND);
	other->used_ns = 0;
	comer->wants = true;
	step(w);
	CHECK(other->leave && !one->leave && !comer->come);
	leaves = other->here[0] / RESIDENCY_ALL * other->part;
	CHECK(leaves >= 20 * GIB && leaves <= 21 * GIB);
	other->place = RESIDENCY_LEAVING;
	other->asked = other->part;
	step(w);
	CHECK(!one->leave && !comer->come);
	other->place = RESIDENCY_AWAY;
	other->away[0] = leaves;
	other->here[0] -= leaves;
	step(w);
	CHECK(comer->come && !other->leave);
	comer->place = RESIDENCY_HERE;
	comer->here[0] = comer->away[0];
	comer->away[0] = 0;
	/* More is needed: of the rest of it, and of nobody who runs. */
	comer->more[0] = 5 * GIB;
	step(w);
	CHECK(other->leave && !one->leave);
	CHECK(other->part > leaves / (30 * GIB / RESIDENCY_ALL) && other->part < RESIDENCY_ALL);
	/* What it needs itself is what is away of it. */
	comer->more[0] = 0;
	comer->wants = false;
	other->wants = true;
	w->device[0].capacity_bytes = 60 * GIB + comer->here[0] + 30 * GIB;
	step(w);
	CHECK(other->come && !one->leave && !comer->leave);
	/* By no smaller steps than a part of it. */
	other->place = RESIDENCY_HERE;
	other->here[0] = 30 * GIB;
	other->away[0] = 0;
	w->device[0].capacity_bytes = 120 * GIB;
	comer->more[0] = MS;
	comer->wants = true;
	other->wants = false;
	step(w);
	later(w, 1000 * SECOND);
	other->used_ns = 0;
	step(w);
	CHECK(other->leave && other->part >= RESIDENCY_ALL / TUNING_RESIDENCY_STEP_PART);
}

/* Nobody waits: who would leave is known ahead, by what would be asked for then. */
static void check_ahead(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *one = add(w, RESIDENCY_HERE, 40 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_HERE, 40 * GIB);
	struct residency_tenant *away = add(w, RESIDENCY_AWAY, 10 * GIB);
	struct residency_tenant *larger;
	uint32_t part;

	step(w);
	CHECK(!one->ahead && !other->ahead);
	later(w, 1000 * SECOND);
	one->used_ns -= 100 * SECOND;
	larger = add(w, RESIDENCY_AWAY, 50 * GIB);
	CHECK(!step(w));
	/* The larger one needs 30 more than there is, and the longest idle gives them. */
	CHECK(one->ahead && !other->ahead && !one->leave && !away->ahead && !larger->ahead);
	part = one->ahead;
	CHECK(part > RESIDENCY_ALL / 2 && part < RESIDENCY_ALL);
	/* Somebody has used it since; so far what was said stands. */
	one->used_ns = w->now_ns;
	other->used_ns -= 100 * SECOND;
	away->place = RESIDENCY_COMING;
	step(w);
	CHECK(one->ahead == part && !other->ahead);
	away->place = RESIDENCY_AWAY;
	step(w);
	CHECK(!one->ahead && other->ahead == part);
	/* It is what is asked for when somebody waits, though it was used since. */
	other->ready = true;
	other->used_ns = w->now_ns;
	one->used_ns = w->now_ns - 50 * SECOND;
	later(w, 10 * SECOND);
	one->used_ns -= 60 * SECOND;
	other->used_ns -= 10 * SECOND;
	larger->wants = true;
	CHECK(step(w));
	CHECK(other->leave && other->part == part && !one->leave);
	/* Not while it is busy. */
	other->used_ns = w->now_ns;
	CHECK(step(w));
	CHECK(!other->leave && one->leave);
	larger->wants = false;
	larger->id = 0;
	CHECK(!step(w));
	CHECK(!one->ahead && !other->ahead);
	/* What is left of one that is away goes first, */
	later(w, 10 * SECOND);
	one->used_ns -= 10 * SECOND;
	away->here[0] = 20 * GIB;
	away->away[0] = 10 * GIB;
	larger = add(w, RESIDENCY_AWAY, 8 * GIB);
	CHECK(!step(w));
	CHECK(one->ahead && !other->ahead);
	one->ready = true;
	other->ready = false;
	larger->wants = true;
	CHECK(step(w));
	CHECK(away->leave && !one->leave);
	/* and, where it has its place, before more than is lacking leaves of one that is here. */
	larger->away[0] = 30 * GIB;
	CHECK(step(w));
	CHECK(one->leave && one->part > RESIDENCY_ALL / 2 && !away->leave);
	away->ready = true;
	CHECK(step(w));
	CHECK(away->leave && away->part == RESIDENCY_ALL);
	CHECK(one->leave && one->part < RESIDENCY_ALL / 2 && !other->leave);
}

/* Who has decided since a moment ago sees who has been idle for long. */
static void check_new_role(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *busy = add(w, RESIDENCY_HERE, 40 * GIB);
	struct residency_tenant *idle = add(w, RESIDENCY_HERE, 40 * GIB);
	struct residency_tenant *comer = add(w, RESIDENCY_AWAY, 40 * GIB);

	busy->used_ns = w->now_ns;
	idle->used_ns = w->now_ns - 50 * SECOND;
	comer->wants = true;
	step(w);
	CHECK(idle->leave && !busy->leave);
	/* All are busy: turns begin now. */
	w = fresh(100 * GIB);
	busy = add(w, RESIDENCY_HERE, 40 * GIB);
	idle = add(w, RESIDENCY_HERE, 40 * GIB);
	comer = add(w, RESIDENCY_AWAY, 40 * GIB);
	busy->used_ns = idle->used_ns = w->now_ns;
	comer->wants = true;
	step(w);
	CHECK(!idle->leave && !busy->leave);
}

/* Somebody has come who is not to lose anything. */
static void check_relief(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *one = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_HERE, 30 * GIB);

	step(w);
	later(w, MS);
	w->device[0].capacity_bytes = 80 * GIB;
	CHECK(!step(w));
	CHECK(one->leave + other->leave == 1);
	w->device[0].capacity_bytes = 0;
	step(w);
	CHECK(one->leave && other->leave);
	one->fixed = true;
	step(w);
	CHECK(!one->leave && other->leave);
}

/*
 * Who comes does so while those who make room are on their way, if that is certain, and if all of
 * them are; an allocation does not.
 */
static void check_both_ways(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *one = add(w, RESIDENCY_HERE, 50 * GIB);
	struct residency_tenant *other = add(w, RESIDENCY_HERE, 50 * GIB);
	struct residency_tenant *comer = add(w, RESIDENCY_AWAY, 80 * GIB);
	struct residency_tenant *next = add(w, RESIDENCY_AWAY, 10 * GIB);

	step(w);
	w->now_ns += 1000 * SECOND;
	comer->wants = true;
	step(w);
	CHECK(one->leave && other->leave && !comer->come);
	one->place = other->place = RESIDENCY_LEAVING;
	one->asked = one->part;
	other->asked = other->part;
	one->leaves = true;
	step(w);
	CHECK(!comer->come);
	other->leaves = true;
	next->wants = true;
	step(w);
	CHECK(comer->come && comer->early);
	/* What leaves is spoken for. */
	CHECK(!next->come);
	comer->place = RESIDENCY_COMING;
	step(w);
	CHECK(!next->come && comer->early);
	/* They will not leave, after all: it is to find that out. */
	one->place = other->place = RESIDENCY_HERE;
	step(w);
	CHECK(!comer->early);
	one->place = other->place = RESIDENCY_AWAY;
	one->here[0] = other->here[0] = 9 * GIB;
	step(w);
	CHECK(!comer->early);
	one->here[0] = other->here[0] = 50 * GIB;
	one->place = other->place = RESIDENCY_LEAVING;
	/* More memory of one who is here is there at once, or not at all. */
	comer->place = RESIDENCY_HERE;
	comer->here[0] = 0;
	comer->away[0] = 0;
	comer->more[0] = 80 * GIB;
	next->wants = false;
	step(w);
	CHECK(!comer->come);
	one->here[0] = other->here[0] = 0;
	step(w);
	CHECK(comer->come);
}

/* Devices are apart, and one that is on both needs both. */
static void check_devices(void)
{
	struct world *w = fresh(100 * GIB);
	struct residency_tenant *first = add(w, RESIDENCY_HERE, 60 * GIB);
	struct residency_tenant *second = add(w, RESIDENCY_HERE, 0);
	struct residency_tenant *both = add(w, RESIDENCY_AWAY, 60 * GIB);

	w->device[1].capacity_bytes = 100 * GIB;
	second->here[1] = 60 * GIB;
	both->away[1] = 30 * GIB;
	both->wants = true;
	step(w);
	later(w, 1000 * SECOND);
	step(w);
	CHECK(first->leave && !second->leave);
	both->away[1] = 50 * GIB;
	step(w);
	CHECK(first->leave && second->leave);
}

/* --- Over a long time ----------------------------------------------------------------------- */

#define TICK_NS (10 * MS)

/* A process rounds up, to whole pieces. */
static void model_split(struct residency_tenant *t, const struct job *job)
{
	for (int d = 0; d < RESIDENCY_DEVICES; d++) {
		uint64_t leaves = job->size[d] - job->size[d] / RESIDENCY_ALL * (RESIDENCY_ALL - t->asked);

		leaves += GIB / 4;
		leaves = leaves < job->size[d] ? leaves : job->size[d];
		t->away[d] = leaves > t->away[d] ? leaves : t->away[d];
		t->here[d] = job->size[d] - t->away[d];
	}
}

/* All that is on the devices fits there, one that comes being there. */
static bool model_fits(const struct world *w)
{
	for (int d = 0; d < 2; d++) {
		uint64_t bytes = 0;

		for (int i = 0; i < w->n; i++)
			bytes += w->tenant[i].here[d] +
				 (w->tenant[i].place == RESIDENCY_COMING ? w->tenant[i].away[d] : 0);
		if (bytes > w->device[d].capacity_bytes)
			return false;
	}
	return true;
}

static void model_move(struct world *w, int i)
{
	struct residency_tenant *t = &w->tenant[i];
	struct job *job = &w->job[i];

	if (t->place == RESIDENCY_LEAVING && w->now_ns >= job->moves_until_ns) {
		t->place = RESIDENCY_AWAY;
		t->ready = true; /* what is left of it finds its place */
		model_split(t, job);
	} else if (t->place == RESIDENCY_COMING && w->now_ns >= job->moves_until_ns &&
		   model_fits(w)) {
		t->place = RESIDENCY_HERE;
		t->ready = false;
		memcpy(t->here, job->size, sizeof(t->here));
		memset(t->away, 0, sizeof(t->away));
		job->visits++;
	}
	if (t->leave) {
		CHECK(t->place == RESIDENCY_HERE || t->place == RESIDENCY_AWAY);
		CHECK(!t->fixed && t->part && t->part <= RESIDENCY_ALL);
		job->moves_until_ns = w->now_ns + t->out_ns *
				      (t->part - (t->place == RESIDENCY_AWAY ? t->asked : 0)) /
				      RESIDENCY_ALL;
		t->place = RESIDENCY_LEAVING;
		t->leaves = true;
		t->asked = t->part;
	} else if (t->come && t->place == RESIDENCY_AWAY) {
		t->place = RESIDENCY_COMING;
		job->moves_until_ns = w->now_ns + t->back_ns * t->asked / RESIDENCY_ALL;
	}
}

/* Whether it does. */
static bool model_work(struct world *w, int i)
{
	struct residency_tenant *t = &w->tenant[i];
	struct job *job = &w->job[i];
	bool works = job->working && t->place == RESIDENCY_HERE;

	if (works) {
		job->worked_ns += TICK_NS;
		t->used_ns = w->now_ns;
	}
	/* Its phases go on while it is here, and a pause also while it is away. */
	if (job->pause_ns && (t->place == RESIDENCY_HERE || !job->working) &&
	    w->now_ns >= job->phase_until_ns) {
		job->working = !job->working;
		job->phase_until_ns = w->now_ns + 1 +
				      pick(w, 2 * (job->working ? job->busy_ns : job->pause_ns));
	}
	t->wants = job->working &&
		   (t->place == RESIDENCY_AWAY || (t->place == RESIDENCY_LEAVING && t->wants));
	if (t->waits_since_ns && w->now_ns - t->waits_since_ns > job->longest_wait_ns)
		job->longest_wait_ns = w->now_ns - t->waits_since_ns;
	return works;
}

/*
 * What is on a device fits there at every moment, and what is about to be when all have left who
 * leave.
 */
static void model_check(const struct world *w)
{
	for (int d = 0; d < 2; d++) {
		uint64_t here = 0, soon = 0;

		for (int i = 0; i < w->n; i++) {
			const struct residency_tenant *t = &w->tenant[i];
			uint64_t size = w->job[i].size[d], part = size / RESIDENCY_ALL;
			uint64_t stays = part * (RESIDENCY_ALL - t->asked);

			here += t->here[d];
			soon += t->place == RESIDENCY_COMING ? size
				: t->place == RESIDENCY_LEAVING && stays < t->here[d] ? stays
										       : t->here[d];
		}
		CHECK(here <= w->device[d].capacity_bytes);
		CHECK(soon <= w->device[d].capacity_bytes);
	}
}

/* Nobody waits, and nothing moves: who leaves next finds host memory. */
static void model_be_ahead(struct world *w)
{
	for (int i = 0; i < w->n; i++)
		if (w->tenant[i].place == RESIDENCY_LEAVING || w->tenant[i].place == RESIDENCY_COMING)
			return;
	for (int i = 0; i < w->n; i++)
		if (w->tenant[i].place == RESIDENCY_HERE)
			w->tenant[i].ready = w->tenant[i].ahead;
}

static void model_run(struct world *w, uint64_t ns)
{
	for (uint64_t end = w->now_ns + ns; w->now_ns < end; w->now_ns += TICK_NS) {
		bool works = false;

		for (int i = 0; i < w->n; i++)
			works |= model_work(w, i);
		w->lost_ns += works ? 0 : TICK_NS;
		if (!step(w))
			model_be_ahead(w);
		for (int i = 0; i < w->n; i++)
			model_move(w, i);
		model_check(w);
	}
}

static uint64_t model_turn_ns(const struct world *w)
{
	uint64_t longest = 0;

	for (int i = 0; i < w->n; i++)
		for (int k = 0; k < w->n; k++) {
			uint64_t turn = residency_turn_ns(&residency_defaults, &w->tenant[i],
							  &w->tenant[k]);

			longest = turn > longest ? turn : longest;
		}
	return longest;
}

/* The longest that anybody may have to wait: for a turn and a half of each of the others, and their moves. */
static uint64_t model_bound_ns(const struct world *w)
{
	uint64_t bound = SECOND, longest = model_turn_ns(w) * 3 / 2;

	for (int i = 0; i < w->n; i++)
		bound += longest + residency_swap_ns(&residency_defaults, &w->tenant[i]);
	return bound;
}

static void check_all_compute(void)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct world *w = fresh(100 * GIB);
		uint64_t ns = 200 * SECOND;
		int n;

		w->random += seed * UINT64_C(0x9e3779b97f4a7c15);
		n = 2 + (int)pick(w, 3);
		/*
		 * Two of them never fit, so that one works at a time, and moving is lost for all.
		 */
		for (int i = 0; i < n; i++) {
			add(w, RESIDENCY_AWAY, (51 + pick(w, 50)) * GIB);
			w->job[i].working = true;
		}
		model_run(w, ns);
		for (int i = 0; i < n; i++) {
			struct job *job = &w->job[i];

			CHECK(job->visits > 1);
			CHECK(job->longest_wait_ns <= model_bound_ns(w));
		}
		CHECK(w->lost_ns <= ns / (TUNING_RESIDENCY_SWAPS + 1));
	}
}

/* What each works is by weight, whatever its size and what moving it takes. */
static void check_weights(void)
{
	static const uint32_t weights[][3] = {{1, 1}, {3, 1}, {1, 1, 1}, {1, 3, 5}, {500, 1000}, {1, 20}};

	for (uint64_t seed = 0; seed < 12; seed++) {
		const uint32_t *weight = weights[seed % 6];
		struct world *w = fresh(100 * GIB);
		uint64_t least = UINT64_MAX, most = 0;

		w->random += seed * UINT64_C(0x9e3779b97f4a7c15);
		for (int i = 0; i < 3 && weight[i]; i++) {
			struct residency_tenant *t =
				add(w, RESIDENCY_AWAY, (51 + pick(w, 50)) * GIB);

			t->weight = weight[i];
			t->out_ns = t->out_ns * (1 + pick(w, 3));
			w->job[i].working = true;
		}
		model_run(w, 1500 * SECOND);
		for (int i = 0; i < w->n; i++) {
			uint64_t part = w->job[i].worked_ns / weight[i];

			least = part < least ? part : least;
			most = part > most ? part : most;
		}
		/* A turn may have just begun, and another be about to. */
		CHECK(most <= least + least / 10 + 2 * model_turn_ns(w));
	}
}

/*
 * One that is in nobody's way for long has no debt of more than a round for that, nor has one that did
 * nothing for long a claim. Each has a quarter of 200 s; but for half of that.
 */
static void check_weights_forget(void)
{
	struct world *w = fresh(100 * GIB);

	for (int i = 0; i < 4; i++) {
		add(w, RESIDENCY_AWAY, (i < 2 ? 60 : 20) * GIB);
		w->job[i].working = i < 3;
	}
	model_run(w, 200 * SECOND);
	CHECK(w->job[2].worked_ns > 190 * SECOND);
	w->job[2].size[0] = w->tenant[2].here[0] = 60 * GIB;
	w->job[3].size[0] = w->tenant[3].away[0] = 60 * GIB;
	w->tenant[2].place = RESIDENCY_AWAY;
	w->tenant[2].away[0] = 60 * GIB;
	w->tenant[2].here[0] = 0;
	w->job[3].working = true;
	for (int i = 0; i < 4; i++)
		w->job[i].worked_ns = 0;
	model_run(w, 200 * SECOND);
	for (int i = 0; i < 4; i++)
		CHECK(w->job[i].worked_ns > 25 * SECOND && w->job[i].worked_ns < 75 * SECOND);
}

/* Sizes, pauses, places and devices at random: each gets in within a bound. */
static void check_random(void)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct world *w = fresh(100 * GIB);
		int n;

		w->random += seed * UINT64_C(0x9e3779b97f4a7c15);
		w->device[1].capacity_bytes = 60 * GIB;
		w->device[0].spare_bytes = pick(w, 3) * GIB;
		n = 2 + (int)pick(w, TENANTS - 1);
		for (int i = 0; i < n; i++) {
			struct residency_tenant *t =
				add(w, RESIDENCY_AWAY, (1 + pick(w, 97)) * GIB);
			struct job *job = &w->job[i];

			if (!pick(w, 3)) {
				t->away[1] = job->size[1] = pick(w, 60) * GIB;
				if (pick(w, 2))
					t->away[0] = job->size[0] = 0;
			}
			job->working = true;
			job->busy_ns = (1 + pick(w, 5000)) * MS;
			job->pause_ns = pick(w, 3) ? (1 + pick(w, 20000)) * MS : 0;
		}
		model_run(w, 2 * model_bound_ns(w));
		for (int i = 0; i < n; i++) {
			CHECK(w->job[i].visits > 0);
			CHECK(w->job[i].worked_ns > 0);
			CHECK(w->job[i].longest_wait_ns <= model_bound_ns(w));
		}
	}
}

/* A large one beside many small ones that come and go. */
static void check_large_is_not_starved(void)
{
	struct world *w = fresh(100 * GIB);

	for (int i = 0; i < 10; i++) {
		add(w, RESIDENCY_AWAY, 15 * GIB);
		w->job[i].working = true;
		w->job[i].busy_ns = 300 * MS;
		w->job[i].pause_ns = 200 * MS;
	}
	add(w, RESIDENCY_AWAY, 95 * GIB);
	w->job[10].working = true;
	model_run(w, 100 * SECOND);
	CHECK(w->job[10].visits > 0);
	CHECK(w->job[10].longest_wait_ns <= model_bound_ns(w));
}

/* A low priority beside high ones that always compute. */
static void check_low_is_not_starved(void)
{
	struct world *w = fresh(100 * GIB);
	uint64_t turn;

	for (int i = 0; i < 3; i++) {
		add(w, RESIDENCY_AWAY, 60 * GIB)->priority = i ? 1 : -1;
		w->job[i].working = true;
	}
	turn = residency_turn_ns(&residency_defaults, &w->tenant[0], &w->tenant[1]);
	model_run(w, 400 * SECOND);
	CHECK(w->job[0].visits >= 400 * SECOND / (turn * 2 * (TUNING_RESIDENCY_PATIENCE + 3)));
	/* Of 60 GiB each 20 change places, so a turn is a third of what it is for all. */
	CHECK(w->job[0].worked_ns >= w->job[0].visits * turn / 3 * 9 / 10);
	CHECK(w->job[1].worked_ns > 3 * w->job[0].worked_ns);
}

static void model_ask(struct world *w, int i)
{
	w->job[i].working = true;
	model_run(w, 2 * SECOND);
	CHECK_EQ(w->tenant[i].place, RESIDENCY_HERE);
	w->job[i].working = false;
	model_run(w, 2 * SECOND);
}

/*
 * Three that are asked in turn fit beside each other, and the first one of all is not used any more:
 * what is left of that goes, once, and then nobody moves.
 */
static void check_what_is_left_goes(void)
{
	struct world *w = fresh(100 * GIB);

	add(w, RESIDENCY_HERE, 60 * GIB);
	add(w, RESIDENCY_HERE, 30 * GIB);
	model_ask(w, 1);
	for (int i = 2; i < 4; i++) {
		add(w, RESIDENCY_AWAY, 30 * GIB);
		model_ask(w, i);
	}
	for (int turn = 0; turn < 12; turn++)
		model_ask(w, 1 + turn % 3);
	for (int i = 1; i < w->n; i++)
		CHECK(w->job[i].visits < 3);
}

int main(void)
{
	check_nobody_leaves_for_nobody();
	check_idle_leaves();
	check_idle_leaves_the_rest();
	check_idle_leaves_for_others();
	check_comes_where_there_is_room();
	check_turns();
	check_entitled();
	check_order();
	check_priority();
	check_more();
	check_more_in_a_turn();
	check_parts();
	check_ahead();
	check_new_role();
	check_relief();
	check_both_ways();
	check_devices();
	check_all_compute();
	check_weights();
	check_weights_forget();
	check_random();
	check_large_is_not_starved();
	check_low_is_not_starved();
	check_what_is_left_goes();
	return 0;
}
