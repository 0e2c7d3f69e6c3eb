/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-flight window: what is expected of work in flight, from what was launched, found done and
 * found late. Most cases tell it by hand; where it asks the device, that is a fake one.
 */
#include <errno.h>

#include "base/now.h"
#include "guest/launch/state.h"
#include "guest/launch/window.h"
#include "guest/meter/meter.h"
#include "ledger/device_time.h"
#include "ledger/turn.h"
#include "sched/tuning.h"
#include "tests/unit/fake_driver.h"

#define US NS_PER_US
#define MS NS_PER_MS

#define S1  FAKE_STREAM(1)
#define KEY 4711

static struct guest guest;
static struct launch_device *device;
static struct window *window;
static struct meter *meter;
static uint64_t now; /* of this case */

static struct stream *stream_at(int i)
{
	return &meter->stream[i];
}

/* Nothing is in flight; `streams` of them were used before. */
static void begin(uint32_t streams)
{
	fake_pass(10000 * MS);
	now = fake.now_ns;
	device = fake_launch_device(&guest);
	window = &device->window;
	meter = &device->meter;
	meter->nstreams = streams;
	for (uint32_t i = 0; i < streams; i++) {
		stream_at((int)i)->context = fake.context;
		stream_at((int)i)->key = (uint64_t)(uintptr_t)FAKE_STREAM(i);
	}
}

static struct launch launch_at(CUstream stream, uint64_t at_ns, uint64_t expected_ns)
{
	return (struct launch){
		.stream = stream,
		.meter = meter,
		.key = KEY,
		.context = fake.context,
		.stream_key = launch_stream_key(stream),
		.now_ns = at_ns,
		.expected_ns = expected_ns,
		.known = true,
	};
}

/* --- When all in flight is due ------------------------------------------------------------- */

static void told(int stream, uint32_t launches, uint64_t ns, uint64_t first_ns, uint64_t last_ns)
{
	const struct burst burst = {.launches = launches, .expected_ns = ns};

	window_launched(meter, stream_at(stream), &burst, first_ns, last_ns);
}

static void check_due(void)
{
	begin(2);
	told(0, 1, MS, now, now);
	CHECK_EQ(window_due_ns(window), now + MS);
	/* Right behind each other, */
	told(0, 1, MS, now + 100 * US, now + 100 * US);
	CHECK_EQ(window_due_ns(window), now + 2 * MS);
	CHECK_EQ(stream_at(0)->due_ns, now + 2 * MS);
	/* in another stream too, as far as is known; */
	told(1, 1, MS, now + 200 * US, now + 200 * US);
	CHECK_EQ(window_due_ns(window), now + 3 * MS);
	CHECK_EQ(stream_at(1)->due_ns, now + 1200 * US);
	/* and apart. */
	told(0, 1, MS, now + 10 * MS, now + 10 * MS);
	CHECK_EQ(window_due_ns(window), now + 11 * MS);
	/* Several, closer than they take, and further. */
	begin(1);
	told(0, 10, MS, now, now + 500 * US);
	CHECK_EQ(window_due_ns(window), now + MS);
	begin(1);
	told(0, 10, MS, now, now + 9 * MS);
	CHECK_EQ(window_due_ns(window), now + 9 * MS + 100 * US);
	/* Of what streams do at once a part. */
	begin(1);
	atomic_store(&window->overlap_permille, 500);
	told(0, 1, MS, now, now);
	CHECK_EQ(window_due_ns(window), now + 500 * US);
	CHECK_EQ(stream_at(0)->due_ns, now + MS);
	/* Behind a pause nothing begins before that is over. */
	begin(1);
	atomic_store(&device->stall.on, 1);
	atomic_store(&device->stall.until_ns, now + 5 * MS);
	told(0, 10, MS, now, now);
	CHECK_EQ(window_due_ns(window), now + 6 * MS);
}

/* What no event covers is done, too, when it is due and nothing is seen to work. */
static void check_flying(void)
{
	begin(1);
	meter->flying_ns = stream_at(0)->flying_ns = 7 * MS;
	told(0, 1, MS, now, now);
	CHECK_EQ(meter->flying_ns, MS);
	CHECK_EQ(stream_at(0)->flying_ns, MS);
	CHECK_EQ(window_pending_ns(device), MS);
	meter->flying_ns = 7 * MS;
	told(0, 1, MS, now + MS + TUNING_GAP_NS, now + MS + TUNING_GAP_NS);
	CHECK_EQ(meter->flying_ns, 7 * MS); /* not long enough ago */
	atomic_store(&meter->pending, 1);
	told(0, 1, MS, now + 100 * MS, now + 100 * MS);
	CHECK_EQ(meter->flying_ns, 7 * MS);
	atomic_store(&window->overlap_permille, 500);
	CHECK_EQ(window_pending_ns(device), 3500 * US);
}

static void look(struct meter_look what)
{
	what.now_ns = now;
	window_looked(meter, &what);
}

static void check_looked(void)
{
	begin(1);
	meter->flying_ns = 3 * MS;
	/* It works, and is not late yet: so much of it is over. */
	look((struct meter_look){.late_ns = MS, .late_expected_ns = 2 * MS});
	CHECK_EQ(window_due_ns(window), now + 2 * MS);
	CHECK_EQ(atomic_load(&window->late_ns), 0);
	/* It is late: it may be done any moment, and the rest is to come. */
	look((struct meter_look){.late_ns = 5 * MS, .late_expected_ns = 2 * MS});
	CHECK_EQ(window_due_ns(window), now + MS);
	CHECK_EQ(atomic_load(&window->late_ns), 3 * MS);
	/* Another process may have had the device. */
	atomic_store(&device->processes, 2);
	look((struct meter_look){.late_ns = 5 * MS, .late_expected_ns = 2 * MS});
	CHECK_EQ(window_due_ns(window), now + 3 * MS);
	atomic_store(&device->processes, 1);
	/* Something was done, and what comes next works since then. */
	look((struct meter_look){.done_ns = now - MS});
	CHECK_EQ(window_due_ns(window), now + 2 * MS);
	CHECK_EQ(atomic_load(&window->late_ns), 0);
	/* Nothing new at all says nothing; that nothing has begun says that all is to come. */
	look((struct meter_look){.now_ns = now});
	CHECK_EQ(window_due_ns(window), now + 2 * MS);
	atomic_store(&meter->begins, 1);
	look((struct meter_look){.now_ns = now});
	CHECK_EQ(window_due_ns(window), now + 3 * MS);
	atomic_store(&window->due_ns, now + 50 * MS);
	look((struct meter_look){.now_ns = now});
	CHECK_EQ(window_due_ns(window), now + 50 * MS);
}

/* --- Room ---------------------------------------------------------------------------------- */

static void check_room(void)
{
	struct launch launch;

	begin(1);
	launch = launch_at(S1, now, MS);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, false), 0);
	atomic_store(&window->due_ns, now + 2 * MS);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, false), 0);
	atomic_store(&window->due_ns, now + 2 * MS + 1);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, false), now + 1);
	atomic_store(&window->due_ns, now + 7 * MS);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, false), now + 5 * MS);
	/* Behind a pause there is as much room as there will be then. */
	atomic_store(&device->stall.on, 1);
	atomic_store(&device->stall.until_ns, now + 5 * MS);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, false), 0);
}

/* By all that is known it is done: then the device is asked. */
static void check_room_asks(void)
{
	struct launch launch, next;

	begin(0);
	launch = launch_at(S1, now, 100 * US);
	meter_begin(&launch);
	fake_launch(S1, 5 * MS);
	meter_end(&launch, CUDA_SUCCESS);
	CHECK_EQ(window_due_ns(window), now + 100 * US);
	fake_pass(4 * MS);
	next = launch_at(S1, fake.now_ns, 100 * US);
	CHECK_EQ(window_room_ns(device, &next, 1, false),
		 fake.now_ns + 3900 * US / TUNING_LATE_PART);
	CHECK_EQ(atomic_load(&window->late_ns), 3900 * US);
	fake_pass(MS);
	next.now_ns = fake.now_ns;
	CHECK_EQ(window_room_ns(device, &next, 1, false), 0);
	CHECK(!meter_works(meter));
	CHECK_EQ(atomic_load(&window->late_ns), 0);
	/* Who is a little ahead of the device need not ask, where more may be in flight. */
	begin(0);
	launch = launch_at(S1, now, 100 * US);
	meter_begin(&launch);
	fake_launch(S1, 150 * US);
	meter_end(&launch, CUDA_SUCCESS);
	fake_pass(199 * US);
	next = launch_at(S1, fake.now_ns, 100 * US);
	CHECK_EQ(window_room_ns(device, &next, 2 * MS, true), 0);
	CHECK(meter_works(meter));
	CHECK_EQ(window_room_ns(device, &next, 2 * MS, false), 0);
	CHECK(!meter_works(meter));
}

/* Beside few enough streams that work, one that is idle takes more. */
static void check_spread(void)
{
	struct launch launch;

	begin(4);
	atomic_store(&window->due_ns, now + 7 * MS);
	launch = launch_at(S1, now, MS);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, true), 0);
	stream_at(2)->flying_ns = 7 * MS;
	stream_at(2)->due_ns = now + 7 * MS;
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, true), 0);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, false), now + 5 * MS);
	stream_at(3)->flying_ns = MS;
	stream_at(3)->due_ns = now; /* it is done by now */
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, true), 0);
	stream_at(3)->due_ns = now + 1;
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, true), now + 5 * MS);
	/* More, where they do more at once. */
	atomic_store(&window->overlap_permille, 400);
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, true), 0);
	stream_at(1)->flying_ns = MS; /* its own */
	stream_at(1)->due_ns = now + MS;
	CHECK_EQ(window_room_ns(device, &launch, 2 * MS, true), now + 5 * MS);
}

static void check_fits(void)
{
	struct launch launch;

	begin(3);
	launch = launch_at(S1, now, MS);
	CHECK(!window_fits(device, &launch));
	stream_at(2)->flying_ns = MS;
	stream_at(2)->due_ns = now + MS;
	CHECK(window_fits(device, &launch));
	launch.known = false;
	CHECK(!window_fits(device, &launch));
	launch.known = true;
	launch.expected_ns = 1060 * US; /* but for a sixteenth */
	CHECK(window_fits(device, &launch));
	launch.expected_ns = 1070 * US;
	CHECK(!window_fits(device, &launch));
	launch.expected_ns = MS;
	stream_at(1)->flying_ns = MS; /* before it in its own stream */
	stream_at(1)->due_ns = now + 100 * US;
	CHECK(!window_fits(device, &launch));
	stream_at(1)->flying_ns = 0;
	CHECK(window_fits(device, &launch));
	stream_at(2)->flying_ns = 0;
	CHECK(!window_fits(device, &launch));
}

/* --- What is learned ----------------------------------------------------------------------- */

static void overlap(uint64_t streams_ns, uint64_t together_ns, uint32_t expected_permille)
{
	look((struct meter_look){.streams_ns = streams_ns, .together_ns = together_ns});
	CHECK_EQ(atomic_load(&window->overlap_permille), expected_permille);
}

static void check_overlap(void)
{
	begin(1);
	overlap(0, 0, 1000);
	overlap(2 * MS, MS, 500);
	for (int i = 0; i < 4; i++)
		overlap(2 * MS, MS, 500);
	/* What was longer ago counts half. */
	overlap(5 * MS, 5 * MS, 750);
	for (int i = 0; i < 20; i++)
		look((struct meter_look){.streams_ns = TUNING_OVERLAP_NS, .together_ns = 1});
	CHECK_EQ(atomic_load(&window->overlap_permille), 20);
	CHECK(window_pauses_badly(device));
	for (int i = 0; i < 20; i++)
		look((struct meter_look){.streams_ns = TUNING_OVERLAP_NS,
					 .together_ns = TUNING_OVERLAP_NS});
	CHECK(atomic_load(&window->overlap_permille) >= 999);
	CHECK(!window_pauses_badly(device));
	/* Of long launches more is looked at: each of them is one. */
	begin(1);
	window->costs.mean_ns = 10 * MS;
	for (int i = 0; i < 5; i++)
		overlap(2 * MS, MS, 500);
	overlap(10 * MS, 10 * MS, 750);
	window->costs.mean_ns = TUNING_SHORT_NS;
	CHECK(!window_pauses_badly(device));
	window->costs.mean_ns = TUNING_SHORT_NS - 1;
	CHECK(window_pauses_badly(device));
}

static void done(uint64_t expected_ns, uint64_t took_ns)
{
	const struct burst burst = {.launches = 1, .key = KEY, .expected_ns = expected_ns};

	window_done(meter, stream_at(0), &burst, now, now + took_ns);
}

/* What takes far longer or less than expected may do so again, for a while. */
static void check_unforeseen(void)
{
	const uint64_t *until = &meter->time->unforeseen_until_ns;
	const uint64_t most = 2 * MS + TUNING_UNFORESEEN_NS;

	begin(1);
	done(MS, US);
	done(MS, most);
	CHECK(*until < now);
	done(MS, most + 1);
	CHECK_EQ(*until, now + most + 1 + TUNING_UNFORESEEN_FOR_NS);
	done(MS, MS);
	CHECK_EQ(*until, now + most + 1 + TUNING_UNFORESEEN_FOR_NS);
	/* What takes far less may take far more the next time. */
	begin(1);
	done(most, MS);
	CHECK(*until < now);
	done(most + 1, MS);
	CHECK_EQ(*until, now + MS + TUNING_UNFORESEEN_FOR_NS);
}

/*
 * Late work is said to be done by now, and the arbiter may read that as soon to be done, and let a
 * neighbour in beside it. What is seen to take longer than was foreseen is waited for from then on.
 */
static void check_unforeseen_while_late(void)
{
	const uint64_t *until = &meter->time->unforeseen_until_ns;
	const uint64_t most = 2 * MS + TUNING_UNFORESEEN_NS;

	begin(1);
	look((struct meter_look){.late_ns = most, .late_expected_ns = MS});
	CHECK(*until < now);
	look((struct meter_look){.late_ns = most + 1, .late_expected_ns = MS});
	CHECK_EQ(*until, now + TUNING_UNFORESEEN_FOR_NS);
	/* It is expected to go on. */
	begin(1);
	look((struct meter_look){.late_ns = MS, .late_expected_ns = 10 * MS});
	CHECK(*until < now);
}

/*
 * Its own launches need not wait until all processes of the tenant have finished nothing: work of a
 * process that is late beside as much of each other may wait for one of them.
 */
static void check_stuck(void)
{
	const uint64_t most = TUNING_AWAITED_NS + 3 * (MS + MS / 2) + 2 * TUNING_WINDOW_NS;

	begin(1);
	atomic_store(&device->processes, 3);
	atomic_store(&meter->pending, 1);
	meter->time->worked_ns = now;
	look((struct meter_look){.late_ns = most, .late_expected_ns = MS, .next_ns = MS});
	CHECK_EQ(window_late_ns(device, now), 0);
	look((struct meter_look){.late_ns = most + US, .late_expected_ns = MS, .next_ns = MS});
	CHECK_EQ(window_late_ns(device, now), US + 1);
	atomic_store(&meter->pending, 0); /* its context ended */
	CHECK_EQ(window_late_ns(device, now), 0);
	atomic_store(&meter->pending, 1);
	look((struct meter_look){.done_ns = now});
	CHECK_EQ(window_late_ns(device, now), 0);
	/* Where it is the only one its word is the tenant's. */
	atomic_store(&device->processes, 1);
	look((struct meter_look){.late_ns = most + US, .late_expected_ns = MS, .next_ns = MS});
	CHECK_EQ(window_late_ns(device, now), 0);
	meter->time->worked_ns = 0;
	look((struct meter_look){.late_ns = most + US, .late_expected_ns = MS, .next_ns = MS});
	CHECK(window_late_ns(device, now));
}

/* Its next work is taken for as long as any of late was, not for as long as any ever was. */
static void check_stuck_behind_what_was_long(void)
{
	const uint64_t most = TUNING_AWAITED_NS + 4 * MS;
	const struct meter_look late = {.late_ns = most + US, .late_expected_ns = MS, .next_ns = MS};

	begin(1);
	atomic_store(&device->processes, 2);
	atomic_store(&meter->pending, 1);
	meter->time->worked_ns = 0;
	meter->time->longest_ns = 0;
	device_time_note_unit(meter->guest->ledger, meter->device->ledger, now, 500 * MS);
	look(late);
	CHECK(!device_time_late_ns(meter->guest->ledger, now));
	for (int second = 0; second < 60; second++) {
		now += 1000 * MS;
		device_time_note_unit(meter->guest->ledger, meter->device->ledger, now, MS);
	}
	look(late);
	CHECK(device_time_late_ns(meter->guest->ledger, now));
}

static void check_done(void)
{
	struct burst burst = {.launches = 4, .key = KEY, .expected_ns = 4 * MS};

	begin(1);
	meter->time->longest_ns = 0;
	stream_at(0)->flying_ns = 3 * MS;
	window_done(meter, stream_at(0), &burst, now, now + 8 * MS);
	CHECK_EQ(stream_at(0)->due_ns, now + 11 * MS);
	CHECK_EQ(cost_expect(&window->costs, KEY), 2 * MS);
	CHECK_EQ(meter->time->longest_ns, 2 * MS);
	/* The most is believed at once, */
	window_done(meter, stream_at(0), &burst, now, now + 4 * MS);
	CHECK_EQ(cost_expect(&window->costs, KEY), 2 * MS - MS / 8);
	CHECK_EQ(meter->time->longest_ns, 2 * MS);
	/* and the least where others may have had the device meanwhile. */
	atomic_store(&device->processes, 2);
	window_done(meter, stream_at(0), &burst, now, now + 4 * MS);
	CHECK_EQ(cost_expect(&window->costs, KEY), MS);
	atomic_store(&device->processes, 1);
	window_done(meter, stream_at(0), &burst, now, now + 2 * MS);
	CHECK_EQ(cost_expect(&window->costs, KEY), MS - MS / 16);
	fake_guest_turn(&guest)->beat_ns = now + 4 * MS;
	fake_guest_turn(&guest)->flags = TURN_URGED;
	window_done(meter, stream_at(0), &burst, now, now + 4 * US);
	CHECK_EQ(cost_expect(&window->costs, KEY), US);
	fake_guest_turn(&guest)->beat_ns = 0;
	/* Of several different ones the longest took no longer than all together. */
	burst = (struct burst){.launches = 4, .expected_ns = 4 * MS, .longest = {KEY, US}};
	window_done(meter, stream_at(0), &burst, now, now + 500);
	CHECK_EQ(cost_expect(&window->costs, KEY), 500);
}

/*
 * Work of so long ends so long after a held launch was let go into a stream. True: that is why, it
 * is believed.
 */
static bool handed_by(CUstream stream, uint64_t took_ns, uint64_t after_ns)
{
	struct launch launch = launch_at(stream, now + took_ns - after_ns, MS);
	uint64_t done_ns = now + took_ns;

	window->said_late_ns = now;
	window_gave_way(device, &launch);
	done(MS, took_ns);
	meter->time->gave_way_ns = 0;
	atomic_store(&state_get(&guest)->gave_ready_ns, 0);
	now = done_ns + 2 * TUNING_HANDED_BESIDE_NS; /* the next one is another time */
	return window_hands_over(device, done_ns);
}

static bool handed(uint64_t took_ns, uint64_t after_ns)
{
	return handed_by(FAKE_STREAM(2), took_ns, after_ns);
}

/* Launches of 5 us are done in a stream, while more are let go. */
static void done_in(int stream, uint64_t began)
{
	const struct burst burst = {.launches = 1, .key = KEY, .expected_ns = 5 * US};

	window->said_late_ns = now;
	meter->time->gave_way_ns = began + 1;
	window_done(meter, stream_at(stream), &burst, began, began + 5 * US);
	meter->time->gave_way_ns = 0;
}

/*
 * The device could not begin that launch: it stood behind others of its stream, or behind an event.
 * So work that ended meanwhile did not wait for it.
 */
static void check_handed_from_behind(void)
{
	begin(3);
	stream_at(2)->flying_ns = MS;
	stream_at(2)->due_ns = now + 10 * MS;
	CHECK(!handed(2 * MS, 100 * US));
	stream_at(2)->due_ns = now;
	CHECK(handed(2 * MS, 100 * US));
	stream_at(2)->again = true;
	CHECK(!handed(2 * MS, 100 * US));
	stream_at(2)->again = false;
	stream_at(2)->event[0].begin = true;
	stream_at(2)->tail = 1;
	CHECK(!handed(2 * MS, 100 * US));
	/* It went behind the late work itself. */
	CHECK(!handed_by(FAKE_STREAM(0), 2 * MS, 100 * US));
}

/* The launch that was let go is done, too, and what stood behind the work that it ended. */
static void check_handed_together(void)
{
	uint64_t done_ns;

	begin(3);
	done_ns = now + 2 * MS;
	CHECK(handed(2 * MS, 100 * US));
	done_in(2, done_ns - 100 * US);
	done_in(0, done_ns);
	CHECK(window_hands_over(device, done_ns + MS));
	/* That launch may itself take long, waiting for what follows. */
	window->gave_stream = stream_at(2);
	done_in(2, done_ns + TUNING_HANDED_NS);
	CHECK(window_hands_over(device, done_ns + MS));
	/* Not what is done later: then it was chance. */
	done_in(0, done_ns + TUNING_HANDED_NS);
	CHECK(!window_hands_over(device, done_ns + MS));
}

/* A kernel that spun for the next launch of its program is not as long as that took. */
static void check_done_by_launch(void)
{
	struct burst burst = {.launches = 1, .known = true, .key = KEY, .expected_ns = 10 * US};

	begin(2);
	window_done(meter, stream_at(0), &burst, now, now + 10 * US);
	CHECK_EQ(cost_expect(&window->costs, KEY), 10 * US);
	for (int late = 0; late < 2; late++) {
		stream_at(1)->flying_ns = MS; /* it alone */
		told(1, 1, MS, now + 5 * MS, now + 5 * MS);
		now += 5 * MS + 50 * US + (late ? TUNING_HANDED_NS : 0);
		window_done(meter, stream_at(0), &burst, now - 5 * MS, now);
		CHECK_EQ(cost_expect(&window->costs, KEY) > MS, late);
	}
	/* Nothing is known of it yet: that stays so. */
	burst.known = false;
	burst.key = KEY + 1;
	told(1, 1, MS, now + 5 * MS, now + 5 * MS);
	window_done(meter, stream_at(0), &burst, now, now + 5 * MS + 50 * US);
	CHECK_EQ(cost_expect(&window->costs, KEY + 1), 0);
}

/* Late work may wait for the second launch that goes in another's turn, not only for the first. */
static void check_try(void)
{
	begin(1);
	CHECK(window_may_try(device, now));
	window_try(device, now);
	now += TUNING_TRY_FOR_NS - 1;
	CHECK(window_may_try(device, now));
	window_try(device, now); /* that begins no other time */
	now += 1;
	CHECK(!window_may_try(device, now));
	now += TUNING_TRY_NS - TUNING_TRY_FOR_NS;
	CHECK(!window_may_try(device, now));
	CHECK(window_may_try(device, now + 1));
}

/*
 * Work that a held launch ends is late until that goes. What is done when it was expected to be has
 * waited for nothing, however soon before its end a launch went; and then what was believed is
 * over.
 */
static void check_handed(void)
{
	begin(1);
	CHECK(!handed(MS, 100 * US));
	CHECK(handed(2 * MS, 100 * US));
	CHECK(!handed(MS, 100 * US));
	CHECK(!handed(2 * MS, TUNING_HANDED_NS));
	/* Beside another tenant it has the device a little later. */
	fake_guest_turn(&guest)->beat_ns = now;
	fake_guest_turn(&guest)->flags = TURN_CONTENDED;
	CHECK(handed(2 * MS, TUNING_HANDED_NS));
	CHECK(!handed(MS, TUNING_HANDED_NS));
	fake_guest_turn(&guest)->beat_ns = fake_guest_turn(&guest)->flags = 0;
	/* The other process of the tenant may have had the device. */
	atomic_store(&device->processes, 2);
	CHECK(handed(MS, 100 * US));
	CHECK(!handed(10 * MS, TUNING_HANDED_BESIDE_NS));
	atomic_store(&device->processes, 1);
}

/*
 * Beside other devices work that ends while no held launch is let go has waited for none, so what
 * it took is believed. If one was let go, that may have ended it: the next is measured by itself.
 */
static void check_done_beside(void)
{
	bool alone;

	begin(1);
	atomic_store(&device->beside, true);
	meter->time->gave_way_ns = now;
	done(10 * US, 10 * US);
	done(10 * US, MS);
	CHECK_EQ(cost_expect(&window->costs, KEY), MS);
	meter->time->gave_way_ns = now + 10 * MS;
	done(MS, 20 * MS);
	CHECK(cost_expect(&window->costs, KEY) < 1130 * US);
	cost_use(&window->costs, KEY, now + 20 * MS, &alone);
	CHECK(alone);
	cost_use(&window->costs, KEY, now + 20 * MS, &alone);
	CHECK(!alone);
	/* It was as long as was expected: there is no doubt. */
	done(20 * MS, 20 * MS);
	cost_use(&window->costs, KEY, now + 20 * MS, &alone);
	CHECK(!alone);
	meter->time->gave_way_ns = 0;
	atomic_store(&device->beside, false);
}

/* One that is to be the only one in flight goes a moment early, if that moment is known. */
static void check_early(void)
{
	struct launch launch;

	begin(1);
	launch.now_ns = now;
	CHECK_EQ(window_early_ns(device, &launch), TUNING_EARLY_NS);
	window_unforeseen(device, now);
	CHECK_EQ(window_early_ns(device, &launch), 1);
	launch.now_ns += TUNING_UNFORESEEN_FOR_NS + 1;
	CHECK_EQ(window_early_ns(device, &launch), TUNING_EARLY_NS);
}

/* What a launch waited for launches on another device that we held. */
static uint64_t spun(uint64_t expected_ns, bool known, uint64_t took_ns)
{
	const struct burst burst = {.launches = 1, .known = known, .expected_ns = expected_ns};

	return window_spun(meter, &burst, now, now + took_ns);
}

static void check_spun(void)
{
	struct limits *limits;
	struct device_time *other;

	begin(1);
	limits = &state_get(&guest)->limits;
	other = device_time_of(guest.ledger, 1);
	CHECK_EQ(atomic_load(&limits->ndevices), 2);
	device_time_hold(other, now + 2 * MS, now + 2 * MS, now + 8 * MS);
	device_time_hold_end(other, now + 8 * MS);
	CHECK_EQ(spun(5 * MS, true, 20 * MS), 0); /* no other device works for it */
	atomic_store(&device->beside, true);
	/* All of the 6 ms, and what a thread that was let go may have been late. */
	CHECK_EQ(spun(5 * MS, true, 11 * MS), 6 * MS);
	CHECK_EQ(spun(5 * MS, true, 13 * MS), 8 * MS);
	CHECK_EQ(spun(5 * MS, true, 90 * MS), 6 * MS + TUNING_WAKE_MOST_NS);
	/* Where it is not known how long it takes nobody can say that it was late. */
	CHECK_EQ(spun(5 * MS, false, 13 * MS), 6 * MS);
	/* What took no longer than expected waited all the same: a bill can only become smaller. */
	CHECK_EQ(spun(9 * MS, true, 11 * MS), 6 * MS);
	CHECK_EQ(spun(50 * MS, true, 11 * MS), 6 * MS);
	/* What was done before the other was let go did not wait for it. */
	CHECK_EQ(spun(5 * MS, true, 5 * MS), 0);
	/* A device with another share keeps its own account. */
	atomic_store(&limits->share_permille[1], 400);
	CHECK_EQ(spun(5 * MS, true, 11 * MS), 0);
	atomic_store(&limits->share_permille[1], atomic_load(&limits->share_permille[0]));
	CHECK_EQ(spun(5 * MS, true, 11 * MS), 6 * MS);
}

/* --- Looks and places ---------------------------------------------------------------------- */

static void check_look_ns(void)
{
	begin(1);
	CHECK_EQ(window_look_ns(device, now), now + TUNING_LATE_LEAST_NS);
	atomic_store(&window->late_ns, 8 * MS);
	CHECK_EQ(window_look_ns(device, now), now + 8 * MS / TUNING_LATE_PART);
	atomic_store(&window->late_ns, 1000 * MS);
	CHECK_EQ(window_look_ns(device, now), now + TUNING_LATE_MOST_NS);
}

static void check_places(void)
{
	uint64_t until, other;

	begin(1);
	until = now + 10 * MS;
	CHECK(window_take_place(device, now, until));
	CHECK(window_take_place(device, now + MS, until + MS)); /* it has one */
	CHECK_EQ(window->place.until_ns, until);
	/* Others have what is left, and no more. */
	other = now + 20 * MS;
	CHECK_EQ(device_time_take_place(meter->time, now, other), 1);
	CHECK_EQ(device_time_take_place(meter->time, now, other), -EBUSY);
	/* A look between is not the end of what is yet to be launched, */
	look((struct meter_look){.now_ns = now});
	CHECK(window->place.taken);
	/* nor of what no event tells of yet. */
	stream_at(0)->flying_ns = meter->flying_ns = MS;
	told(0, 1, MS, now, now);
	look((struct meter_look){.now_ns = now});
	CHECK(window->place.taken);
	/* Done with: who had one asks once in vain, so that others go first. */
	stream_land(meter, stream_at(0), MS);
	look((struct meter_look){.now_ns = now});
	CHECK(!window->place.taken);
	CHECK(!window_take_place(device, now, until));
	CHECK_EQ(device_time_take_place(meter->time, now, until + 1), 0);
	CHECK(!window_take_place(device, now, until));
	CHECK(window_take_place(device, until + 1, until + MS));
	/* While it works, or what it did is not billed, it keeps it, */
	told(0, 1, 0, now, now);
	atomic_store(&meter->pending, 1);
	look((struct meter_look){.now_ns = now});
	CHECK(window->place.taken);
	/* until then. */
	CHECK(window_take_place(device, until + 2 * MS, until + 3 * MS));
	CHECK_EQ(window->place.until_ns, until + 3 * MS);
	device_time_give_place(meter->time, 0, until + 3 * MS);
	device_time_give_place(meter->time, 1, other);
}

int main(void)
{
	fake_guest(&guest, 500);
	fake_open(true);
	check_due();
	check_flying();
	check_looked();
	check_room();
	check_room_asks();
	check_spread();
	check_fits();
	check_early();
	check_overlap();
	check_unforeseen();
	check_done();
	check_handed();
	check_handed_together();
	check_try();
	check_done_by_launch();
	check_handed_from_behind();
	check_unforeseen_while_late();
	check_stuck();
	check_stuck_behind_what_was_long();
	check_done_beside();
	check_spun();
	check_look_ns();
	check_places();
	return 0;
}
