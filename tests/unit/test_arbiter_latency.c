/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latencies: a model of one device and up to 8 tenants with loads and kernels at random. Where the
 * arbiter says that it can, no tenant waits for longer than it asked, one kernel of another and
 * 1 ms; and those that always want the device have it by their weights.
 *
 *	test_arbiter_latency [SEEDS [FIRST]]	so many draws of weights of each kind
 */
#include "sched/arbiter.h"

#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "sched/longest.h"
#include "sched/tuning.h"
#include "tests/check.h"

#define US NS_PER_US
#define MS NS_PER_MS

#define TICK_NS	  (10 * US)
#define WINDOW_NS (2 * MS)   /* in flight, but one kernel in any case */
#define BILL_NS	  (100 * US) /* until work is measured */
#define WAKE_NS	  (50 * US)  /* until the arbiter, or a tenant, wakes up */
#define SWITCH_NS (140 * US) /* the device turns to another context */
#define LEARN_NS  (2 * NS_PER_S)
#define RUN_NS	  (10 * NS_PER_S)
#define TENANTS	  8
#define KERNELS	  256 /* in flight, at most */
/* Beyond what was asked: one kernel, and this. */
#define ROOM_NS MS

enum load {
	LOAD_ENDLESS, /* it always has something to launch */
	LOAD_LOOP,    /* it waits for each kernel, and pauses for a moment */
	LOAD_CHANCE,  /* it works and pauses for some milliseconds, by chance */
	LOADS,
};

struct program {
	enum load load;
	uint64_t kernel_ns, varies_ns; /* each is that long, and up to so much more */
	uint64_t rare_ns, rare_every_ns; /* now and then one is that long; 0: none is */
	uint64_t rare_at_ns;	       /* the last such began, or is due since then */
	uint64_t longest;	       /* sched/longest.h, of what was measured */
	uint64_t next_ns;	       /* CHANCE: it begins or stops then; LOOP: it goes on */
	bool on;
	uint64_t end_ns[KERNELS], length_ns[KERNELS];
	unsigned int head, tail;
	uint64_t until_ns; /* the end of its work in flight */
	uint64_t used_ns;
	uint64_t ready_ns;    /* it has something to launch since then; 0: it has not */
	uint64_t awake_ns;    /* it has heard of its turn by then; 0: it has none */
	bool is_promised;     /* the arbiter said yes all the time since then */
	uint64_t worst_ns;    /* its longest wait while the arbiter said yes */
	uint64_t waits, said; /* of its waits: those with a yes */
};

struct device {
	struct arbiter_tenant tenant[TENANTS];
	struct program program[TENANTS];
	int n, last;
	uint64_t now_ns, step_ns, free_ns, random;
	bool learned;
};

static uint64_t device_random(struct device *d, uint64_t below)
{
	d->random ^= d->random << 13;
	d->random ^= d->random >> 7;
	d->random ^= d->random << 17;
	return below ? d->random % below : 0;
}

static bool device_is_rare(const struct program *p, uint64_t begins_ns)
{
	return p->rare_ns && begins_ns >= p->rare_at_ns + p->rare_every_ns;
}

static void device_launch(struct device *d, int i)
{
	struct program *p = &d->program[i];
	uint64_t length = p->kernel_ns + device_random(d, p->varies_ns + 1);
	uint64_t from = max_u64(d->now_ns, d->free_ns);

	if (d->last != i)
		from += SWITCH_NS;
	if (device_is_rare(p, from)) {
		length = p->rare_ns;
		p->rare_at_ns = from;
	}
	d->last = i;
	p->end_ns[p->head % KERNELS] = d->free_ns = p->until_ns = from + length;
	p->length_ns[p->head++ % KERNELS] = length;
	CHECK(p->head - p->tail < KERNELS);
	if (d->learned)
		p->used_ns += length;
}

/* The longest kernel that is rare, and began of late. */
static uint64_t device_rare_ns(const struct device *d, uint64_t now_ns)
{
	uint64_t longest = 0;

	for (int i = 0; i < d->n; i++)
		if (now_ns < d->program[i].rare_at_ns + TUNING_LONGEST_NS)
			longest = max_u64(longest, d->program[i].rare_ns);
	return longest;
}

/* A wait ends with the launch; with what the device does of others first. */
static void device_note_wait(struct device *d, int i, uint64_t begins_ns)
{
	struct program *p = &d->program[i];

	uint64_t waited_ns = begins_ns - p->ready_ns;

	if (!d->learned || !d->tenant[i].latency_ns)
		return;
	p->waits++;
	p->said += p->is_promised;
	if (p->is_promised)
		p->worst_ns = max_u64(p->worst_ns, sat_sub_u64(waited_ns, device_rare_ns(d, begins_ns)));
}

static bool device_may_launch(struct device *d, int i)
{
	struct program *p = &d->program[i];
	const struct arbiter_tenant *t = &d->tenant[i];

	if (!t->open || d->now_ns >= t->open_until_ns) {
		p->awake_ns = 0;
		return false;
	}
	if (!p->awake_ns)
		p->awake_ns = max_u64(t->open_from_ns, d->now_ns + WAKE_NS);
	return d->now_ns >= p->awake_ns;
}

static bool device_has_room(const struct device *d, const struct program *p)
{
	uint64_t window = p->load == LOAD_LOOP ? 0 : WINDOW_NS;

	return p->until_ns <= d->now_ns || (window && p->until_ns - d->now_ns < window);
}

static void device_program(struct device *d, int i)
{
	const struct arbiter_tenant *t = &d->tenant[i];
	struct program *p = &d->program[i];
	bool ready;

	if (p->load == LOAD_CHANCE && d->now_ns >= p->next_ns) {
		p->on = !p->on;
		p->next_ns = d->now_ns + MS / 2 + device_random(d, p->on ? 30 * MS : 60 * MS);
	}
	if (p->load == LOAD_LOOP && p->until_ns && d->now_ns >= p->until_ns) {
		p->next_ns = p->until_ns + 80 * US;
		p->until_ns = 0;
	}
	ready = p->load == LOAD_CHANCE ? p->on : d->now_ns >= p->next_ns;
	if (!ready || !device_has_room(d, p)) {
		p->ready_ns = 0;
		return;
	}
	/* Work behind its own on the device waits for nobody. */
	if (!p->ready_ns) {
		p->ready_ns = d->now_ns;
		p->is_promised = true;
	}
	p->is_promised &= t->latency_ns >= t->least_latency_ns;
	if (p->until_ns > d->now_ns)
		p->ready_ns = p->until_ns;
	if (!device_may_launch(d, i))
		return;
	device_note_wait(d, i, max_u64(max_u64(d->now_ns, d->free_ns), p->ready_ns));
	do
		device_launch(d, i);
	while (device_has_room(d, p));
	p->ready_ns = 0;
}

/* Answers whether the arbiter is rung. */
static bool device_tell(struct device *d, int i)
{
	struct program *p = &d->program[i];
	struct arbiter_tenant *t = &d->tenant[i];
	bool wanted = t->wants;

	for (; p->tail != p->head && p->end_ns[p->tail % KERNELS] + BILL_NS <= d->now_ns; p->tail++) {
		t->busy_ns += p->length_ns[p->tail % KERNELS];
		p->longest = longest_add(p->longest, d->now_ns, p->length_ns[p->tail % KERNELS]);
	}
	if (p->rare_ns)
		t->unit_ns = longest_ns(p->longest);
	t->done_ns = p->until_ns > d->now_ns ? p->until_ns : 0;
	t->rests = p->load == LOAD_LOOP && t->done_ns;
	t->wants = t->done_ns || p->ready_ns;
	return t->wants && !wanted;
}

static void device_run(struct device *d, uint64_t for_ns)
{
	for (uint64_t end = d->now_ns + for_ns; d->now_ns < end; d->now_ns += TICK_NS) {
		bool rung = false;

		for (int i = 0; i < d->n; i++)
			device_program(d, i);
		for (int i = 0; i < d->n; i++)
			rung |= device_tell(d, i);
		if (rung)
			d->step_ns = min_u64(d->step_ns, d->now_ns + WAKE_NS);
		if (d->now_ns >= d->step_ns)
			d->step_ns = arbiter_step(&arbiter_defaults, d->tenant, d->n, d->now_ns) +
				     device_random(d, WAKE_NS);
	}
}

static void device_add(struct device *d, enum load load, uint32_t weight, uint64_t kernel_ns,
		       uint64_t varies_ns, uint64_t latency_ns)
{
	bool is_loop = load == LOAD_LOOP;

	d->tenant[d->n] = (struct arbiter_tenant){
		.id = 1 + (uint64_t)d->n,
		.devices = 1,
		.weight = weight,
		.unit_ns = kernel_ns + varies_ns,
		.burst_ns = is_loop ? kernel_ns + varies_ns : 0,
		.latency_ns = latency_ns,
	};
	d->program[d->n++] =
		(struct program){.load = load, .kernel_ns = kernel_ns, .varies_ns = varies_ns};
}

static struct device device_of(uint64_t seed)
{
	return (struct device){.now_ns = 5 * NS_PER_S, .last = -1,
			       .random = seed * UINT64_C(88172645463325252)};
}

static struct device device_by_chance(uint64_t seed)
{
	struct device d = device_of(seed);
	int n = 1 + (int)(seed % TENANTS);

	for (int i = 0; i < n; i++) {
		uint64_t kernel_ns = 50 * US + device_random(&d, 4 * MS);
		uint64_t latency_ns = (3 + device_random(&d, 40)) * MS;
		uint64_t asks = device_random(&d, 2), varies_ns = device_random(&d, kernel_ns / 2);
		uint32_t weight = 1 + (uint32_t)device_random(&d, 4);

		device_add(&d, (enum load)device_random(&d, LOADS), weight, kernel_ns, varies_ns,
			   asks ? latency_ns : 0);
	}
	return d;
}

static uint64_t device_longest_kernel_ns(const struct device *d)
{
	uint64_t longest = 0;

	for (int i = 0; i < d->n; i++)
		longest = max_u64(longest, d->tenant[i].unit_ns);
	return longest;
}

static void device_check_waits(const struct device *d, uint64_t seed)
{
	for (int i = 0; i < d->n; i++) {
		const struct program *p = &d->program[i];
		uint64_t asked_ns = d->tenant[i].latency_ns;
		uint64_t most_ns = asked_ns + device_longest_kernel_ns(d) + ROOM_NS;

		if (p->worst_ns > most_ns)
			fprintf(stderr, "seed %llu, tenant %d of %d asked %llu us, waited %llu\n",
				(unsigned long long)seed, i, d->n,
				(unsigned long long)(asked_ns / US),
				(unsigned long long)(p->worst_ns / US));
		CHECK(p->worst_ns <= most_ns);
	}
}

/* Any loads and kernels, and latencies of which some cannot be kept. */
static void check_waits(void)
{
	uint64_t said = 0, waits = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct device d = device_by_chance(seed);

		device_run(&d, LEARN_NS);
		d.learned = true;
		device_run(&d, RUN_NS / 4);
		device_check_waits(&d, seed);
		for (int i = 0; i < d.n; i++) {
			said += d.program[i].said;
			waits += d.program[i].waits;
		}
	}
	/* It is asked for what can be had, and for more. */
	CHECK(said > waits / 5 * 2 && said < waits / 5 * 4);
}

/* Tenants that always want the device: some for a latency, which takes nothing from the others. */
static struct device device_that_is_wanted(uint64_t seed)
{
	struct device d = device_of(seed);

	for (int i = 0; i < 2 + (int)(seed % (TENANTS - 1)); i++) {
		uint64_t latency_ns = i % 2 ? (5 + device_random(&d, 50)) * MS : 0;
		uint64_t kernel_ns = 50 * US + device_random(&d, 4 * MS);

		device_add(&d, LOAD_ENDLESS, 1 + (uint32_t)device_random(&d, 4), kernel_ns, 0,
			   latency_ns);
	}
	return d;
}

/* Two or three that are about the same, of which most ask: one goes before the others each time. */
static struct device device_of_equals(uint64_t seed)
{
	struct device d = device_of(seed);
	uint64_t base_ns = MS / 2 + device_random(&d, 5 * MS);
	enum load load = device_random(&d, 2) ? LOAD_ENDLESS : LOAD_LOOP;

	for (int i = 0; i < 2 + (int)(seed % 2); i++) {
		uint64_t latency_ns = (3 + device_random(&d, 20)) * MS;
		uint64_t kernel_ns = base_ns + device_random(&d, base_ns / 20);
		uint64_t varies_ns = device_random(&d, base_ns / 10);
		uint32_t weight = 1 + (device_random(&d, 4) == 0);

		device_add(&d, load, weight, kernel_ns, varies_ns,
			   !i || device_random(&d, 2) ? latency_ns : 0);
	}
	return d;
}

static void device_check_weights(const struct device *d, uint64_t seed)
{
	uint64_t weight = 0, used = 0;

	for (int i = 0; i < d->n; i++) {
		weight += d->tenant[i].weight;
		used += d->program[i].used_ns;
	}
	for (int i = 0; i < d->n; i++) {
		int got = (int)(d->program[i].used_ns * 1000 / used);
		int wanted = (int)(d->tenant[i].weight * 1000 / weight);

		if (abs(got - wanted) > 10)
			fprintf(stderr, "seed %llu, tenant %d of %d: %d, wanted %d\n",
				(unsigned long long)seed, i, d->n, got, wanted);
		CHECK(abs(got - wanted) <= 10);
	}
}

static void check_weights_of(struct device d, uint64_t seed)
{
	device_run(&d, LEARN_NS);
	d.learned = true;
	device_run(&d, RUN_NS);
	device_check_waits(&d, seed);
	device_check_weights(&d, seed);
}

static void check_weights(uint64_t first, uint64_t seeds)
{
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		check_weights_of(device_that_is_wanted(seed), seed);
		check_weights_of(device_of_equals(seed), seed);
	}
}

/* In these one tenant went before the others for its latency more often than its weight allows. */
static void check_goes_before(void)
{
	static const uint64_t wanted[] = {507, 1150, 1787, 1980, 1985, 2970},
			      equals[] = {147, 203, 226, 274, 315, 435, 453, 456};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		check_weights_of(device_that_is_wanted(wanted[i]), wanted[i]);
	for (size_t i = 0; i < sizeof(equals) / sizeof(*equals); i++)
		check_weights_of(device_of_equals(equals[i]), equals[i]);
}

/* Beside kernels of 10 ms no 5 ms can be had. */
static void check_says_no(void)
{
	struct device d = device_of(1);

	device_add(&d, LOAD_ENDLESS, 1, 10 * MS, 0, 0);
	device_add(&d, LOAD_ENDLESS, 1, 100 * US, 0, 5 * MS);
	device_add(&d, LOAD_ENDLESS, 1, 100 * US, 0, 30 * MS);
	device_run(&d, LEARN_NS);
	CHECK(d.tenant[1].least_latency_ns > 10 * MS && d.tenant[1].least_latency_ns < 20 * MS);
	CHECK(d.tenant[2].least_latency_ns < 30 * MS);
	d.learned = true;
	device_run(&d, NS_PER_S);
	CHECK(!d.program[1].said && d.program[2].said);
	/* Nothing is said beside a higher priority, or beside turns on other devices. */
	d.tenant[0].priority = 1;
	device_run(&d, 10 * MS);
	CHECK(d.tenant[2].least_latency_ns == UINT64_MAX);
	d.tenant[0].priority = 0;
	d.tenant[0].devices = 3;
	device_run(&d, 10 * MS);
	CHECK(d.tenant[2].least_latency_ns == UINT64_MAX);
}

/* A kernel that was long once says nothing of what can be had when it was not seen for some time. */
static void check_forgets(void)
{
	struct device d = device_of(1);

	device_add(&d, LOAD_ENDLESS, 1, 100 * US, 0, 0);
	device_add(&d, LOAD_ENDLESS, 1, 100 * US, 0, 8 * MS);
	d.program[0].rare_ns = 40 * MS;
	d.program[0].rare_every_ns = 1000 * NS_PER_S;
	d.program[0].rare_at_ns = d.now_ns - d.program[0].rare_every_ns;
	device_run(&d, NS_PER_S);
	CHECK(d.tenant[1].least_latency_ns > 40 * MS);
	device_run(&d, TUNING_LONGEST_NS - 2 * NS_PER_S);
	CHECK(d.tenant[1].least_latency_ns > 40 * MS);
	device_run(&d, TUNING_LONGEST_NS + 2 * NS_PER_S);
	CHECK(d.tenant[1].least_latency_ns < 8 * MS);
}

/* A kernel that comes back after that makes one wait longer, and not more than by itself. */
static void check_rare(uint64_t seeds)
{
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct device d = device_that_is_wanted(seed);
		struct program *p = &d.program[seed / 2 % (uint64_t)d.n];

		p->rare_ns = (4 + device_random(&d, 40)) * MS;
		p->rare_every_ns = (500 + device_random(&d, 40000)) * MS;
		device_run(&d, LEARN_NS);
		d.learned = true;
		device_run(&d, 40 * NS_PER_S);
		device_check_waits(&d, seed);
	}
}

/* How long the turns of a tenant are beside one of which a turn is to be that long. */
static uint64_t turn_beside(uint64_t slice_ns, uint64_t own_ns)
{
	struct device d = device_of(1);

	device_add(&d, LOAD_ENDLESS, 1, 100 * US, 0, 0);
	device_add(&d, LOAD_ENDLESS, 1, 100 * US, 0, 0);
	d.tenant[0].slice_ns = slice_ns;
	d.tenant[1].slice_ns = own_ns;
	device_run(&d, LEARN_NS);
	return d.tenant[1].turn.slice_ns;
}

/* A tenant that asks for short turns shortens nobody else's: a site says how much --latency may do so. */
static void check_slices(void)
{
	CHECK_EQ(turn_beside(2 * MS, 0), turn_beside(0, 0));
	CHECK_EQ(turn_beside(2 * MS, 48 * MS), turn_beside(arbiter_defaults.slice_ns, 48 * MS));
	CHECK_EQ(turn_beside(4 * MS, 4 * MS), 4 * MS);
	CHECK_EQ(turn_beside(48 * MS, 48 * MS), 48 * MS);
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 0) : 10;

	check_waits();
	check_weights(argc > 2 ? strtoull(argv[2], NULL, 0) : 1, seeds);
	check_goes_before();
	check_says_no();
	check_forgets();
	check_rare(seeds);
	check_slices();
	return 0;
}
