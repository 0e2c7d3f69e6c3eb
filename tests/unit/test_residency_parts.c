/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a device that tenants get by turns on memory: a model of tenants that always
 * compute, of random sizes, weights, and times that moving takes. They start at different times,
 * drain before they leave, and reach the shut gate late; one pauses for a second. Those that are on
 * the device share it by weight, or one takes up to three times as much of it, or they lose a part of
 * it to each other: the meter sees both. Some have kernels of up to 2 s, billed at their end. The
 * device's time that each had is counted over ten rounds.
 *
 *	test_residency_parts [SEEDS [FIRST]]	so many seeds of each kind; with FIRST each is shown
 */
#include "sched/residency.h"

#include <inttypes.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "sched/residency_account.h"
#include "sched/residency_time.h"
#include "sched/tuning.h"
#include "tests/check.h"

#define GIB	(UINT64_C(1) << 30)
#define MS	NS_PER_MS
#define SECOND	NS_PER_S
#define TENANTS 6
#define TICK_NS (10 * MS)
#define ROUNDS	10
#define BILL_TICKS 5 /* on the average, from one bill to the next */

/* A process, and what the planner does not see of it. */
struct job {
	uint64_t size;
	uint64_t starts_ns;
	uint64_t drain_ns;		     /* work under way ends within this time */
	uint64_t late_ns;		     /* its threads reach the shut gate within this time */
	uint64_t pause_from_ns, pause_to_ns; /* it does nothing */
	uint64_t prepared_ns, moves_until_ns, waits_from_ns;
	uint64_t out_ns, back_ns;
	uint32_t takes;			     /* so many times what its weight is, beside others; 0: once */
	uint64_t kernel_ns;		     /* its work is billed when that much is done; 0: by chance */
	double had_ns;
	unsigned int visits;
};

struct world {
	struct residency_tenant tenant[TENANTS];
	struct residency_device device[RESIDENCY_DEVICES];
	struct job job[TENANTS];
	int n;
	uint64_t now_ns, began_ns, random;
	uint32_t loses_percent; /* of the time of those that compute at once */
	double used_ns; /* somebody computed */
};

static struct world world;
static bool verbose;

static uint64_t pick(struct world *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

static struct world *fresh(uint64_t seed)
{
	memset(&world, 0, sizeof(world));
	world.now_ns = world.began_ns = 100 * SECOND;
	world.random = UINT64_C(88172645463325252) + seed * UINT64_C(0x9e3779b97f4a7c15);
	for (int i = 0; i < 4; i++)
		pick(&world, 2);
	world.device[0].capacity_bytes = 100 * GIB;
	world.device[0].spare_bytes = GIB;
	return &world;
}

static void add(struct world *w, uint32_t weight, uint64_t bytes)
{
	struct job *job = &w->job[w->n];

	job->size = bytes;
	job->starts_ns = w->now_ns + pick(w, 3) * pick(w, 2000) * MS;
	job->drain_ns = pick(w, 3) ? pick(w, 5) * MS : pick(w, 300) * MS;
	job->late_ns = pick(w, 2) ? 0 : pick(w, 30) * MS;
	/* At 67 to 200 GB/s. */
	job->out_ns = bytes / 200000 * NS_PER_US * (100 + pick(w, 200)) / 100;
	job->back_ns = bytes / 200000 * NS_PER_US * (100 + pick(w, 200)) / 100;
	/* As if it had moved before: a first turn, by a guess, may be many times as long. */
	w->tenant[w->n].out_ns = job->out_ns;
	w->tenant[w->n].back_ns = job->back_ns;
	w->tenant[w->n].weight = weight;
	w->n++;
}

static bool model_is_paused(const struct world *w, const struct job *job)
{
	return w->now_ns >= job->pause_from_ns && w->now_ns < job->pause_to_ns;
}

static void model_start(struct world *w, int i)
{
	struct residency_tenant *t = &w->tenant[i];

	if (t->id || w->now_ns < w->job[i].starts_ns)
		return;
	t->id = 1 + (uint64_t)i;
	t->asked = RESIDENCY_ALL;
	t->place = RESIDENCY_AWAY;
	t->away[0] = w->job[i].size;
}

/* Those that are there and compute share the time by weight; those that drain still have it. */
static bool model_computes(const struct world *w, int i)
{
	const struct residency_tenant *t = &w->tenant[i];

	return t->id && !model_is_paused(w, &w->job[i]) &&
	       (t->place == RESIDENCY_HERE ||
		(t->place == RESIDENCY_LEAVING && w->now_ns < w->job[i].prepared_ns));
}

static double model_claim(const struct world *w, int i)
{
	return (double)w->tenant[i].weight * (w->job[i].takes ? w->job[i].takes : 1);
}

/* Work is billed when it ends, and what is under way goes on for up to so long. */
static void model_bill(struct world *w, int i)
{
	const struct job *job = &w->job[i];
	struct residency_tenant *t = &w->tenant[i];
	uint64_t had_ns = (uint64_t)job->had_ns;

	if (!t->metered)
		return;
	if (job->kernel_ns && model_computes(w, i))
		t->busy_ns[0] = max_u64(t->busy_ns[0], had_ns / job->kernel_ns * job->kernel_ns);
	else if (job->kernel_ns || !pick(w, BILL_TICKS))
		t->busy_ns[0] = had_ns;
}

static void model_compute(struct world *w)
{
	double all = 0, share_ns = (double)TICK_NS;
	int n = 0;

	for (int i = 0; i < w->n; i++) {
		n += model_computes(w, i);
		all += model_computes(w, i) ? model_claim(w, i) : 0;
	}
	if (n > 1)
		share_ns -= share_ns * w->loses_percent / 100;
	for (int i = 0; i < w->n; i++) {
		if (!model_computes(w, i))
			continue;
		w->job[i].had_ns += share_ns * model_claim(w, i) / all;
		w->tenant[i].used_ns = w->now_ns;
	}
	for (int i = 0; i < w->n; i++)
		model_bill(w, i);
	w->used_ns += all > 0 ? (double)TICK_NS : 0;
}

static uint64_t model_part_ns(uint64_t ns, uint32_t part)
{
	return ns * part / RESIDENCY_ALL;
}

static void model_split(struct residency_tenant *t, uint64_t size)
{
	t->away[0] = max_u64(t->away[0], min_u64(size, size / RESIDENCY_ALL * t->asked + GIB / 4));
	t->here[0] = size - t->away[0];
}

static bool model_fits(const struct world *w)
{
	uint64_t bytes = 0;

	for (int i = 0; i < w->n; i++)
		bytes += w->tenant[i].here[0] +
			 (w->tenant[i].place == RESIDENCY_COMING ? w->tenant[i].away[0] : 0);
	return bytes <= w->device[0].capacity_bytes;
}

static void model_arrive(struct world *w, int i)
{
	struct residency_tenant *t = &w->tenant[i];
	struct job *job = &w->job[i];

	if (t->place == RESIDENCY_LEAVING && w->now_ns >= job->prepared_ns)
		t->leaves = true;
	if (w->now_ns < job->moves_until_ns)
		return;
	if (t->place == RESIDENCY_LEAVING) {
		t->place = RESIDENCY_AWAY;
		t->ready = true;
		model_split(t, job->size);
	} else if (t->place == RESIDENCY_COMING && model_fits(w)) {
		t->place = RESIDENCY_HERE;
		t->ready = false;
		t->here[0] = job->size;
		t->away[0] = 0;
		job->visits++;
	}
}

static void model_leave(struct world *w, struct residency_tenant *t, struct job *job)
{
	bool away = t->place == RESIDENCY_AWAY;
	uint32_t part = t->part - (away ? t->asked : 0);

	job->prepared_ns = w->now_ns;
	if (!away) {
		job->prepared_ns += pick(w, job->drain_ns + 1);
		job->waits_from_ns = job->prepared_ns + pick(w, job->late_ns + 1);
	}
	job->moves_until_ns = job->prepared_ns + model_part_ns(job->out_ns, part);
	t->leaves = away;
	t->place = RESIDENCY_LEAVING;
	t->asked = t->part;
}

static void model_obey(struct world *w, int i)
{
	struct residency_tenant *t = &w->tenant[i];
	struct job *job = &w->job[i];

	if (t->leave) {
		model_leave(w, t, job);
	} else if (t->come && t->place == RESIDENCY_AWAY) {
		t->place = RESIDENCY_COMING;
		job->moves_until_ns = w->now_ns + model_part_ns(job->back_ns, t->asked);
	}
}

static void model_tick(struct world *w)
{
	for (int i = 0; i < w->n; i++)
		model_start(w, i);
	model_compute(w);
	for (int i = 0; i < w->n; i++) {
		struct residency_tenant *t = &w->tenant[i];

		if (!t->id)
			continue;
		model_arrive(w, i);
		t->wants = t->place != RESIDENCY_HERE && t->place != RESIDENCY_COMING &&
			   w->now_ns >= w->job[i].waits_from_ns && !model_is_paused(w, &w->job[i]);
	}
	residency_step(&residency_defaults, w->tenant, w->n, w->device, w->now_ns);
	for (int i = 0; i < w->n; i++)
		if (w->tenant[i].id)
			model_obey(w, i);
	w->now_ns += TICK_NS;
}

/* --- What each had -------------------------------------------------------------------------- */

/* The longest turn for the least weight, by that weight. */
static uint64_t model_turn_ns(const struct world *w)
{
	uint64_t turn = 0, least = UINT64_MAX;

	for (int i = 0; i < w->n; i++) {
		struct residency_tenant t = {.out_ns = w->job[i].out_ns,
					     .back_ns = w->job[i].back_ns};

		turn = max_u64(turn, residency_turn_ns(&residency_defaults, &t, &t));
		least = min_u64(least, w->tenant[i].weight);
	}
	return turn / least;
}

/* A round: such a turn of each, by weight. */
static uint64_t model_round_ns(const struct world *w)
{
	uint64_t weights = 0;

	for (int i = 0; i < w->n; i++)
		weights += w->tenant[i].weight;
	return model_turn_ns(w) * weights;
}

static void model_show(const struct world *w, const double from[TENANTS])
{
	for (int i = 0; i < w->n; i++)
		printf(" [weight %u, %" PRIu64 " GiB, %" PRIu64 " + %" PRIu64 " ms: %.0f ms]",
		       w->tenant[i].weight, w->job[i].size / GIB, w->job[i].out_ns / MS,
		       w->job[i].back_ns / MS, (w->job[i].had_ns - from[i]) / (double)MS);
}

/* Over ten rounds, which may begin and end in anybody's turn. */
static void check_parts_of(struct world *w)
{
	double from[TENANTS], least = 1e30, most = 0, ns = ROUNDS * (double)model_round_ns(w);

	for (uint64_t from_ns = w->began_ns + (30000 + pick(w, 60000)) * MS; w->now_ns < from_ns;)
		model_tick(w);
	for (int i = 0; i < w->n; i++)
		from[i] = w->job[i].had_ns;
	w->used_ns = 0;
	for (uint64_t began_ns = w->now_ns; w->now_ns < began_ns + (uint64_t)ns;)
		model_tick(w);
	for (int i = 0; i < w->n; i++) {
		double part = (w->job[i].had_ns - from[i]) / w->tenant[i].weight;

		least = part < least ? part : least;
		most = part > most ? part : most;
	}
	if (verbose) {
		model_show(w, from);
		printf(" %.3f, %.1f %% of the time\n", most / least, 100 * w->used_ns / ns);
	}
	CHECK(most <= least + least / 10 + (double)model_turn_ns(w));
	/* Moving takes a part of the time, and draining. */
	CHECK(w->used_ns >= ns - ns / (TUNING_RESIDENCY_SWAPS + 1));
}

/* --- Kinds of tenants ----------------------------------------------------------------------- */

enum kind { ONE_FITS, TWO_FIT, LARGE, EQUAL_SIZES, KINDS };

static const char *const kind_names[] = {"one fits", "two fit", "a large one", "equal sizes"};

static uint64_t model_size(struct world *w, enum kind kind, int i)
{
	switch (kind) {
	case ONE_FITS:
		return (51 + pick(w, 48)) * GIB;
	case TWO_FIT:
		return (34 + pick(w, 15)) * GIB;
	case LARGE:
		return (i ? 35 + pick(w, 13) : 75 + pick(w, 23)) * GIB;
	default:
		return 60 * GIB;
	}
}

enum behaviour { STEADY, PAUSES, TAKES, LOSES, BEHAVIOURS };

static struct world *model_of(uint64_t seed, enum kind kind, enum behaviour behaviour)
{
	static const uint32_t weights[][4] = {
		{1, 1, 1, 1}, {1, 1, 1, 1}, {1000, 1000, 1000, 1000}, {3, 1, 1, 1}, {1, 2, 3, 1}};
	struct world *w = fresh(seed);
	const uint32_t *weight = weights[pick(w, 5)];
	int n = kind == TWO_FIT || kind == LARGE ? 3 + (int)pick(w, 2) : 2 + (int)pick(w, 3);

	for (int i = 0; i < n; i++)
		add(w, weight[i], model_size(w, kind, i));
	if (behaviour == TAKES) {
		w->job[pick(w, (uint64_t)n)].takes = 2 + (uint32_t)pick(w, 2);
		for (int i = 0; i < n; i++)
			w->tenant[i].metered = true;
	} else if (behaviour == LOSES) {
		w->loses_percent = 20 + (uint32_t)pick(w, 21);
		for (int i = 0; i < n; i++) {
			w->tenant[i].metered = true;
			w->job[i].kernel_ns = pick(w, 2) * (1 + pick(w, 2000)) * MS;
		}
	} else if (behaviour == PAUSES) {
		struct job *job = &w->job[pick(w, (uint64_t)n)];

		job->pause_from_ns = w->now_ns + (20000 + pick(w, 9000)) * MS;
		job->pause_to_ns = job->pause_from_ns + SECOND;
	}
	return w;
}

/* A new tenant, whose first memory has to wait for others, begins where the least of those that run is. */
static void check_comer(void)
{
	struct residency_tenant t[3] = {
		{.id = 1, .weight = 1, .place = RESIDENCY_HERE, .here = {GIB}},
		{.id = 2, .weight = 1, .place = RESIDENCY_AWAY, .away = {GIB}, .wants = true}};
	uint64_t now = 100 * SECOND, had;

	for (int i = 0; i < 2; i++)
		t[i].out_ns = t[i].back_ns = SECOND;
	for (int i = 0; i < 1000; i++, now += TICK_NS) {
		t[0].used_ns = now;
		residency_account_count(&residency_defaults, t, 3, 1, now);
	}
	t[2] = (struct residency_tenant){
		.id = 3, .weight = 1, .place = RESIDENCY_HERE, .more = {GIB}, .wants = true};
	had = t[0].served;
	CHECK(had);
	residency_account_count(&residency_defaults, t, 3, 1, now);
	CHECK(t[2].served >= had);
	/* It has its memory, and nobody's account is less for that. */
	t[2].more[0] = 0;
	t[2].here[0] = GIB;
	t[2].wants = false;
	residency_account_count(&residency_defaults, t, 3, 1, now += TICK_NS);
	CHECK(t[2].served >= had && t[0].served >= had);
}

/* How far the account of a tenant moves on that works on the second of its two devices. */
static uint64_t served_on_two_devices(bool beside)
{
	enum { TWO, ONE, COMER, ALL };
	struct residency_tenant t[ALL] = {
		[TWO] = {.id = 1, .metered = true, .here = {GIB / 1024, GIB}},
		[ONE] = {.id = beside ? 2 : 0, .metered = true, .here = {GIB}},
		[COMER] = {.id = 3, .metered = true, .wants = true, .place = RESIDENCY_AWAY,
			   .away = {0, GIB}},
	};
	uint64_t now = 100 * SECOND;

	for (int i = 0; i < 1000; i++, now += TICK_NS) {
		t[TWO].used_ns = t[ONE].used_ns = now;
		t[TWO].busy_ns[1] += TICK_NS;
		t[ONE].busy_ns[0] += TICK_NS;
		residency_account_count(&residency_defaults, t, ALL, 2, now);
	}
	return t[TWO].served;
}

/* It is no less because another tenant keeps the first device busy. */
static void check_two_devices(void)
{
	CHECK(served_on_two_devices(true) >= served_on_two_devices(false) / 20 * 19);
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 0) : 3;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	verbose = argc > 2;
	check_comer();
	check_two_devices();
	for (uint64_t seed = first; seed < first + seeds; seed++)
		for (int i = 0; i < BEHAVIOURS * KINDS; i++) {
			if (verbose)
				printf("%s, seed %" PRIu64 ":", kind_names[i / BEHAVIOURS], seed);
			check_parts_of(model_of(seed, (enum kind)(i / BEHAVIOURS),
						(enum behaviour)(i % BEHAVIOURS)));
		}
	return 0;
}
