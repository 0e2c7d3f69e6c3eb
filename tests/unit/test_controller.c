/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers, driven by a model: a device does kernels one after the other, they are measured some
 * time after they ended, little is in flight, and who was held wakes up late. No clock is read.
 */
#include "sched/controller.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/now.h"
#include "tests/check.h"

#define US NS_PER_US
#define MS NS_PER_MS
#define SECOND (1000 * MS)

#define SLICE_NS    (4 * MS)
#define BOUND_NS    (2 * MS)   /* in flight */
#define BILL_NS	    (300 * US) /* until work is measured */
#define LAUNCH_NS   (3 * US)   /* that a launch takes */
#define JITTER_NS   (200 * US) /* until who was held wakes up */
#define LATE_NS	    (5 * MS)   /* and so late now and then */
#define SLACK_NS    (10 * MS)  /* the deficit controller's own */
#define DEBT_MAX_NS (1000 * SECOND)
#define SAMPLE_NS   (SECOND / 5) /* of NVML's utilisation */

#define KERNELS 256 /* in flight or not measured yet, at most */

struct model {
	const struct controller *controller;
	struct share_params params;
	uint64_t hot, cold[CONTROLLER_COLD];
	uint64_t random;
	uint64_t kernel_ns, blocks;
	bool idle; /* the program has nothing to do */

	uint64_t now_ns, try_ns, queue_ns; /* the device has work until queue_ns */
	uint64_t used_ns;		   /* by what ended or will end */
	struct {
		uint64_t from_ns, to_ns;
	} kernel[KERNELS];
	unsigned int head, tail;
	uint64_t tick_ns, sample_ns, sampled_ns;
	unsigned int percent, last_percent; /* of the two last samples; of one */

	/* Between the first and the last time that a hold ended, all being measured: whole periods.
	 */
	bool held;
	unsigned int holds;
	uint64_t first_ns, first_used_ns, last_ns, last_used_ns;

	/* Used beyond the share: now, the least before, and the most over any time. */
	double excess, least, over;
	uint64_t excess_ns;
};

static struct model model;

static uint64_t next_random(struct model *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

static struct model *fresh(const struct controller *controller, uint32_t permille,
			   uint64_t kernel_ns)
{
	model = (struct model){
		.controller = controller,
		.params = {.share_permille = permille, .slice_ns = SLICE_NS, .blocks = 2112},
		.random = UINT64_C(88172645463325252),
		.kernel_ns = kernel_ns,
		.blocks = 2112,
		.now_ns = 5 * SECOND,
		.queue_ns = 5 * SECOND,
		.excess_ns = 5 * SECOND,
	};
	return &model;
}

/* The device worked or not until an instant. */
static void exceed(struct model *m, uint64_t until_ns, bool busy)
{
	double time = (double)until_ns - (double)m->excess_ns;

	m->excess += time * (busy ? 1 : 0) - time * m->params.share_permille / 1000;
	m->excess_ns = until_ns;
	m->least = m->excess < m->least ? m->excess : m->least;
	m->over = m->excess - m->least > m->over ? m->excess - m->least : m->over;
}

static void launch(struct model *m)
{
	uint64_t from = m->now_ns > m->queue_ns ? m->now_ns : m->queue_ns;

	CHECK(m->head - m->tail < KERNELS);
	if (m->held && m->head == m->tail) {
		m->last_ns = from;
		m->last_used_ns = m->used_ns;
		if (!m->first_ns) {
			m->first_ns = m->last_ns;
			m->first_used_ns = m->last_used_ns;
		}
	}
	exceed(m, from, false);
	m->queue_ns = from + m->kernel_ns;
	exceed(m, m->queue_ns, true);
	m->kernel[m->head % KERNELS].from_ns = from;
	m->kernel[m->head++ % KERNELS].to_ns = m->queue_ns;
	m->held = false;
	m->used_ns += m->kernel_ns;
	m->try_ns = m->now_ns + LAUNCH_NS;
}

/* Work done until now, in truth. */
static uint64_t done_ns(const struct model *m)
{
	return m->used_ns - (m->queue_ns > m->now_ns ? m->queue_ns - m->now_ns : 0);
}

static void measure(struct model *m)
{
	while (m->tail != m->head && m->kernel[m->tail % KERNELS].to_ns + BILL_NS <= m->now_ns) {
		m->hot = m->controller->bill(m->hot, &m->params,
					     m->kernel[m->tail % KERNELS].from_ns,
					     m->kernel[m->tail % KERNELS].to_ns);
		m->tail++;
	}
}

static void tick(struct model *m)
{
	if (m->now_ns >= m->sample_ns) {
		uint64_t busy = done_ns(m) - m->sampled_ns;

		unsigned int percent = (unsigned int)(busy * 100 / SAMPLE_NS);

		percent = percent > 100 ? 100 : percent;
		m->percent = (m->last_percent + percent) / 2;
		m->last_percent = percent;
		m->sampled_ns += busy;
		m->sample_ns = m->now_ns + SAMPLE_NS;
	}
	if (m->controller->tick_ns && m->now_ns >= m->tick_ns) {
		m->controller->steer(m->cold, &m->params, m->now_ns, m->percent);
		m->hot = m->controller->refill(m->hot, m->cold, &m->params, m->now_ns);
		m->tick_ns = m->now_ns + m->controller->tick_ns;
	}
}

static void try_launch(struct model *m)
{
	uint64_t until;

	if (m->queue_ns >= m->now_ns + BOUND_NS) {
		m->try_ns = m->queue_ns - BOUND_NS + 1;
		return;
	}
	until = m->controller->admit(m->hot, &m->params, m->now_ns, m->blocks, &m->hot);
	if (!until) {
		launch(m);
		return;
	}
	CHECK(until > m->now_ns);
	m->holds += !m->held;
	m->held = true;
	m->try_ns = until + next_random(m) % JITTER_NS;
	if (next_random(m) % 64 == 0)
		m->try_ns += LATE_NS;
}

static void run(struct model *m, uint64_t for_ns)
{
	uint64_t end = m->now_ns + for_ns, next;

	while (m->now_ns < end) {
		measure(m);
		tick(m);
		if (!m->idle && m->now_ns >= m->try_ns)
			try_launch(m);
		next = m->idle || m->try_ns > end ? end : m->try_ns;
		if (m->tail != m->head && m->kernel[m->tail % KERNELS].to_ns + BILL_NS < next)
			next = m->kernel[m->tail % KERNELS].to_ns + BILL_NS;
		if (m->controller->tick_ns && m->now_ns + MS < next)
			next = m->now_ns + MS;
		m->now_ns = next > m->now_ns ? next : m->now_ns + 1;
	}
	if (m->queue_ns < m->now_ns)
		exceed(m, m->now_ns, false);
}

static void set_share(struct model *m, uint32_t permille)
{
	m->params.share_permille = permille;
	m->try_ns = m->now_ns; /* a change wakes who is held */
}

/* In hundredths of a percent, over the next so many nanoseconds. */
static int achieved(struct model *m, uint64_t for_ns)
{
	uint64_t before = done_ns(m);

	run(m, for_ns);
	return (int)((done_ns(m) - before) * 10000 / for_ns);
}

static void check_near(int got, int wanted, int room)
{
	if (abs(got - wanted) > room)
		fprintf(stderr, "got %d, wanted %d +- %d\n", got, wanted, room);
	CHECK(abs(got - wanted) <= room);
}

static const uint32_t shares[] = {100, 250, 500, 750, 900, 1000};

/* Any share, any kernel: half a point over ten seconds; whole periods, where there are some. */
static void check_accuracy(void)
{
	static const uint64_t kernels[] = {50 * US, 100 * US, 1 * MS, 10 * MS, 100 * MS};

	for (size_t i = 0; i < 6; i++) {
		for (size_t j = 0; j < 5; j++) {
			struct model *m = fresh(&controller_deficit, shares[i], kernels[j]);
			int got;

			run(m, SECOND);
			m->first_ns = 0;
			got = achieved(m, 10 * SECOND);
			if (shares[i] < 1000)
				got = (int)((m->last_used_ns - m->first_used_ns) * 10000 /
					    (m->last_ns - m->first_ns));
			check_near(got, (int)shares[i] * 10, 50);
		}
	}
}

/* Every second by itself, for kernels that leave room for it. */
static void check_windows(void)
{
	for (size_t i = 0; i < 6; i++) {
		struct model *m = fresh(&controller_deficit, shares[i], 1 * MS);

		for (int j = 0; j < 20; j++)
			check_near(achieved(m, SECOND), (int)shares[i] * 10, 150);
	}
}

static void check_step(void)
{
	struct model *m = fresh(&controller_deficit, 100, 1 * MS);

	for (int i = 0; i < 10; i++) {
		run(m, SECOND + next_random(m) % (100 * MS));
		set_share(m, 900);
		check_near(achieved(m, SECOND), 9000, 200);
		run(m, next_random(m) % (100 * MS));
		set_share(m, 100);
		check_near(achieved(m, SECOND), 1000, 200);
	}
	/* A debt of seconds at a hundredth is one of a moment at all of it but a tenth. */
	m = fresh(&controller_deficit, 10, 100 * MS);
	run(m, SECOND);
	CHECK(m->controller->debt_ns(m->hot, &m->params, m->now_ns) > (int64_t)(80 * MS));
	CHECK_EQ(m->head, 2);
	set_share(m, 900);
	run(m, 300 * MS);
	CHECK(m->head > 2);
}

/* Idleness is worth a slice, and no more however long it was. */
static void check_no_wind_up(void)
{
	const uint64_t most_ns = CONTROLLER_LONG_SLICE_NS + BOUND_NS + 2 * MS;

	for (size_t i = 0; i < 6; i++) {
		struct model *m = fresh(&controller_deficit, shares[i], 1 * MS);

		run(m, SECOND);
		m->idle = true;
		run(m, 10 * SECOND);
		m->idle = false;
		m->try_ns = m->now_ns;
		CHECK(achieved(m, SECOND) <=
		      (int)shares[i] * 10 + (int)(most_ns / (SECOND / 10000)));
	}
}

static int credit_of(uint64_t slice_ns, uint32_t share)
{
	return (int)((slice_ns * (1000 - share) + SLACK_NS * share) / 1000);
}

/*
 * A tenant that has done nothing may work for a slice, and what a late wake-up costs, at once; for
 * the longest that there is when it was idle.
 */
static void check_credit(void)
{
	for (size_t i = 0; i < 6; i++) {
		struct model *m = fresh(&controller_deficit, shares[i], 1 * MS);

		check_near((int)m->controller->debt_ns(0, &m->params, m->now_ns),
			   -credit_of(SLICE_NS, shares[i]), 1);
		run(m, SECOND);
		m->now_ns += 1000 * SECOND;
		check_near((int)m->controller->debt_ns(m->hot, &m->params, m->now_ns),
			   -credit_of(CONTROLLER_LONG_SLICE_NS, shares[i]), 1);
	}
}

/* What was saved for a long slice is there after a look that is for a short one. */
static void check_two_slices(void)
{
	struct model *m = fresh(&controller_deficit, 250, 1 * MS);
	struct share_params wide = m->params;
	uint64_t hot = 0, until;

	wide.slice_ns = CONTROLLER_LONG_SLICE_NS;
	hot = controller_deficit.bill(hot, &wide, m->now_ns, m->now_ns + 100 * MS);
	until = controller_deficit.admit(hot, &wide, m->now_ns, 1, &hot);
	CHECK(until);
	hot = controller_deficit.bill(hot, &m->params, until - 1, until - 1);
	CHECK(!controller_deficit.admit(hot, &wide, until, 1, &hot));
	check_near((int)controller_deficit.debt_ns(hot, &wide, until),
		   -(int)(CONTROLLER_LONG_SLICE_NS * 3 / 4), 1000);
}

/* It works for a slice and pauses, not for a kernel: each pause drains the device. */
static void check_slices(void)
{
	for (size_t i = 0; i < 3; i++) {
		struct model *m = fresh(&controller_deficit, shares[i], 100 * US);

		run(m, SECOND);
		CHECK(m->holds > 10);
		CHECK(m->holds <= SECOND / SLICE_NS * shares[i] / 1000 + 5);
	}
}

/* All of the device's time is never held, whatever was owed before. */
static void check_all(void)
{
	struct model *m = fresh(&controller_deficit, 10, 100 * MS);

	run(m, SECOND);
	CHECK(controller_deficit.admit(m->hot, &m->params, m->now_ns, 1, &m->hot));
	m->params.share_permille = 1000;
	CHECK(!controller_deficit.admit(m->hot, &m->params, m->now_ns, 1, &m->hot));
	CHECK(controller_deficit.debt_ns(m->hot, &m->params, m->now_ns) <= 0);
	for (int i = 0; i < 1000; i++) {
		m->hot = controller_deficit.bill(m->hot, &m->params, m->now_ns, m->now_ns + MS);
		m->now_ns += next_random(m) % MS; /* even work that is billed ahead of the clock */
		CHECK(!controller_deficit.admit(m->hot, &m->params, m->now_ns, 1, &m->hot));
	}
}

/* While something is owed the order of bills does not matter, nor do many small ones. */
static void check_order(void)
{
	struct model *m = fresh(&controller_deficit, 250, 1 * MS);
	uint64_t at = m->now_ns, forth = 0, back = 0, parts = 0, word;

	CHECK(!controller_deficit.admit(0, &m->params, at, 1, &word));
	forth = back = parts = word;
	for (uint64_t i = 0; i < 50; i++) {
		uint64_t j = i < 25 ? i : 74 - i;

		forth = controller_deficit.bill(forth, &m->params, at + i * MS, at + (i + 1) * MS);
		back = controller_deficit.bill(back, &m->params, at + j * MS, at + (j + 1) * MS);
	}
	for (uint64_t i = 0; i < 5000; i++)
		parts = controller_deficit.bill(parts, &m->params, at + i * 10 * US,
						at + (i + 1) * 10 * US);
	at += 50 * MS;
	check_near((int)controller_deficit.debt_ns(forth, &m->params, at), 32000000, 2000);
	check_near((int)controller_deficit.debt_ns(back, &m->params, at), 32000000, 2000);
	check_near((int)controller_deficit.debt_ns(parts, &m->params, at), 32000000, 20000);
	/* What ends before it begins is nothing. */
	CHECK_EQ(controller_deficit.bill(forth, &m->params, at, at - 1), forth);
}

/* The word's instants wrap around after two years of uptime. */
static void check_wrap(void)
{
	struct model *m = fresh(&controller_deficit, 250, 1 * MS);

	m->now_ns = m->queue_ns = m->excess_ns = (UINT64_C(1) << 56) - 500 * MS;
	check_near(achieved(m, SECOND), 2500, 200);
	m = fresh(&controller_deficit, 250, 1 * MS);
	m->now_ns = m->queue_ns = m->excess_ns = 1 * MS;
	check_near(achieved(m, SECOND), 2500, 200);
}

static void shake(struct model *m)
{
	switch (next_random(m) % 4) {
	case 0:
		m->idle = !m->idle;
		m->try_ns = m->now_ns;
		break;
	case 1:
		m->kernel_ns = 20 * US << next_random(m) % 10;
		break;
	case 2:
		set_share(m, 1 + (uint32_t)(next_random(m) % 1000));
		break;
	default:
		break;
	}
}

/*
 * Over any time: never more than the share of it, the credit, and what cannot be taken back; and,
 * when there is enough to do, not less than it and a late wake-up more.
 */
static void check_random(void)
{
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct model *m = fresh(&controller_deficit, 1 + (uint32_t)(seed * 7 % 1000), MS);
		double longest = 20e3 * 512, room;

		m->random *= seed;
		for (int i = 0; i < 20; i++) {
			shake(m);
			run(m, next_random(m) % (50 * MS));
		}
		room = (double)(CONTROLLER_LONG_SLICE_NS + SLACK_NS + BOUND_NS + BILL_NS) +
		       2 * longest;
		CHECK(m->over <= room);
		m->idle = false;
		m->try_ns = m->now_ns;
		m->kernel_ns = 1 * MS;
		if (m->params.share_permille < 50)
			set_share(m, 50);
		/* What is owed from before comes first. */
		run(m, (uint64_t)(2 * longest) * 1000 / m->params.share_permille + 100 * MS);
		check_near(achieved(m, SECOND), (int)m->params.share_permille * 10, 200);
	}
}

/* A word or parameters that make no sense: decided as if fresh, or held for a bounded time. */
static void check_damage(void)
{
	for (int id = 0; id < CONTROLLERS; id++) {
		struct model *m = fresh(controller_by_id((uint32_t)id), 500, MS);
		const struct controller *c = m->controller;

		for (int i = 0; i < 100000; i++) {
			uint64_t hot = next_random(m), out, until, now = next_random(m) >> 2;

			if (i % 2) /* near to now, as the deficit controller sees it */
				hot = (now / 8 + next_random(m) % (300 * SECOND)) << 11 |
				      hot % 2048;
			m->params.share_permille = (uint32_t)(next_random(m) % 1100);
			m->params.slice_ns = i % 4 ? SLICE_NS : next_random(m);
			m->params.blocks = i % 3 ? 2112 : next_random(m);
			for (int j = 0; j < CONTROLLER_COLD; j++)
				m->cold[j] = next_random(m);
			hot = c->bill(hot, &m->params, next_random(m), next_random(m));
			if (c->steer) {
				c->steer(m->cold, &m->params, now, (unsigned int)(i % 200));
				hot = c->refill(hot, m->cold, &m->params, now);
			}
			if (c->debt_ns)
				c->debt_ns(hot, &m->params, now);
			if (c->tokens)
				CHECK(c->tokens(hot, &m->params, now) <= 1000 * SECOND);
			until = c->admit(hot, &m->params, now, next_random(m), &out);
			CHECK(!until || until > now);
			CHECK(!until || until - now <= 2 * DEBT_MAX_NS);
		}
		/* And it recovers: the debts that a damaged word can claim are bounded. */
		for (int i = 0; i < 20; i++) {
			m = fresh(c, 500, MS);
			m->random += (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
			m->hot = next_random(m);
			for (int j = 0; j < CONTROLLER_COLD; j++)
				m->cold[j] = next_random(m);
			for (int j = 0; j < 20 && !m->head; j++)
				run(m, 10 * SECOND);
			CHECK(m->head > 0);
		}
	}
}

/* Those that follow NVML's utilisation come near to the share, in their own time. */
static void check_followers(void)
{
	static const struct controller *const followers[] = {&controller_bucket, &controller_pid};
	static const uint64_t kernels[] = {100 * US, 1 * MS, 10 * MS};

	for (size_t i = 0; i < 2; i++) {
		for (size_t j = 0; j < 3; j++) {
			for (size_t k = 0; k < 6; k++) {
				struct model *m = fresh(followers[i], shares[k], kernels[j]);

				run(m, 20 * SECOND);
				check_near(achieved(m, 5 * SECOND), (int)shares[k] * 10, 2500);
			}
		}
	}
	/* A bound on both sides, where it can be missed on both. */
	for (size_t i = 0; i < 2; i++) {
		struct model *m = fresh(followers[i], 500, 1 * MS);

		run(m, 20 * SECOND);
		check_near(achieved(m, 5 * SECOND), 5000, 1000);
		set_share(m, 250);
		run(m, 10 * SECOND);
		check_near(achieved(m, 5 * SECOND), 2500, 1000);
	}
}

static void check_names(void)
{
	enum controller_id id = CONTROLLERS;

	CHECK_EQ(controller_parse("pdi", &id), -EINVAL);
	CHECK_EQ(id, CONTROLLERS);
	CHECK_EQ(controller_parse("", &id), -EINVAL);
	CHECK(controller_by_id(CONTROLLERS) == &controller_deficit);
	CHECK(controller_by_id(UINT32_MAX) == &controller_deficit);
	for (uint32_t i = 0; i < CONTROLLERS; i++) {
		CHECK_EQ(controller_parse(controller_by_id(i)->name, &id), 0);
		CHECK_EQ(id, i);
		CHECK_EQ(controller_by_id(i)->id, i);
		CHECK(!controller_by_id(i)->tick_ns == !controller_by_id(i)->steer);
	}
}

int main(void)
{
	check_names();
	check_accuracy();
	check_windows();
	check_step();
	check_no_wind_up();
	check_credit();
	check_two_slices();
	check_slices();
	check_all();
	check_order();
	check_wrap();
	check_random();
	check_damage();
	check_followers();
	return 0;
}
