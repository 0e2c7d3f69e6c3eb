/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter, driven by a model of devices and tenants: work is done in the order in which it was
 * launched, is measured some time after it ended, and a tenant has little in flight.
 */
#include "sched/arbiter.h"

#include <stddef.h>
#include <string.h>

#include "base/now.h"
#include "tests/check.h"

#define US NS_PER_US
#define MS NS_PER_MS
#define SECOND (1000 * MS)

#define TICK_NS	  (10 * US)
#define BOUND_NS  (2 * MS)   /* in flight */
#define BILL_NS	  (300 * US) /* until work is measured */
#define JITTER_NS (50 * US)  /* until the arbiter wakes up */
#define JOBS	  8
#define KERNELS	  1024 /* in flight, at most */

/* What a tenant does: kernels of one length while it is on. */
struct job {
	uint64_t kernel_ns;
	bool on;
	bool stuck; /* it wants and launches nothing */
	uint64_t in_flight_until_ns;
	uint64_t used_ns; /* in truth */
	uint64_t waits_since_ns, longest_wait_ns;
	bool wanted;
	struct {
		uint64_t end_ns, length_ns;
	} kernel[KERNELS];
	unsigned int head, tail;
};

struct world {
	struct arbiter_tenant tenant[JOBS];
	struct job job[JOBS];
	int n;
	bool honest; /* all that the arbiter is told is true */
	uint64_t now_ns, step_ns, device_free_ns[64];
	uint64_t random;
};

static struct world world;

static uint64_t next_random(struct world *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static struct world *fresh(void)
{
	memset(&world, 0, sizeof(world));
	world.now_ns = 5 * SECOND;
	world.random = UINT64_C(88172645463325252);
	world.honest = true;
	return &world;
}

static int add(struct world *w, uint64_t devices, uint32_t weight, uint64_t kernel_ns)
{
	w->tenant[w->n] = (struct arbiter_tenant){
		.id = 100 + (uint64_t)w->n, .devices = devices, .weight = weight};
	w->job[w->n] =
		(struct job){.kernel_ns = kernel_ns, .on = true, .waits_since_ns = w->now_ns};
	return w->n++;
}

static void launch(struct world *w, int i)
{
	struct job *job = &w->job[i];
	uint64_t start = w->now_ns, end;

	for (int d = 0; d < 64; d++)
		if (w->tenant[i].devices >> d & 1 && w->device_free_ns[d] > start)
			start = w->device_free_ns[d];
	end = start + job->kernel_ns;
	for (int d = 0; d < 64; d++)
		if (w->tenant[i].devices >> d & 1)
			w->device_free_ns[d] = end;
	CHECK(job->head - job->tail < KERNELS);
	job->kernel[job->head % KERNELS].end_ns = end;
	job->kernel[job->head++ % KERNELS].length_ns = job->kernel_ns;
	job->in_flight_until_ns = end;
	job->used_ns += job->kernel_ns;
}

static void measure(struct world *w, int i)
{
	struct job *job = &w->job[i];
	struct arbiter_tenant *t = &w->tenant[i];

	while (job->tail != job->head &&
	       job->kernel[job->tail % KERNELS].end_ns + BILL_NS <= w->now_ns)
		t->busy_ns += job->kernel[job->tail++ % KERNELS].length_ns;
	t->done_ns = job->in_flight_until_ns > w->now_ns ? job->in_flight_until_ns : 0;
	t->wants = t->id && (job->on || t->done_ns);
}

/* What must hold after every step. */
static void check_step(const struct world *w)
{
	uint64_t most_ns = w->now_ns + arbiter_defaults.lead_ns;

	for (int i = 0; i < w->n; i++) {
		const struct arbiter_tenant *t = &w->tenant[i];

		CHECK(!t->open || t->id);
		CHECK(!t->open || t->open_until_ns > w->now_ns);
		CHECK(!t->open || t->open_until_ns <= w->now_ns + arbiter_defaults.lease_ns);
		CHECK(t->open || (!t->open_until_ns && !t->open_from_ns));
		CHECK(!t->open_from_ns || t->open_from_ns > w->now_ns);
		CHECK(t->open_from_ns <= most_ns);
		CHECK(!t->id || (t->entitled_permille >= 1 && t->entitled_permille <= 1000));
		for (int j = 0; j < w->n; j++) {
			const struct arbiter_tenant *o = &w->tenant[j];

			if (i == j || !t->id || !o->id || !(t->devices & o->devices))
				continue;
			CHECK(!t->open || !o->open || t->first || o->first);
			CHECK(!t->first || (t->open && o->priority < t->priority && !o->lifted));
			CHECK(!t->open || !o->wants || o->priority <= t->priority || o->outranked ||
			      t->lifted);
			CHECK(!o->wants || t->contended);
			CHECK(o->priority <= t->priority || t->urged);
			/* And it launches no sooner than that is done, or about to be. */
			CHECK(!t->open || o->priority != t->priority ||
			      o->done_ns <= w->now_ns + arbiter_defaults.edge_ns ||
			      t->open_from_ns + arbiter_defaults.edge_ns >=
				      (o->done_ns < most_ns ? o->done_ns : most_ns));
			/* A turn begins no sooner than the last one's work is about done. */
			CHECK(!w->honest || !t->open || t->turn_from_ns < w->now_ns ||
			      o->priority < t->priority ||
			      o->done_ns <= w->now_ns + arbiter_defaults.lead_ns);
		}
	}
}

static void step(struct world *w)
{
	uint64_t next = arbiter_step(&arbiter_defaults, w->tenant, w->n, w->now_ns);

	CHECK(next > w->now_ns);
	CHECK(next <= w->now_ns + arbiter_defaults.lease_ns / 2);
	w->step_ns = next + next_random(w) % JITTER_NS;
	check_step(w);
}

static void note_wait(struct world *w, int i)
{
	struct job *job = &w->job[i];
	bool outranked = false;

	for (int j = 0; j < w->n; j++)
		outranked |= w->tenant[j].wants && w->tenant[j].priority > w->tenant[i].priority &&
			     (w->tenant[j].devices & w->tenant[i].devices);
	if (!w->tenant[i].wants || w->tenant[i].open || outranked)
		job->waits_since_ns = w->now_ns;
	else if (w->now_ns - job->waits_since_ns > job->longest_wait_ns)
		job->longest_wait_ns = w->now_ns - job->waits_since_ns;
}

static void run(struct world *w, uint64_t for_ns)
{
	for (uint64_t end = w->now_ns + for_ns; w->now_ns < end; w->now_ns += TICK_NS) {
		bool bell = false;

		for (int i = 0; i < w->n; i++) {
			measure(w, i);
			bell |= w->tenant[i].wants && !w->job[i].wanted;
			w->job[i].wanted = w->tenant[i].wants;
		}
		if (bell || w->now_ns >= w->step_ns)
			step(w);
		for (int i = 0; i < w->n; i++) {
			struct job *job = &w->job[i];

			while (w->tenant[i].id && job->on && !job->stuck && w->tenant[i].open &&
			       w->now_ns < w->tenant[i].open_until_ns &&
			       (job->in_flight_until_ns < w->now_ns + BOUND_NS))
				launch(w, i);
			note_wait(w, i);
		}
	}
}

/* What each used over a time, in permille of it. */
static void run_and_count(struct world *w, uint64_t for_ns, int ret_permille[JOBS])
{
	uint64_t before[JOBS];

	for (int i = 0; i < w->n; i++)
		before[i] = w->job[i].used_ns;
	run(w, for_ns);
	for (int i = 0; i < w->n; i++)
		ret_permille[i] = (int)((w->job[i].used_ns - before[i]) * 1000 / for_ns);
}

static void check_near(int permille, int wanted, int room)
{
	if (abs(permille - wanted) > room)
		fprintf(stderr, "got %d, wanted %d permille\n", permille, wanted);
	CHECK(abs(permille - wanted) <= room);
}

static void check_weights(void)
{
	static const uint32_t weight[][4] = {{1, 1}, {1, 3}, {1, 9}, {1, 2, 3, 4}, {1000, 9000}};
	static const uint64_t kernel_ns[] = {100 * US, 1 * MS, 10 * MS};
	int used[JOBS];

	for (size_t k = 0; k < 3; k++) {
		for (size_t i = 0; i < 5; i++) {
			struct world *w = fresh();
			int all = 0, sum = 0;

			for (int j = 0; j < 4 && weight[i][j]; j++) {
				add(w, 1, weight[i][j], kernel_ns[k]);
				sum += (int)weight[i][j];
			}
			run(w, 200 * MS);
			run_and_count(w, 2 * SECOND, used);
			for (int j = 0; j < w->n; j++)
				all += used[j];
			CHECK(all >= 950); /* the device is not left idle between turns */
			for (int j = 0; j < w->n; j++) {
				int wanted = (int)weight[i][j] * 1000 / sum;

				check_near(used[j] * 1000 / all, wanted, 10);
				check_near((int)w->tenant[j].entitled_permille, wanted, 1);
			}
		}
	}
}

/* Long kernels against short ones: what a turn used too much is owed. */
static void check_overrun(void)
{
	struct world *w = fresh();
	int used[JOBS];

	add(w, 1, 1, 100 * US);
	add(w, 1, 1, 20 * MS);
	run(w, 100 * MS);
	run_and_count(w, 4 * SECOND, used);
	check_near(used[0], 500, 15);
	check_near(used[1], 500, 15);
}

static void check_idle_owner(void)
{
	struct world *w = fresh();
	uint64_t slept_ns;

	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	w->job[1].on = false;
	run(w, 50 * MS);
	CHECK(w->tenant[0].open && !w->tenant[0].contended);
	CHECK(w->tenant[0].open_until_ns > w->now_ns);
	w->job[1].on = true;
	while (!w->tenant[0].open || w->tenant[0].turn_busy_ns || !w->tenant[1].wants)
		run(w, TICK_NS);
	/* With nothing to do it goes within the grace that it is given. */
	w->job[0].on = false;
	while (w->tenant[0].wants)
		run(w, TICK_NS);
	slept_ns = w->now_ns;
	while (!w->tenant[1].open)
		run(w, TICK_NS);
	CHECK(w->now_ns - slept_ns <= arbiter_defaults.grace_ns + 2 * JITTER_NS + 4 * TICK_NS);
}

/* One that works for 3.8 ms at a time, waits for each, and pauses; and one that waits. */
struct bursts {
	struct arbiter_tenant t[2];
	uint64_t now_ns, next_ns;
};

static void bursts_step(struct bursts *b)
{
	b->next_ns = arbiter_step(&arbiter_defaults, b->t, 2, b->now_ns);
}

/* A burst begins, up to its end less the lead. */
static void bursts_begin(struct bursts *b, bool rests)
{
	CHECK(b->t[0].open);
	b->t[0].wants = true;
	b->t[0].done_ns = b->now_ns + 3800 * US;
	b->t[0].rests = rests;
	bursts_step(b);
	CHECK(b->t[0].open);
	b->now_ns = b->t[0].done_ns - arbiter_defaults.lead_ns;
}

static void bursts_end(struct bursts *b, uint64_t pause_ns)
{
	b->now_ns = b->t[0].done_ns;
	b->t[0].busy_ns += 3800 * US;
	b->t[0].wants = false;
	bursts_step(b);
	b->now_ns += pause_ns;
}

static struct bursts bursts_fresh(uint64_t pause_ns)
{
	struct bursts b = {.now_ns = 5 * SECOND};

	for (int i = 0; i < 2; i++)
		b.t[i] = (struct arbiter_tenant){
			.id = 100 + (uint64_t)i, .devices = 1, .weight = 100};
	b.t[0].wants = true;
	bursts_step(&b);
	bursts_begin(&b, true);
	bursts_end(&b, pause_ns);
	b.t[0].wants = true;
	bursts_step(&b);
	b.t[1].wants = true;
	return b;
}

/* Not in the middle of a burst: the other may launch right behind one that is the last. */
static void check_rests(void)
{
	for (int rests = 0; rests < 2; rests++) {
		/* It comes back at once, so it has a slice, or what is nearest to that. */
		struct bursts b = bursts_fresh(20 * US);

		for (int i = 0; i < 2; i++) {
			uint64_t lead_ns = i ? arbiter_defaults.lead_ns : 0;

			bursts_begin(&b, rests);
			if (rests)
				CHECK_EQ(b.next_ns, b.t[0].done_ns - lead_ns);
			bursts_step(&b);
			CHECK(b.t[0].open == (!i || !rests));
			if (i && rests)
				CHECK_EQ(b.t[1].open_from_ns,
					 b.t[0].done_ns - arbiter_defaults.edge_ns);
			if (!i)
				bursts_end(&b, 20 * US);
		}
		/* It pauses for long: then with each burst, since the other had none. */
		b = bursts_fresh(300 * US);
		bursts_begin(&b, rests);
		CHECK_EQ(b.next_ns, b.t[0].done_ns - arbiter_defaults.lead_ns);
		bursts_step(&b);
		CHECK(b.t[0].open == !rests && b.t[1].open == rests);
	}
}

/* One turn of `i`, measured and over. */
static void one_turn(struct arbiter_tenant t[2], int i, uint64_t *now_ns, uint64_t took_ns)
{
	CHECK(t[i].open && !t[!i].open);
	*now_ns += took_ns;
	t[i].busy_ns += took_ns;
	arbiter_step(&arbiter_defaults, t, 2, *now_ns);
}

static void two_that_want(struct arbiter_tenant t[2], uint64_t now_ns)
{
	for (int i = 0; i < 2; i++)
		t[i] = (struct arbiter_tenant){.id = 100 + (uint64_t)i, .devices = 1, .weight = 1,
					       .wants = true};
	arbiter_step(&arbiter_defaults, t, 2, now_ns);
}

/* A turn does not end for what nobody knows of its work, but the next one waits for that. */
static void check_guess(void)
{
	struct arbiter_tenant t[2];
	uint64_t now = 5 * SECOND;

	two_that_want(t, now);
	t[0].done_ns = now + arbiter_defaults.slice_ns + MS / 2;
	t[0].guess_ns = MS;
	one_turn(t, 0, &now, arbiter_defaults.slice_ns - MS / 2);
	CHECK(t[0].open && !t[1].open);
	t[0].guess_ns = 0;
	arbiter_step(&arbiter_defaults, t, 2, now);
	CHECK(!t[0].open && !t[1].open);
	t[0].done_ns = 0;
	arbiter_step(&arbiter_defaults, t, 2, now);
	CHECK(!t[0].open && t[1].open);
}

/* After a turn that was too long the others have no two in a row, but what it had too much. */
static void check_in_turns(void)
{
	const uint64_t slice_ns = arbiter_defaults.slice_ns;
	struct arbiter_tenant t[2];
	uint64_t now = 5 * SECOND;

	two_that_want(t, now);
	one_turn(t, 0, &now, slice_ns);
	one_turn(t, 1, &now, slice_ns * 23 / 10);
	one_turn(t, 0, &now, slice_ns);
	one_turn(t, 1, &now, slice_ns);
	one_turn(t, 0, &now, slice_ns);
	one_turn(t, 1, &now, slice_ns * 17 / 10);
	one_turn(t, 0, &now, slice_ns);
	one_turn(t, 0, &now, slice_ns);
	CHECK(t[1].open);
}

/* How long the turn of `i` is that begins next, by what is measured of it. */
static uint64_t next_turn_ns(struct world *w, int i)
{
	uint64_t from_ns;

	while (w->tenant[i].owner)
		run(w, TICK_NS);
	/* What it launches with its first step is of the turn, too. */
	do {
		from_ns = w->job[i].used_ns;
		run(w, TICK_NS);
	} while (!w->tenant[i].owner);
	while (w->tenant[i].owner)
		run(w, TICK_NS);
	return w->job[i].used_ns - from_ns;
}

/* Turns follow how long those work who share the device before they wait. */
static void check_slices(void)
{
	static const struct {
		uint64_t burst_us[2];
		uint32_t weight[2];
		uint64_t slice_ms, latency_ms; /* of the second that is asked; 0: none */
		int turn_ms[2];
	} when[] = {
		{{0, 0}, {1, 1}, 0, 0, {12, 12}}, /* not known */
		{{0, 0}, {1, 3}, 0, 0, {6, 18}}, /* a round in all */
		{{0, 0}, {1, 9}, 0, 0, {2, 20}}, /* the first waits for 20 ms */
		{{140, 140}, {1, 1}, 0, 0, {4, 4}},
		{{140, 1500}, {1, 1}, 0, 0, {12, 12}},
		{{1500, 1500}, {1, 1}, 0, 0, {12, 12}},
		{{3900, 140}, {1, 1}, 0, 0, {12, 12}}, /* neither waits for longer */
		{{3900, 1500}, {1, 1}, 0, 0, {12, 12}},
		{{3900, 4400}, {1, 1}, 0, 0, {15, 15}},
		{{3900, 4400}, {1, 2}, 0, 0, {10, 20}},
		{{3900, 500000}, {1, 1}, 0, 0, {12, 12}}, /* it does not wait at all */
		{{0, 0}, {1, 1}, 48, 0, {20, 20}}, /* it may wait, and the first not */
		{{0, 0}, {1, 1}, 0, 6, {6, 6}},
		{{3900, 4400}, {1, 1}, 0, 8, {8, 8}},
	};

	for (size_t k = 0; k < sizeof(when) / sizeof(when[0]); k++) {
		struct world *w = fresh();

		for (int i = 0; i < 2; i++) {
			add(w, 1, when[k].weight[i], 100 * US);
			w->tenant[i].burst_ns = when[k].burst_us[i] * US;
		}
		w->tenant[1].slice_ns = when[k].slice_ms * MS;
		w->tenant[1].latency_ns = when[k].latency_ms * MS;
		run(w, 400 * MS);
		for (int i = 0; i < 2; i++)
			check_near((int)(next_turn_ns(w, i) / (100 * US)),
				   when[k].turn_ms[i] * 10, 8);
	}
}

/*
 * A round is divided among all who are there. Who had most in one may be the last in the next.
 */
static void check_rounds(void)
{
	for (int n = 2; n <= 8; n *= 2) {
		for (int asks = 0; asks < 2; asks++) {
			struct world *w = fresh();
			uint64_t slice_ns = asks ? 48 * MS : arbiter_defaults.rounds.cheap_long_ns;
			int used[JOBS];

			for (int i = 0; i < n; i++) {
				add(w, 1, 1, 100 * US);
				w->tenant[i].burst_ns = 4 * MS;
				w->tenant[i].slice_ns = asks ? slice_ns : 0;
			}
			run(w, 400 * MS);
			for (int i = 0; i < n; i++)
				w->job[i].longest_wait_ns = 0;
			run_and_count(w, 10 * SECOND, used);
			for (int i = 0; i < n; i++) {
				check_near(used[i], 1000 / n, 10);
				CHECK(w->job[i].longest_wait_ns < 2 * (uint64_t)n * slice_ns);
			}
			check_near((int)(next_turn_ns(w, 0) / (100 * US)),
				   (int)(slice_ns / (100 * US)), 5);
		}
	}
}

/*
 * Programs that wait for each burst and then pause, with what takes time on an H200: the device turns
 * to another context, the arbiter and who waits for a turn wake up.
 */
#define LOOPS	  2
#define SWITCH_NS (140 * US)
#define WAKE_NS	  (50 * US)

struct loops {
	struct arbiter_tenant t[LOOPS];
	struct loop {
		uint64_t burst_ns, pause_ns;
		uint64_t due_ns, end_ns; /* as expected, and in truth; 0: no burst is under way */
		uint64_t ready_ns;	 /* it launches no sooner */
		uint64_t awake_ns;	 /* it waits for its turn, and has heard of it by then */
		uint64_t longest_ns;	 /* from when it was ready to the end of its burst */
		unsigned int bursts;
	} loop[LOOPS];
	uint64_t now_ns, step_ns, free_ns;
	int last;
	unsigned int turns; /* of the device */
};

static void loops_launch(struct loops *l, int i)
{
	struct loop *loop = &l->loop[i];
	uint64_t from = l->now_ns > l->free_ns ? l->now_ns : l->free_ns;

	if (l->last != i)
		from += SWITCH_NS;
	l->turns += l->last != i;
	l->last = i;
	loop->due_ns = l->now_ns + loop->burst_ns;
	loop->end_ns = l->free_ns = from + loop->burst_ns;
	loop->awake_ns = 0;
}

/* It is about to launch. */
static void loops_ask(struct loops *l, int i)
{
	struct loop *loop = &l->loop[i];
	const struct arbiter_tenant *t = &l->t[i];

	if (!t->open || l->now_ns >= t->open_until_ns)
		loop->awake_ns = UINT64_MAX;
	else if (loop->awake_ns == UINT64_MAX)
		loop->awake_ns = t->open_from_ns ? t->open_from_ns : l->now_ns + WAKE_NS;
	else if (l->now_ns >= loop->awake_ns)
		loops_launch(l, i);
}

/* Answers whether the arbiter is rung. */
static bool loops_go_on(struct loops *l, int i)
{
	struct loop *loop = &l->loop[i];
	struct arbiter_tenant *t = &l->t[i];
	bool wanted = t->wants;

	if (loop->end_ns && l->now_ns >= loop->end_ns) {
		t->busy_ns += loop->burst_ns;
		loop->bursts++;
		if (l->now_ns - loop->ready_ns > loop->longest_ns)
			loop->longest_ns = l->now_ns - loop->ready_ns;
		loop->end_ns = 0;
		loop->ready_ns = l->now_ns + loop->pause_ns;
	}
	if (!loop->end_ns && l->now_ns >= loop->ready_ns)
		loops_ask(l, i);
	t->wants = loop->end_ns || l->now_ns >= loop->ready_ns;
	t->done_ns = 0;
	t->rests = loop->end_ns; /* it waits for each burst */
	if (loop->end_ns) /* if it is late: as arbiter_host.c has it */
		t->done_ns = loop->due_ns > l->now_ns ? loop->due_ns : l->now_ns + MS;
	return t->wants != wanted;
}

/* How much of what one alone has all have together, in permille. */
static int loops_run(struct loops *l, uint64_t for_ns)
{
	uint64_t to = l->now_ns + for_ns, alone = l->loop[0].burst_ns + l->loop[0].pause_ns;
	unsigned int bursts = 0;

	for (int i = 0; i < LOOPS; i++)
		l->loop[i].bursts = l->loop[i].longest_ns = 0;
	for (l->turns = 0; l->now_ns < to; l->now_ns += TICK_NS) {
		bool rung = false;

		for (int i = 0; i < LOOPS; i++)
			rung |= loops_go_on(l, i);
		if (rung && l->step_ns > l->now_ns + WAKE_NS)
			l->step_ns = l->now_ns + WAKE_NS;
		if (l->now_ns >= l->step_ns)
			l->step_ns = arbiter_step(&arbiter_defaults, l->t, LOOPS, l->now_ns);
	}
	for (int i = 0; i < LOOPS; i++)
		bursts += l->loop[i].bursts;
	return (int)(bursts * alone * 1000 / for_ns);
}

static struct loops loops_fresh(uint64_t burst_ns, uint64_t pause_ns, uint32_t weight,
				uint64_t slice_ns)
{
	struct loops l = {.now_ns = 5 * SECOND, .last = -1};

	for (int i = 0; i < LOOPS; i++) {
		l.t[i] = (struct arbiter_tenant){
			.id = 100 + (uint64_t)i,
			.devices = 1,
			.weight = i ? weight : 1,
			.burst_ns = burst_ns + pause_ns,
			.slice_ns = slice_ns,
		};
		l.loop[i] = (struct loop){.burst_ns = burst_ns,
					  .pause_ns = pause_ns,
					  .ready_ns = l.now_ns + (uint64_t)i * MS};
	}
	return l;
}

static const uint64_t loops_burst_ns[] = {3900 * US, 4365 * US, 8 * MS};
static const uint64_t loops_pause_ns[] = {20 * US, 60 * US, 120 * US, 250 * US};

/* Token loops that ask for it have turns of about 48 ms, also where a pause is a hand-over. */
static void check_loops(void)
{
	for (size_t b = 0; b < 3; b++) {
		for (size_t p = 0; p < 4; p++) {
			for (uint32_t weight = 1; weight <= 3; weight++) {
				struct loops l = loops_fresh(loops_burst_ns[b], loops_pause_ns[p],
							     weight, 48 * MS);
				unsigned int bursts;

				loops_run(&l, SECOND);
				CHECK(loops_run(&l, 4 * SECOND) >= 990);
				bursts = l.loop[0].bursts + l.loop[1].bursts;
				CHECK(bursts * loops_burst_ns[b] / l.turns >= 42 * MS);
				CHECK(bursts * loops_burst_ns[b] / l.turns <= 56 * MS);
				check_near((int)(l.loop[1].bursts * 1000 / bursts),
					   (int)(weight * 1000 / (1 + weight)), 15);
			}
		}
	}
}

/* By default no step of two takes longer than 20 ms, and they have 98 % together. */
static void check_loops_wait(void)
{
	for (size_t b = 0; b < 2; b++) {
		for (size_t p = 0; p < 4; p++) {
			struct loops l =
				loops_fresh(loops_burst_ns[b], loops_pause_ns[p], 1, 0);
			int all;

			loops_run(&l, SECOND);
			all = loops_run(&l, 4 * SECOND);
			CHECK(all >= 980);
			for (int i = 0; i < LOOPS; i++)
				CHECK(l.loop[i].longest_ns <= 20 * MS);
			check_near((int)(l.loop[1].bursts * 1000 /
					 (l.loop[0].bursts + l.loop[1].bursts)),
				   500, 10);
		}
	}
}

/* All of the arbiter's own is gone, but what it had written down: it was killed. */
static void replace_arbiter(struct world *w, bool inherits)
{
	for (int i = 0; i < w->n; i++) {
		const struct arbiter_tenant old = w->tenant[i];

		w->tenant[i] = (struct arbiter_tenant){
			.id = old.id + 1000,
			.devices = old.devices,
			.weight = old.weight,
			.wants = old.wants,
			.busy_ns = old.busy_ns,
			.done_ns = old.done_ns,
			.inherited_ns = inherits ? old.virtual_ns : 0,
		};
	}
}

/* Who comes after an arbiter goes on where it was, however often. */
static void check_successors(void)
{
	for (int inherits = 0; inherits < 2; inherits++) {
		struct world *w = fresh();
		uint64_t used[2];
		int part;

		w->honest = false; /* a new one does not know whose work is under way */
		add(w, 1, 3, 200 * US);
		add(w, 1, 1, 200 * US);
		run(w, 100 * MS);
		for (int i = 0; i < 2; i++)
			used[i] = w->job[i].used_ns;
		for (int k = 0; k < 200; k++) {
			replace_arbiter(w, inherits);
			run(w, 5 * MS + next_random(w) % (20 * MS));
		}
		for (int i = 0; i < 2; i++)
			used[i] = w->job[i].used_ns - used[i];
		part = (int)(used[0] * 1000 / (used[0] + used[1]));
		CHECK(inherits ? part >= 730 && part <= 770 : part < 700);
	}
}

/* Who wanted the device a moment ago will want it again: the other keeps little in flight. */
static void check_recent(void)
{
	struct world *w = fresh();

	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	w->job[1].on = false;
	run(w, 200 * MS);
	CHECK(w->tenant[0].open && !w->tenant[0].contended);
	w->job[1].on = true;
	run(w, 20 * MS);
	w->job[1].on = false;
	run(w, 80 * MS);
	CHECK(!w->tenant[1].wants && w->tenant[0].open && w->tenant[0].contended);
	run(w, 50 * MS);
	CHECK(w->tenant[0].open && !w->tenant[0].contended);
}

/* An idle tenant saves nothing, and has its part at once when it comes back. */
static void check_return(void)
{
	struct world *w = fresh();
	int used[JOBS];

	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	w->job[1].on = false;
	run_and_count(w, SECOND, used);
	check_near(used[0], 1000, 5); /* all of it while it is alone */
	w->job[1].on = true;
	run(w, TICK_NS);
	w->job[1].longest_wait_ns = 0;
	run_and_count(w, 100 * MS, used);
	CHECK(w->job[1].longest_wait_ns < 2 * arbiter_defaults.slice_ns + BOUND_NS);
	check_near(used[0], 500, 60);
	check_near(used[1], 500, 60);
}

static void check_priority(void)
{
	struct world *w = fresh();
	int low, high, used[JOBS];

	low = add(w, 1, 1, 1 * MS);
	high = add(w, 1, 1, 1 * MS);
	w->tenant[high].priority = 1;
	w->job[high].on = false;
	run(w, 20 * MS);
	CHECK(w->tenant[low].open && w->tenant[low].urged && !w->tenant[low].contended);
	CHECK(w->tenant[high].first && !w->tenant[low].first);
	for (int i = 0; i < 50; i++) {
		w->job[high].on = true;
		run(w, TICK_NS); /* one look is enough, though work of the other is in flight */
		CHECK(w->tenant[high].open && !w->tenant[high].urged);
		CHECK(!w->tenant[low].open && w->tenant[low].contended);
		w->job[high].on = false;
		run(w, 10 * MS);
		CHECK(w->tenant[low].open);
	}
	w->job[high].on = true;
	run_and_count(w, 500 * MS, used);
	CHECK_EQ(used[low], 0);
}

/*
 * Who is urged is told how long the one above works at a time, with brief pauses in it: four times
 * 2 ms, and what it then has in flight.
 */
static void check_stay(void)
{
	struct world *w = fresh();
	int low = add(w, 1, 1, 1 * MS), high = add(w, 1, 1, 1 * MS);

	w->tenant[high].priority = 1;
	w->job[high].on = false;
	run(w, 20 * MS);
	CHECK(w->tenant[low].urged);
	CHECK_EQ(w->tenant[low].urgent_ns, 0);
	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 4; k++) {
			w->job[high].on = true;
			run(w, 2 * MS);
			w->job[high].on = false;
			run(w, arbiter_defaults.lead_ns / 2);
		}
		run(w, 10 * MS);
	}
	CHECK(w->tenant[low].urgent_ns > 8 * MS && w->tenant[low].urgent_ns < 13 * MS);
	CHECK_EQ(w->tenant[high].urgent_ns, 0);
}

/* Who pauses for less than a wake-up's time is known to, until it pauses for longer. */
static void check_returns(void)
{
	struct arbiter_tenant t[1] = {{.id = 1, .devices = 1, .weight = 1}};
	uint64_t now = SECOND;

	for (int i = 0; i < 20; i++) {
		uint64_t pause_ns = i % 4 ? 100 * US : 2 * MS;

		t[0].wants = false;
		arbiter_step(&arbiter_defaults, t, 1, now);
		t[0].wants = true;
		arbiter_step(&arbiter_defaults, t, 1, now += pause_ns);
		CHECK_EQ(t[0].returns, i % 4 != 0);
		arbiter_step(&arbiter_defaults, t, 1, now += MS);
		CHECK_EQ(t[0].returns, i % 4 != 0);
	}
	t[0].id = 2;
	arbiter_step(&arbiter_defaults, t, 1, now += MS);
	CHECK(!t[0].returns);
}

/*
 * A high priority that always wants the device leaves others their floor, whatever their kernels;
 * and not more, also to one that does nothing with it, or that had the device to itself before.
 */
static void check_floor(void)
{
	static const struct {
		uint64_t low_ns, high_ns;
		uint32_t floor_permille;
	} cases[] = {
		{100 * US, MS, 50}, {MS, 100 * US, 50}, {20 * MS, MS, 50}, {MS, MS, 100}, {MS, MS, 0},
		{MS, 10 * MS, 50},
	};
	int used[JOBS];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world *w = fresh();
		int low = add(w, 1, 1, cases[i].low_ns), high = add(w, 1, 1, cases[i].high_ns);

		w->honest = false; /* what is lifted is above a priority */
		w->tenant[high].priority = 1;
		w->tenant[low].floor_permille = cases[i].floor_permille;
		w->job[high].on = false;
		run(w, SECOND);
		w->job[high].on = true;
		run(w, 100 * MS);
		run_and_count(w, 8 * SECOND, used);
		check_near(used[low], (int)cases[i].floor_permille, 6);
		CHECK(used[high] >= 990 - (int)cases[i].floor_permille);
	}
}

/* Two that work for 1 ms at a time: LOW has a floor of 5 % beside HIGH, which goes first. */
enum { LOW, HIGH };

static struct world *low_beside_high(void)
{
	struct world *w = fresh();

	add(w, 1, 1, MS);
	add(w, 1, 1, MS);
	w->honest = false; /* a lifted tenant is above a priority */
	w->tenant[HIGH].priority = 1;
	w->tenant[LOW].floor_permille = 50;
	return w;
}

static void check_floor_of_the_idle(void)
{
	struct world *w = low_beside_high();
	int used[JOBS];

	w->job[LOW].stuck = true;
	run(w, 100 * MS);
	run_and_count(w, 4 * SECOND, used);
	CHECK_EQ(used[LOW], 0);
	CHECK(used[HIGH] >= 900);
	/* One that wants nothing costs nothing. */
	w->job[LOW].on = false;
	run(w, 100 * MS);
	run_and_count(w, SECOND, used);
	CHECK(used[HIGH] >= 990);
}

/* What is owed to who rests is kept for it, up to a lift: it begins at once, and then has its part. */
static void check_floor_of_who_comes(void)
{
	struct world *w = low_beside_high();
	int used[JOBS];

	w->job[LOW].on = false;
	run(w, 5 * SECOND);
	w->job[LOW].on = true;
	run_and_count(w, 60 * MS, used);
	CHECK(used[LOW] >= 700);
	run_and_count(w, 8 * SECOND, used);
	check_near(used[LOW], 50, 6);
}

/* One that is new waits for what it does about as long as its floor says, and for no whole lift. */
static void check_floor_of_the_new(void)
{
	for (int ms = 50; ms <= 1600; ms *= 2) {
		struct world *w = low_beside_high();
		int used[JOBS];

		w->job[LOW].on = false;
		run(w, 20 * MS);
		w->job[LOW].on = true;
		run_and_count(w, (uint64_t)ms * MS, used);
		CHECK(used[LOW] >= 20);
		CHECK(used[LOW] <= 50 + 1000 * 9 / ms);
	}
}

/*
 * Work that has spun since long before a lift, for what its tenant launches next, uses nothing of
 * it: there is a turn in which that can be launched.
 */
static void check_floor_of_the_late(void)
{
	struct arbiter_tenant t[2] = {
		{.id = 1, .devices = 1, .weight = 1, .wants = true, .floor_permille = 50},
		{.id = 2, .devices = 1, .weight = 1, .wants = true, .priority = 1},
	};
	uint64_t now = 10 * SECOND, open_ns = 0;

	for (int i = 0; i < 3000; i++, now += MS) {
		t[0].done_ns = now + 10 * MS;
		t[0].guess_ns = 10 * MS;
		t[1].busy_ns += t[1].open ? MS : 0;
		arbiter_step(&arbiter_defaults, t, 2, now);
		open_ns += t[0].open && t[0].open_from_ns <= now ? MS : 0;
	}
	CHECK(open_ns >= 100 * MS && open_ns <= 200 * MS);
}

/* What each may count on, by priorities, floors, caps and weights. */
static void check_entitled(void)
{
	struct world *w = fresh();
	int low = add(w, 1, 1, MS), other = add(w, 1, 3, MS), high = add(w, 1, 1, MS);

	w->honest = false;
	w->tenant[high].priority = 1;
	w->tenant[low].floor_permille = 50;
	run(w, 50 * MS);
	CHECK_EQ(w->tenant[high].entitled_permille, 950);
	CHECK_EQ(w->tenant[low].entitled_permille, 50);
	CHECK_EQ(w->tenant[other].entitled_permille, 1);
	w->tenant[high].cap_permille = 600;
	run(w, 50 * MS);
	CHECK_EQ(w->tenant[low].entitled_permille, 100);
	CHECK_EQ(w->tenant[other].entitled_permille, 300);
	w->job[high].on = false;
	run(w, 50 * MS);
	CHECK_EQ(w->tenant[low].entitled_permille, 250);
	CHECK_EQ(w->tenant[other].entitled_permille, 750);
}

/* Two of them have a floor each; one that has its part by itself is not lifted. */
static void check_floors(void)
{
	struct world *w = fresh();
	int low = add(w, 1, 1, MS), other = add(w, 1, 1, MS), high = add(w, 1, 1, MS);
	int used[JOBS];

	w->honest = false;
	w->tenant[high].priority = 1;
	w->tenant[low].priority = -1;
	w->tenant[low].floor_permille = w->tenant[other].floor_permille = 50;
	run(w, 100 * MS);
	run_and_count(w, 8 * SECOND, used);
	check_near(used[low], 50, 12);
	check_near(used[other], 50, 12);
	CHECK(used[high] >= 850);
}

/* Bursts of a high priority do not change how the others share the rest. */
static void check_priority_bursts(void)
{
	struct world *w = fresh();
	uint64_t before[2];
	int high;

	add(w, 1, 1, 500 * US);
	add(w, 1, 3, 500 * US);
	high = add(w, 1, 1, 500 * US);
	w->tenant[high].priority = 5;
	run(w, 10 * MS);
	before[0] = w->job[0].used_ns;
	before[1] = w->job[1].used_ns;
	for (int i = 0; i < 300; i++) {
		w->job[high].on = !w->job[high].on;
		run(w, 1 * MS + next_random(w) % (10 * MS));
	}
	before[0] = w->job[0].used_ns - before[0];
	before[1] = w->job[1].used_ns - before[1];
	check_near((int)(before[0] * 1000 / (before[0] + before[1])), 250, 20);
}

static void check_dead_owner(void)
{
	struct world *w;
	int used[JOBS];

	/* Killed in its turn: it wants nothing more, or is not there. */
	for (int gone = 0; gone < 3; gone++) {
		w = fresh();
		add(w, 1, 1, 1 * MS);
		add(w, 1, 1, 1 * MS);
		run(w, 50 * MS);
		while (!w->tenant[0].open)
			run(w, TICK_NS);
		w->job[0].on = false;
		w->job[0].in_flight_until_ns = 0;
		w->job[0].tail = w->job[0].head;
		if (gone == 1)
			w->tenant[0].id = 0;
		if (gone == 2)
			w->tenant[0].id = 77;
		run(w, 7 * MS);
		CHECK(w->tenant[1].open && !w->tenant[0].open);
	}
	/* One that says it wants and does nothing cannot keep the device. */
	w = fresh();
	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	w->job[0].stuck = true;
	run(w, 100 * MS);
	run_and_count(w, SECOND, used);
	CHECK(used[1] > 350);
	CHECK(w->job[1].longest_wait_ns < 4 * arbiter_defaults.slice_ns);
	/* Nor one whose work is said never to be done. */
	w = fresh();
	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	run(w, 50 * MS);
	while (!w->tenant[0].open)
		run(w, TICK_NS);
	w->honest = false;
	w->job[0].stuck = true;
	w->job[0].in_flight_until_ns = UINT64_MAX;
	run(w, 1100 * MS);
	run_and_count(w, 20 * MS, used);
	CHECK(used[1] > 0);
}

/* One that does nothing, and says at the end of each turn that its work goes on for a second. */
static void check_liar(void)
{
	struct world *w = fresh();
	struct arbiter_tenant *liar;
	uint64_t before;

	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	liar = &w->tenant[0];
	w->honest = false;
	w->job[0].stuck = true;
	run(w, 100 * MS);
	before = w->job[1].used_ns;
	for (uint64_t end = w->now_ns + 10 * SECOND; w->now_ns < end;) {
		run(w, TICK_NS);
		if (liar->open)
			w->job[0].in_flight_until_ns = w->now_ns + 990 * MS;
		else if (!liar->leaving)
			w->job[0].in_flight_until_ns = 0;
	}
	CHECK(w->job[1].used_ns - before > 3 * SECOND);
}

/* A tenant that says that it wants the device, and launches nothing, whatever latency it asked for. */
static void check_idle_liar(uint64_t latency_ns)
{
	struct world *w = fresh();
	int liar = add(w, 1, 1, MS), other = add(w, 1, 1, MS);
	uint64_t before;

	w->honest = false;
	w->tenant[liar].latency_ns = latency_ns;
	w->job[liar].stuck = true;
	run(w, 100 * MS);
	before = w->job[other].used_ns;
	run(w, 4 * SECOND);
	CHECK(w->job[other].used_ns - before > SECOND);
}

/*
 * Work that is never done nor measured, as a kernel has it that waits for another tenant: its owner
 * is charged by the clock, and the other gets its turn, however far behind the owner was.
 */
static void check_endless(uint64_t ahead_ns, uint64_t most_ns)
{
	struct arbiter_tenant t[2] = {
		{.id = 1, .devices = 1, .weight = 1, .wants = true, .rests = true},
		{.id = 2, .devices = 1, .weight = 1, .wants = true},
	};
	uint64_t from = 10 * SECOND, now = from;

	t[1].inherited_ns = ahead_ns * 65536;
	do {
		now += MS;
		CHECK(now < from + most_ns);
		t[0].done_ns = now + 10 * MS;
		t[0].guess_ns = 10 * MS;
		arbiter_step(&arbiter_defaults, t, 2, now);
	} while (!t[1].open);
}

static void check_devices(void)
{
	struct world *w = fresh();
	int used[JOBS];

	add(w, 3, 1, 700 * US);
	add(w, 1, 1, 1 * MS);
	add(w, 2, 1, 3 * MS);
	run(w, 100 * MS);
	run_and_count(w, 2 * SECOND, used);
	for (int i = 0; i < 3; i++) {
		check_near(used[i], used[0], 10);
		CHECK(used[i] > 400); /* the rest is lost where one device waits for the other */
	}
	/* No device in common: both at once. */
	w = fresh();
	add(w, 5, 1, 1 * MS);
	add(w, 10, 9, 1 * MS);
	run_and_count(w, SECOND, used);
	check_near(used[0], 1000, 5);
	check_near(used[1], 1000, 5);
	CHECK(!w->tenant[0].contended && !w->tenant[1].contended);
}

/* Two groups that never met, one of them busy for long, and a tenant that joins them. */
static void check_groups_meet(void)
{
	struct world *w = fresh();
	int used[JOBS];

	add(w, 1, 1, 1 * MS);
	add(w, 1, 1, 1 * MS);
	run(w, 3 * SECOND);
	add(w, 2, 1, 1 * MS);
	add(w, 2, 1, 1 * MS);
	run(w, 100 * MS);
	add(w, 3, 1, 1 * MS);
	run_and_count(w, 300 * MS, used);
	for (int i = 0; i < w->n; i++)
		check_near(used[i], 310, 60);
}

static void shake(struct world *w, int i)
{
	struct job *job = &w->job[i];

	switch (next_random(w) % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
		job->on = !job->on;
		break;
	case 4:
		job->kernel_ns = 50 * US + next_random(w) % (5 * MS);
		break;
	case 5:
		w->tenant[i].busy_ns = w->tenant[i].busy_ns / 2;
		break;
	case 6:
		w->tenant[i].id = next_random(w) % 2 ? next_random(w) : 0;
		break;
	case 7:
		w->tenant[i].devices = next_random(w) % 15 + 1;
		break;
	case 8:
		w->tenant[i].weight = (uint32_t)(next_random(w) % 5);
		break;
	case 9:
		job->stuck = !job->stuck;
		break;
	default:
		break;
	}
}

/* Whatever they do: nobody waits for ever, and check_step holds. */
static void check_random(void)
{
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct world *w = fresh();

		w->honest = false;
		w->random *= seed;
		for (int i = 0; i < 2 + (int)(seed % 5); i++) {
			add(w, next_random(w) % 15 + 1, 1 + (uint32_t)i % 4, 1 * MS);
			w->job[i].kernel_ns = 100 * US + next_random(w) % (3 * MS);
			w->tenant[i].priority = seed % 3 ? 0 : (int)(next_random(w) % 3) - 1;
		}
		for (int i = 0; i < 100; i++) {
			shake(w, (int)(next_random(w) % (uint64_t)w->n));
			run(w, next_random(w) % (8 * MS));
		}
		for (int i = 0; i < w->n; i++)
			CHECK(w->job[i].longest_wait_ns < 300 * MS);
	}
}

/* Full tables, empty ones, and words that mean nothing. */
static void check_nonsense(void)
{
	static struct arbiter_tenant tenant[ARBITER_TENANTS];
	const struct arbiter_params none = {0};
	struct world *w = fresh();
	int open = 0;

	CHECK(arbiter_step(&arbiter_defaults, tenant, 0, SECOND) > SECOND);
	for (int i = 0; i < ARBITER_TENANTS; i++)
		tenant[i] = (struct arbiter_tenant){
			.id = 1 + (uint64_t)i, .devices = UINT64_MAX, .wants = true};
	arbiter_step(&arbiter_defaults, tenant, ARBITER_TENANTS, SECOND);
	for (int i = 0; i < ARBITER_TENANTS; i++)
		open += tenant[i].open;
	CHECK_EQ(open, 1);
	CHECK_EQ(tenant[0].entitled_permille, 3);
	for (int i = 0; i < 200; i++) {
		uint64_t now = next_random(w);

		for (int j = 0; j < 8; j++)
			for (size_t k = 0; k < offsetof(struct arbiter_tenant, wants) / 8; k++)
				((uint64_t *)&tenant[j])[k] = next_random(w);
		for (int j = 0; j < 8; j++) {
			tenant[j].busy_ns = next_random(w);
			tenant[j].done_ns = next_random(w);
			tenant[j].wants = next_random(w) & 1;
		}
		arbiter_step(i % 2 ? &arbiter_defaults : &none, tenant, 8, now);
	}
}

int main(void)
{
	check_weights();
	check_overrun();
	check_idle_owner();
	check_rests();
	check_guess();
	check_in_turns();
	check_slices();
	check_rounds();
	check_loops();
	check_loops_wait();
	check_successors();
	check_recent();
	check_return();
	check_priority();
	check_stay();
	check_priority_bursts();
	check_floor();
	check_floor_of_the_idle();
	check_floor_of_who_comes();
	check_floor_of_the_new();
	check_floor_of_the_late();
	check_floors();
	check_entitled();
	check_returns();
	check_dead_owner();
	check_liar();
	check_idle_liar(0);
	check_idle_liar(20 * MS);
	check_idle_liar(SECOND);
	check_endless(0, SECOND + 80 * MS);
	check_endless(100 * MS, SECOND + 250 * MS);
	check_endless(3 * SECOND, 4 * SECOND + 200 * MS);
	check_devices();
	check_groups_meet();
	check_random();
	check_nonsense();
	return 0;
}
