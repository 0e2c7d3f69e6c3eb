/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Duty cycles, driven by a model of a GPU: what is on and has work works, to switch a queue takes
 * time, and who steps is late. No clock is read.
 */
#include <string.h>

#include "amd/duty.h"
#include "base/now.h"
#include "tests/check.h"

#define US NS_PER_US
#define MS NS_PER_MS
#define SECOND (1000 * MS)

#define SWITCH_NS (2 * MS) /* to switch a queue, at most */
#define LATE_NS	  (3 * MS) /* that a step is late, at most */

static uint64_t seed = 1;

static uint64_t below(uint64_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % n;
}

struct tenant {
	struct share_params params;
	struct duty_queue queue;
	uint64_t hot, now_ns, billed_ns;
	uint64_t on_ns; /* that it had work and was on the hardware */
	uint32_t switches;
};

static struct tenant tenant_of(uint32_t permille)
{
	return (struct tenant){
		.params = {.share_permille = permille, .slice_ns = DUTY_SLICE_NS},
		.queue = {.wanted = {.queue_id = 3, .queue_percentage = 100}, .told = 100},
		.now_ns = SECOND,
		.billed_ns = SECOND,
	};
}

static void pass(struct tenant *t, uint64_t ns, bool works)
{
	t->now_ns += ns;
	t->on_ns += works && t->queue.told ? ns : 0;
}

/* Until then, with work or without. */
static void run(struct tenant *t, uint64_t until_ns, bool works)
{
	while (t->now_ns < until_ns) {
		bool worked = works && t->queue.told;
		struct duty_answer answer =
			duty_step(&controller_deficit, &t->params, t->hot, t->billed_ns,
				  worked ? t->now_ns : t->billed_ns, t->now_ns);
		struct kfd_ioctl_update_queue_args args;

		t->hot = answer.hot;
		t->billed_ns = t->now_ns;
		CHECK(answer.next_ns > t->now_ns && answer.next_ns <= t->now_ns + DUTY_LOOK_NS);
		if (duty_queue_update(&t->queue, answer.open, &args)) {
			uint64_t took_ns = below(SWITCH_NS);

			CHECK_EQ(args.queue_percentage, answer.open ? 100 : 0);
			CHECK_EQ(args.queue_id, 3);
			pass(t, took_ns, works); /* what was on still works, and is billed */
			if (works && t->queue.told)
				t->hot = controller_deficit.bill(t->hot, &t->params, t->billed_ns,
								 t->now_ns);
			t->billed_ns = t->now_ns;
			t->queue.told = args.queue_percentage;
			t->switches++;
		}
		if (answer.next_ns > t->now_ns)
			pass(t, answer.next_ns - t->now_ns, works);
		pass(t, below(LATE_NS), works);
	}
}

/* Over 10 s a tenant that always has work gets its part of the time, within a point. */
static void test_shares(void)
{
	static const uint32_t permille[] = {10, 110, 300, 500, 700, 900, 990};

	for (size_t i = 0; i < sizeof(permille) / sizeof(permille[0]); i++) {
		struct tenant t = tenant_of(permille[i]);
		int64_t part;

		run(&t, t.now_ns + 10 * SECOND, true);
		part = (int64_t)(t.on_ns * 1000 / (t.now_ns - SECOND));
		printf("%u permille: %lld, switched %u times\n", permille[i], (long long)part,
		       t.switches);
		CHECK(part > (int64_t)permille[i] - 10 && part < (int64_t)permille[i] + 10);
		CHECK(t.switches <= 2 * 10 * SECOND / DUTY_SLICE_NS + 2);
	}
}

static void test_all(void)
{
	struct tenant t = tenant_of(1000);

	run(&t, t.now_ns + SECOND, true);
	CHECK_EQ(t.on_ns, t.now_ns - SECOND);
	CHECK_EQ(t.switches, 0);
}

/* Who had nothing to do is not stopped, and has saved no more than about a slice. */
static void test_idle(void)
{
	struct tenant t = tenant_of(300);
	uint64_t before_ns;

	run(&t, 10 * SECOND, false);
	CHECK_EQ(t.switches, 0);
	before_ns = t.on_ns;
	run(&t, t.now_ns + SECOND, true);
	CHECK(t.on_ns - before_ns < 340 * MS);
	CHECK(t.on_ns - before_ns > 270 * MS);
}

/* Another share counts from the next look on. */
static void test_change(void)
{
	struct tenant t = tenant_of(100);
	uint64_t before_ns, from_ns;

	run(&t, 5 * SECOND, true);
	t.params.share_permille = 800;
	run(&t, t.now_ns + 100 * MS, true);
	before_ns = t.on_ns;
	from_ns = t.now_ns;
	run(&t, t.now_ns + SECOND, true);
	CHECK((t.on_ns - before_ns) * 1000 / (t.now_ns - from_ns) > 750);
}

static void test_queue(void)
{
	const struct kfd_ioctl_update_queue_args wanted = {
		.ring_base_address = 0x1000, .queue_id = 7, .ring_size = 4096,
		.queue_percentage = 0x264, .queue_priority = 11};
	struct duty_queue q = {.wanted = wanted, .told = 0x264};
	struct kfd_ioctl_update_queue_args args = {0}, expected = wanted;

	CHECK(!duty_queue_update(&q, true, &args));
	CHECK(duty_queue_update(&q, false, &args));
	expected.queue_percentage = 0x200; /* the XCC stays */
	CHECK(!memcmp(&args, &expected, sizeof(args)));
	CHECK(duty_queue_update(&q, false, &args)); /* until the kernel has done it */
	q.told = args.queue_percentage;
	CHECK(!duty_queue_update(&q, false, &args));
	CHECK(duty_queue_update(&q, true, &args));
	CHECK(!memcmp(&args, &wanted, sizeof(args)));
	/* Off by the program's own wish, made while it is off by ours. */
	q.wanted.queue_percentage = 0;
	q.told = 0;
	CHECK(!duty_queue_update(&q, true, &args));
	CHECK(!duty_queue_update(&q, false, &args));
	CHECK_EQ(duty_percentage(100, false), 0);
	CHECK_EQ(duty_percentage(37, true), 37);
}

/* Any word, any times: an answer, and one to ask again after. */
static void test_damage(void)
{
	static const struct controller *const all[] = {&controller_deficit, &controller_bucket,
						       &controller_pid};

	for (int i = 0; i < 100000; i++) {
		struct share_params params = {.share_permille = (uint32_t)below(1200),
					      .slice_ns = below(2) ? DUTY_SLICE_NS : below(SECOND)};
		uint64_t now_ns = below(1u << 31) * below(1u << 20);
		struct duty_answer answer = duty_step(
			all[below(3)], &params, below(UINT32_MAX) << 32 ^ below(UINT32_MAX) << 7,
			below(2) ? now_ns / 2 : UINT64_MAX, now_ns, now_ns);

		CHECK(answer.next_ns >= now_ns + DUTY_PAUSE_NS);
		CHECK(answer.next_ns <= now_ns + DUTY_LOOK_NS);
	}
}

int main(void)
{
	test_shares();
	test_all();
	test_idle();
	test_change();
	test_queue();
	test_damage();
	return 0;
}
