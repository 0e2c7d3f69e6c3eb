/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device's work is billed, before a driver that the test plays: each case says what a
 * program does and what the device does meanwhile, and knows the bill. The launch side is this
 * file: it notes what it is told.
 */
#include "guest/meter/meter.h"

#include <errno.h>
#include <string.h>

#include "base/now.h"
#include "guest/meter/collect.h"
#include "guest/meter/leave.h"
#include "guest/meter/recorded.h"
#include "ledger/device_time.h"
#include "ledger/timeline.h"
#include "sched/tuning.h"
#include "tests/unit/fake_driver.h"

#define US NS_PER_US
#define MS NS_PER_MS

/* What an event's float of milliseconds rounds to, and the bill of a few of them. */
#define NEAR_NS 300
#define CHECK_NEAR(a, b) CHECK_CLOSE((a), (b), NEAR_NS)
#define CHECK_CLOSE(a, b, by)                                                                    \
	do {                                                                                     \
		int64_t check_a_ = (int64_t)(a), check_b_ = (int64_t)(b);                        \
		if (check_a_ > check_b_ + (int64_t)(by) || check_b_ > check_a_ + (int64_t)(by)) {\
			fprintf(stderr, "%s:%d: failed: %s is %lld, not %lld\n", __FILE__,       \
				__LINE__, #a, (long long)check_a_, (long long)check_b_);         \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

#define S1 FAKE_STREAM(1)
#define S2 FAKE_STREAM(2)
#define FAKE_EVENT(n) ((CUevent)(uintptr_t)(0x100000 + 64 * (n)))
#define CONTEXTS (CLOCKS + 2)

static struct guest guest;
static struct meter meter;

/* --- The launch side ----------------------------------------------------------------------- */

static struct {
	uint64_t billed_ns, took_ns, spins_ns, ended_ns;
	uint32_t launched, released, latch, done;
	struct meter_look look;
} seen;

static void billed(struct meter *m, uint64_t from_ns, uint64_t to_ns)
{
	CHECK(to_ns > from_ns);
	seen.billed_ns += to_ns - from_ns;
}

static void latch(struct meter *m, struct stream *stream, uint32_t number)
{
	seen.latch = number;
}

static void released(struct meter *m, struct stream *stream, uint64_t at_ns)
{
	seen.released++;
}

static void launched(struct meter *m, struct stream *stream, const struct burst *burst,
		     uint64_t first_ns, uint64_t last_ns)
{
	seen.launched += burst->launches;
}

static void done(struct meter *m, struct stream *stream, const struct burst *burst,
		 uint64_t began_ns, uint64_t done_ns)
{
	seen.done += burst->launches;
	seen.took_ns = done_ns - began_ns;
}

static uint64_t spun(struct meter *m, const struct burst *burst, uint64_t began_ns,
		     uint64_t done_ns)
{
	return seen.spins_ns;
}

static uint64_t ended(struct meter *m, uint64_t now_ns)
{
	return seen.ended_ns;
}

static void looked(struct meter *m, const struct meter_look *look)
{
	seen.look = *look;
}

static void count(struct meter *m, struct stream *stream)
{
	stream->credit.given = 0;
}

static const struct meter_client client = {
	.billed = billed,
	.launched = launched,
	.latch = latch,
	.released = released,
	.done = done,
	.spun = spun,
	.ended = ended,
	.looked = looked,
	.count = count,
};

/* --- A case -------------------------------------------------------------------------------- */

static struct {
	uint64_t busy_ns, unmeasured_ns;
	unsigned int logged;
} before;

static uint64_t busy_ns(void)
{
	return meter.time->busy_ns - before.busy_ns;
}

static uint64_t unmeasured_ns(void)
{
	return meter.time->unmeasured_ns - before.unmeasured_ns;
}

/* Events in a stream; NULL: in any. */
static unsigned int records(CUstream stream)
{
	return fake_count(FAKE_RECORD, stream, before.logged);
}

/* Nothing was launched yet, and the last case is long over. */
static void begin(void)
{
	for (int i = 0; i < CONTEXTS; i++)
		fake_context_end(FAKE_CONTEXT(i));
	fake = (struct fake){.now_ns = fake.now_ns + 20000 * MS, .context = FAKE_CONTEXT(0)};
	memset(&meter, 0, sizeof(meter));
	memset(&seen, 0, sizeof(seen));
	meter.guest = &guest;
	meter.device = &guest.device[0];
	meter.client = &client;
	meter.time = device_time_of(guest.ledger, 0);
	before.busy_ns = meter.time->busy_ns;
	before.unmeasured_ns = meter.time->unmeasured_ns;
	before.logged = 0;
}

/* Nothing is in flight, and the launch side was told of all that is on the bill. */
static void end(void)
{
	CHECK(!meter_works(&meter));
	CHECK(meter_has_begun(&meter));
	CHECK_EQ(meter.flying_ns, 0);
	CHECK_NEAR(seen.billed_ns, busy_ns());
	CHECK_EQ(fake.spoiled, 0);
	CHECK_EQ(fake.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

struct how {
	bool unknown, alone, rival, yields, held, watched, waits;
	uint64_t longer_ns; /* than is expected */
	uint64_t load_ns; /* the driver's call takes so long */
	enum launch_kind kind;
	CUresult error;
};

static struct launch launch_how(CUstream stream, uint64_t ns, struct how how)
{
	struct launch launch = {
		.stream = stream,
		.kind = how.kind,
		.key = 4711,
		.meter = &meter,
		.context = fake.context,
		.stream_key = launch_stream_key(stream),
		.now_ns = fake.now_ns,
		.expected_ns = ns,
		.known = !how.unknown,
		.alone = how.alone,
		.rival = how.rival,
		.yields = how.yields,
		.held = how.held,
		.watched = how.watched,
		.waits = how.waits,
	};

	meter_begin(&launch);
	fake_pass(how.load_ns);
	if (!how.error)
		fake_launch(stream, ns + how.longer_ns);
	meter_end(&launch, how.error);
	return launch;
}

static void launch(CUstream stream, uint64_t ns)
{
	launch_how(stream, ns, (struct how){0});
}

static struct stream *stream_of(CUstream stream)
{
	return meter_stream_of(&meter, fake.context, launch_stream_key(stream));
}

static bool is_parked(CUstream stream)
{
	const struct launch next = {.context = fake.context,
				    .stream_key = launch_stream_key(stream)};

	return meter_stands(&meter, &next) == METER_PARKED;
}

/* Until all that is in a stream is done, and that is seen. */
static void finish(CUstream stream)
{
	fake_pass(fake_done_ns(stream) - fake.now_ns);
	collect_done(&meter);
}

static void close_it(CUstream stream, enum meter_why why)
{
	meter_close(&meter, fake.context, stream, why);
}

/* --- Bursts and pauses --------------------------------------------------------------------- */

/* The time between its two events, whatever was found done when. */
static void check_burst(void)
{
	begin();
	launch(S1, 250 * US); /* a begin event, and as nothing was ever measured here an end */
	CHECK_EQ(records(S1), 2);
	launch(S1, 250 * US);
	launch(S1, 250 * US);
	CHECK_EQ(records(S1), 2);
	CHECK_EQ(busy_ns(), 0);
	CHECK(!meter_has_begun(&meter));
	fake_pass(500 * US);
	close_it(S1, METER_WAIT);
	CHECK_EQ(records(S1), 3);
	collect_done(&meter);
	CHECK_NEAR(busy_ns(), 250 * US);
	CHECK(meter_works(&meter) && meter_has_begun(&meter));
	CHECK_EQ(seen.look.late_ns, 250 * US);
	CHECK_EQ(seen.look.late_expected_ns, 500 * US);
	finish(S1);
	CHECK_NEAR(busy_ns(), 750 * US);
	CHECK_EQ(seen.launched, 3);
	CHECK_EQ(seen.done, 3);
	CHECK_NEAR(seen.took_ns, 500 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* A pause between two launches, of so long; billed or not. */
static uint64_t pause_bill_how_ns(CUstream next, uint64_t pause_ns, struct how how)
{
	begin();
	launch(S1, 250 * US);
	finish(S1);
	fake_pass(pause_ns);
	launch_how(next, 250 * US, how);
	close_it(next, METER_WAIT);
	finish(next);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	return busy_ns() - 500 * US;
}

static uint64_t pause_bill_ns(CUstream next, uint64_t pause_ns, bool held)
{
	return pause_bill_how_ns(next, pause_ns, (struct how){.held = held});
}

static void check_pauses(void)
{
	static const CUstream streams[] = {S1, S2}; /* it is the device's, whichever comes next */

	for (int i = 0; i < 2; i++) {
		CHECK_NEAR(pause_bill_ns(streams[i], 0, false), 0);
		CHECK_NEAR(pause_bill_ns(streams[i], 50 * US, false), 50 * US);
		CHECK_NEAR(pause_bill_ns(streams[i], 99 * US, false), 99 * US);
		CHECK_NEAR(pause_bill_ns(streams[i], 101 * US, false), 0);
		CHECK_NEAR(pause_bill_ns(streams[i], 10 * MS, false), 0);
		/* One that we made is nobody's, however short. */
		CHECK_NEAR(pause_bill_ns(streams[i], 50 * US, true), 0);
		/* So is one of a tenant that goes first: others had the device in it. */
		CHECK_NEAR(pause_bill_how_ns(streams[i], 50 * US, (struct how){.yields = true}), 0);
	}
}

/*
 * Where a launch is held others may have the device: an event in a stream that is done would come
 * when they had it. What was open there is over by now.
 */
static void check_hold(void)
{
	begin();
	launch(S1, 20 * US);
	finish(S1);
	launch(S1, 20 * US);
	fake_pass(50 * US);
	CHECK_EQ(records(S1), 2);
	close_it(S1, METER_HOLD);
	CHECK_EQ(records(S1), 2);
	CHECK_NEAR(busy_ns(), 70 * US);
	fake_pass(5 * MS);
	launch_how(S1, 20 * US, (struct how){.held = true});
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 90 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* One that works has its end behind that. */
	begin();
	launch(S1, 20 * US);
	finish(S1);
	launch(S1, 80 * US);
	fake_pass(50 * US);
	close_it(S1, METER_HOLD);
	CHECK_EQ(records(S1), 3);
	finish(S1);
	CHECK_NEAR(busy_ns(), 100 * US);
	end();
}

/* Behind a wait of the stream work begins anew, and that wait is not billed. */
static void check_split(void)
{
	begin();
	launch(S1, 250 * US);
	fake_pass(10 * US);
	launch(S1, 250 * US);
	close_it(S1, METER_SPLIT);
	CHECK_EQ(records(S1), 3);
	fake_launch(S1, 2 * MS); /* it waits */
	launch(S1, 250 * US);
	launch(S1, 250 * US);
	CHECK_EQ(records(S1), 4);
	close_it(S1, METER_WAIT);
	CHECK_EQ(records(S1), 5);
	CHECK(!meter_has_begun(&meter));
	finish(S1);
	CHECK_NEAR(busy_ns(), MS);
	end();
	/* Where it did not wait for long that is a pause as any other. */
	begin();
	launch(S1, 250 * US);
	close_it(S1, METER_SPLIT);
	fake_launch(S1, 50 * US);
	launch(S1, 250 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 550 * US);
	end();
}

/* Streams that work at once cost what the device worked. */
static void check_overlap(void)
{
	begin();
	launch(S1, MS);
	launch(S2, 500 * US);
	fake_pass(MS);
	collect_done(&meter);
	CHECK_NEAR(busy_ns(), MS);
	CHECK_NEAR(seen.look.streams_ns, 1500 * US);
	CHECK_NEAR(seen.look.together_ns, MS);
	end();
	/* ... also where they are found done one after the other, the long one last. */
	begin();
	launch(S1, MS);
	launch(S2, 500 * US);
	fake_pass(500 * US);
	collect_done(&meter);
	CHECK_NEAR(busy_ns(), 500 * US);
	fake_pass(500 * US);
	collect_done(&meter);
	CHECK_NEAR(busy_ns(), MS);
	end();
	/* One after the other they cost both. */
	begin();
	launch(S1, 500 * US);
	fake_pass(600 * US);
	launch(S2, 500 * US);
	fake_pass(500 * US);
	collect_done(&meter);
	CHECK_NEAR(busy_ns(), MS);
	CHECK_NEAR(seen.look.together_ns, MS);
	end();
}

/* What a launch waited for our own pause on another device is left out. */
static void check_spun(void)
{
	begin();
	seen.spins_ns = 400 * US;
	launch(S1, MS);
	finish(S1);
	CHECK_NEAR(busy_ns(), 600 * US);
	CHECK_EQ(seen.done, 0); /* nor does it say how long one takes */
	end();
}

/* --- Work after the end of the turn -------------------------------------------------------- */

#define OTHERS_NS (TUNING_DEVICE_SLICE_NS + 2 * TUNING_DEVICE_SWITCH_NS)

static void look_after(uint64_t ns)
{
	fake_pass(ns);
	collect_done(&meter);
}

/* Work goes on for so long after the end of the turn, or after others are let in beside it. */
static uint64_t billed_after(uint64_t after_ns, bool awaited)
{
	begin();
	launch(S1, 5 * MS + after_ns);
	look_after(awaited ? 5 * MS : 2 * MS);
	seen.ended_ns = fake.now_ns + (awaited ? 0 : 3 * MS) - (awaited ? 3 * MS : 0);
	look_after(awaited ? US / 10 : 4 * MS);
	finish(S1);
	end();
	return busy_ns();
}

/* The device serves this tenant and the next one in slices. */
static void check_overtime(void)
{
	CHECK_NEAR(billed_after(MS, false), 6 * MS);
	CHECK_NEAR(billed_after(TUNING_DEVICE_SLICE_NS, false), 5 * MS + TUNING_DEVICE_SLICE_NS);
	CHECK_NEAR(billed_after(3 * MS + OTHERS_NS, false), 8 * MS);
	CHECK_NEAR(billed_after(20 * MS + 10 * OTHERS_NS, false), 25 * MS);
	/* While the arbiter has them wait for that work nobody else has the device. */
	CHECK_NEAR(billed_after(3 * MS + OTHERS_NS, true), 8 * MS);
}

/* Several works of that time, and one that goes on into the next turn. */
static void check_overtime_ends(void)
{
	begin();
	launch(S1, MS);
	seen.ended_ns = fake.now_ns;
	launch(S1, OTHERS_NS); /* the second slice begins */
	launch(S2, OTHERS_NS + 10 * MS);
	close_it(S1, METER_WAIT);
	look_after(MS);
	finish(S1);
	CHECK_NEAR(busy_ns(), MS);
	seen.ended_ns = 0;
	collect_done(&meter);
	finish(S2);
	CHECK_NEAR(busy_ns(), 10 * MS);
	end();
}

/* Nobody knows when the next turn began since the last look: what may be of it is billed whole. */
static void check_overtime_until_next(void)
{
	begin();
	launch(S1, 20 * MS);
	close_it(S1, METER_WAIT);
	look_after(5 * MS);
	seen.ended_ns = fake.now_ns;
	look_after(US / 10);
	look_after(TUNING_DEVICE_SLICE_NS + OTHERS_NS); /* of it the others' is not billed */
	fake_pass(5 * MS);
	seen.ended_ns = 0;
	collect_done(&meter);
	finish(S1);
	CHECK_NEAR(busy_ns(), 20 * MS - OTHERS_NS);
	end();
	/* Or that whole turn passed. */
	begin();
	launch(S1, 20 * MS);
	close_it(S1, METER_WAIT);
	seen.ended_ns = fake.now_ns;
	look_after(US / 10);
	seen.ended_ns = fake.now_ns + 10 * MS;
	look_after(10 * MS);
	seen.ended_ns = 0;
	collect_done(&meter);
	finish(S1);
	CHECK_NEAR(busy_ns(), 20 * MS);
	end();
}

/* --- Where the program waits --------------------------------------------------------------- */

/* Whether work is closed where the program waits so long after the last end. */
static bool is_closed(enum meter_why why, uint64_t after_ns)
{
	begin();
	launch(S1, 10 * US);
	finish(S1);
	launch(S1, MS);
	fake_pass(after_ns - 10 * US);
	close_it(S1, why);
	return records(S1) == 3;
}

static void check_skip(void)
{
	CHECK(!is_closed(METER_MARK, TUNING_MARK_SKIP_NS));
	CHECK(is_closed(METER_MARK, TUNING_MARK_SKIP_NS + US));
	CHECK(!is_closed(METER_WAIT, TUNING_WAIT_SKIP_NS));
	CHECK(is_closed(METER_WAIT, TUNING_WAIT_SKIP_NS + US));
	CHECK(!is_closed(METER_COPY, TUNING_COPY_SKIP_NS));
	CHECK(is_closed(METER_COPY, TUNING_COPY_SKIP_NS + US));
	CHECK(is_closed(METER_HOLD, 11 * US));
	CHECK(is_closed(METER_SPLIT, 11 * US));
}

/* An end that is known because the program waited is one, too. */
static void check_skip_waited(void)
{
	begin();
	launch(S1, 10 * US);
	finish(S1);
	for (int i = 0; i < 10; i++) {
		launch(S1, 10 * US);
		close_it(S1, METER_WAIT);
		fake_pass(30 * US);
		meter_waited(&meter, fake.context, S1, false, meter_asked_ns(), fake.now_ns);
	}
	CHECK_EQ(records(S1), 2);
	fake_pass(MS);
	launch(S1, 10 * US);
	finish(S1);
	CHECK_NEAR(busy_ns(), 320 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* Something is open in the stream: its first launch had an end. */
static void leave_open(CUstream stream)
{
	launch(stream, 10 * US);
	finish(stream);
	launch(stream, 250 * US);
	CHECK_EQ(records(stream), 2);
}

/* A thread that is held ends all that is open, in its context and in others. */
static void check_hold_all(void)
{
	begin();
	leave_open(S1);
	leave_open(S2);
	fake.context = FAKE_CONTEXT(1);
	leave_open(FAKE_STREAM(3));
	meter_hold(&meter, fake.context);
	CHECK_EQ(fake.context, FAKE_CONTEXT(1));
	CHECK_EQ(records(NULL), 9);
	fake_pass(10 * MS);
	collect_done(&meter);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* Somebody who looks at other contexts' events has them. */
	begin();
	leave_open(S1);
	fake.context = FAKE_CONTEXT(1);
	atomic_store(&meter.collecting, 1);
	meter_hold(&meter, fake.context);
	CHECK_EQ(records(S1), 2);
	atomic_store(&meter.collecting, 0);
	meter_hold(&meter, fake.context);
	CHECK_EQ(records(S1), 3);
	finish(S1);
	end();
}

/* The wait itself then tells when the work was done. */
static void check_waited(void)
{
	begin();
	launch(S2, 10 * US);
	launch(S1, 10 * US);
	finish(S1);
	launch(S1, 10 * US);
	launch(S2, 250 * US); /* a wait for the other says nothing of it */
	close_it(S1, METER_WAIT);
	CHECK_EQ(records(S1), 2);
	fake_pass(10 * US);
	meter_waited(&meter, fake.context, S1, false, meter_asked_ns(), fake.now_ns);
	CHECK_EQ(seen.look.done_ns, fake.now_ns);
	CHECK_EQ(meter.flying_ns, 250 * US);
	fake_pass(60 * US);
	close_it(S2, METER_WAIT);
	fake_pass(5 * MS);
	launch(S1, 250 * US);
	CHECK_NEAR(busy_ns(), 20 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	/* What the other did beside it counts once, to a bit of the ledger's timeline. */
	CHECK_CLOSE(busy_ns(), 510 * US, TIMELINE_BIT_NS);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* For all of a context. */
	begin();
	launch(S1, 10 * US);
	launch(S2, 10 * US);
	finish(S1);
	launch(S1, 20 * US);
	launch(S2, 20 * US);
	meter_close_all(&meter, fake.context, METER_WAIT);
	fake_pass(20 * US);
	meter_waited(&meter, fake.context, NULL, true, meter_asked_ns(), fake.now_ns);
	CHECK_EQ(meter.flying_ns, 0);
	fake_pass(5 * MS);
	launch(S1, 250 * US);
	finish(S1);
	CHECK_NEAR(busy_ns(), 280 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* Another thread launches within a wait, `then_ns` from its beginning, `rest_ns` from its end. */
static void wait_overtaken(uint64_t first_ns, uint64_t second_ns, uint64_t then_ns,
			   uint64_t rest_ns)
{
	launch(S1, first_ns);
	close_it(S1, METER_WAIT);
	fake_pass(then_ns);
	launch(S1, second_ns);
	fake_pass(rest_ns);
	meter_waited(&meter, fake.context, S1, false, meter_asked_ns(), fake.now_ns);
}

/* What took long is on the bill when the wait is over, however long the program rests then. */
static void check_waited_long(void)
{
	begin();
	launch(S1, 10 * US);
	finish(S1);
	launch(S1, 50 * MS);
	close_it(S1, METER_WAIT);
	CHECK_EQ(records(S1), 2);
	fake_pass(50 * MS);
	meter_waited(&meter, fake.context, S1, false, meter_asked_ns(), fake.now_ns);
	CHECK_NEAR(busy_ns(), 50 * MS + 10 * US);
	launch(S1, 10 * US);
	finish(S1);
	/* Another thread's launch came meanwhile: this wait says nothing of it. */
	wait_overtaken(10 * US, 50 * MS, 10 * US, 150 * US);
	CHECK(stream_of(S1)->open.launches);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 100 * MS + 30 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* The program waits for what it launched, and knows `late_ns` after it was done. */
static void wait_for(CUstream stream, uint64_t late_ns)
{
	uint64_t asked;

	close_it(stream, METER_WAIT);
	asked = meter_asked_ns();
	CHECK(meter_works(&meter));
	fake_pass(fake_done_ns(stream) - fake.now_ns + late_ns);
	meter_waited(&meter, fake.context, stream, false, asked, fake.now_ns);
	collect_done(&meter);
	meter_learn_prompt(&meter, fake.context, stream, false, asked, fake.now_ns);
	CHECK(!meter_works(&meter));
	CHECK_EQ(meter.flying_ns, 0);
}

/* How many events so many requests take, of so long each, behind each other. */
static unsigned int request_events(unsigned int n, uint64_t ns, uint64_t late_ns, bool rival)
{
	unsigned int events;
	uint64_t from;

	begin();
	launch_how(S1, ns, (struct how){.rival = rival});
	wait_for(S1, late_ns);
	launch_how(S1, ns, (struct how){.rival = rival});
	wait_for(S1, late_ns); /* no end of its own: an event where it waits, which tells */
	events = records(S1);
	from = busy_ns();
	for (unsigned int i = 0; i < n; i++) {
		launch_how(S1, ns, (struct how){.rival = rival});
		fake_pass(10 * US);
		wait_for(S1, late_ns);
	}
	/* What the program is late by is a pause of its own, but that of the last one. */
	CHECK_CLOSE(busy_ns() - from, n * (ns + late_ns), late_ns + NEAR_NS * n);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	return records(S1) - events;
}

/*
 * Who knows of its ends soon needs no event for each, whoever else wants the device: one in a
 * millisecond, or in so many waits, tells whether that still holds. While it waits there is work.
 */
static void check_prompt(void)
{
	for (int rival = 0; rival < 2; rival++) {
		CHECK_EQ(request_events(60, 150 * US, 2 * US, rival), 6);
		CHECK_EQ(request_events(45, 4 * MS, 2 * US, rival), 5);
		CHECK_EQ(request_events(60, 150 * US, TUNING_PROMPT_NS + US, rival), 60);
	}
	/* Another thread launches meanwhile: what is open is work until somebody waits for that. */
	begin();
	launch(S1, 10 * US);
	wait_for(S1, US);
	launch(S1, 10 * US);
	wait_for(S1, US);
	stream_of(S1)->prompt = true;
	wait_overtaken(60 * US, 60 * US, 5 * US, 60 * US);
	CHECK(meter_works(&meter));
	collect_done(&meter); /* it is seen to work, without an event */
	CHECK(seen.look.late_ns >= 65 * US);
	wait_for(S1, US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* The context ends before the program was back. */
	begin();
	launch(S1, 10 * US);
	finish(S1);
	stream_of(S1)->prompt = true;
	launch(S1, 60 * US);
	close_it(S1, METER_WAIT);
	CHECK(meter_works(&meter));
	leave_context_before(&meter, fake.context);
	fake_context_end(fake.context);
	leave_context_after(&meter, fake.context, true);
	end();
}

/*
 * How long work took is not learned from a thread that was elsewhere: one that is back late, or that
 * records the end late, where the device had done the work before.
 */
static void check_elsewhere(void)
{
	for (int late = 0; late < 2; late++) {
		begin();
		launch(S1, 150 * US);
		wait_for(S1, US);
		stream_of(S1)->prompt = true;
		seen.done = 0;
		launch(S1, 150 * US);
		stream_of(S1)->flying_ns = meter.flying_ns = stream_of(S1)->open.expected_ns = 150 * US;
		wait_for(S1, late ? 2 * MS : US);
		CHECK_EQ(seen.done, !late);
		CHECK_EQ(stream_of(S1)->prompt, !late);
		CHECK_NEAR(busy_ns(), 302 * US + (late ? 2 * MS - US : 0));
		end();
	}
	begin();
	launch(S1, 10 * US);
	finish(S1);
	launch(S1, 10 * US);
	seen.done = 0;
	fake.record_ns = 2 * MS;
	close_it(S1, METER_HOLD);
	fake.record_ns = 0;
	finish(S1);
	CHECK_EQ(seen.done, 0);
	/* What is still being worked on is found by the event in time. */
	launch(S1, 10 * US);
	launch(S1, 4 * MS);
	fake.record_ns = 2 * MS;
	close_it(S1, METER_HOLD);
	fake.record_ns = 0;
	finish(S1);
	CHECK_EQ(seen.done, 2);
	end();
}

/* A stream whose ends are watched is let go by waits for all of its context, too. */
static void check_watched_context(void)
{
	unsigned int waits = 0;

	begin();
	launch(S1, 10 * US);
	finish(S1);
	stream_of(S1)->watched = stream_of(S1)->watch = 8;
	for (; stream_of(S1)->watched && waits < 100; waits++) {
		launch(S1, 10 * US);
		meter_close_all(&meter, fake.context, METER_WAIT);
		finish(S1);
		meter_waited(&meter, fake.context, NULL, true, meter_asked_ns(), fake.now_ns);
	}
	CHECK_EQ(waits, 8);
	end();
}

/* Of who is not prompt a rival learns by the event alone that there is work: no end is skipped. */
static void check_no_skip_beside_a_rival(void)
{
	begin();
	for (int i = 0; i < 10; i++) {
		launch_how(S1, 10 * US, (struct how){.rival = true});
		close_it(S1, METER_COPY);
		CHECK(meter_works(&meter));
		finish(S1);
	}
	end();
}

/* Nobody waited for it in a way that is seen, and the stream is idle: at most 1 ms is billed. */
static void check_unmeasured(void)
{
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	CHECK_EQ(records(S1), 2);
	fake_pass(20 * MS);
	launch(S1, 250 * US);
	CHECK_EQ(unmeasured_ns(), MS);
	CHECK_NEAR(busy_ns(), MS + 250 * US);
	CHECK(stream_of(S1)->watched);
	CHECK_EQ(records(S1), 4);
	/* From then on each launch has an end, */
	for (unsigned int i = 1; i <= 3; i++) {
		launch(S1, 250 * US);
		CHECK_EQ(records(S1), 4 + i);
	}
	finish(S1);
	CHECK_EQ(unmeasured_ns(), MS);
	CHECK_NEAR(busy_ns(), 2 * MS + 250 * US);
	/* until the program waited several times in a way that is. */
	for (unsigned int i = 0; i < 8; i++) {
		CHECK(stream_of(S1)->watched);
		launch(S1, 250 * US);
		CHECK_EQ(records(S1), 8 + i);
		close_it(S1, METER_WAIT);
		finish(S1);
	}
	CHECK(!stream_of(S1)->watched);
	launch(S1, 250 * US);
	CHECK_EQ(records(S1), 15);
	fake_pass(100 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_EQ(unmeasured_ns(), MS);
	/* If it is missed again, so often again, and so on. */
	for (unsigned int misses = 1, waits = 16; misses < 10; misses++) {
		fake.logged = 0;
		launch(S1, 250 * US);
		fake_pass(20 * MS);
		launch(S1, 250 * US);
		finish(S1);
		CHECK_EQ(unmeasured_ns(), (1 + misses) * MS);
		for (unsigned int i = 0; i < waits; i++) {
			CHECK(stream_of(S1)->watched);
			launch(S1, 250 * US);
			close_it(S1, METER_WAIT);
			finish(S1);
		}
		CHECK(!stream_of(S1)->watched);
		waits = waits < 512 ? 2 * waits : waits;
	}
	end();
	/* One that still works has not lost its end. */
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 10 * MS);
	fake_pass(5 * MS);
	launch(S1, 250 * US);
	CHECK_EQ(records(S1), 3);
	finish(S1);
	CHECK_NEAR(busy_ns(), 10 * MS + 500 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* An end now and then, moved by nothing else: sooner where others wait for it. */
static void check_ends(void)
{
	for (int rival = 0; rival < 2; rival++) {
		uint64_t every = rival ? TUNING_END_RIVAL_NS : TUNING_END_NS;
		struct how how = {.rival = rival};

		begin();
		launch_how(S1, 10 * MS, how);
		CHECK_EQ(records(S1), 2);
		fake_pass(every);
		launch_how(S1, 10 * MS, how);
		CHECK_EQ(records(S1), 2);
		fake_pass(US);
		launch_how(S1, 10 * MS, how);
		CHECK_EQ(records(S1), 3);
		launch_how(S1, 10 * MS, (struct how){.rival = rival, .watched = true});
		CHECK_EQ(records(S1), 4);
		launch_how(S1, 10 * MS, how);
		launch_how(S1, 10 * MS, (struct how){.rival = rival, .alone = true});
		CHECK_EQ(records(S1), 6); /* between two ends */
		finish(S1);
		CHECK_NEAR(busy_ns(), 60 * MS);
		end();
	}
}

/* --- Code that is loaded ------------------------------------------------------------------- */

static void check_loads(void)
{
	const struct how loads = {.unknown = true, .alone = true, .load_ns = 3 * MS};

	/* It begins when the call returned, and on an idle stream no event is needed for that. */
	begin();
	launch_how(S1, 500 * US, loads);
	CHECK_EQ(records(S1), 1);
	finish(S1);
	CHECK_NEAR(busy_ns(), 500 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* With a rival it is to be known when it began. */
	begin();
	launch_how(S1, 500 * US, (struct how){.unknown = true, .rival = true, .load_ns = 3 * MS});
	CHECK_EQ(records(S1), 2);
	finish(S1);
	CHECK_NEAR(busy_ns(), 500 * US);
	end();
	/* Work before it is closed: the time in between is nobody's. */
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	launch_how(S1, 500 * US, loads);
	CHECK_EQ(records(S1), 4);
	finish(S1);
	CHECK_NEAR(busy_ns(), MS);
	end();
	/* One that is not measured by itself says it to the end that comes. */
	begin();
	launch(S1, 250 * US);
	finish(S1);
	fake_pass(10 * US);
	launch_how(S1, 500 * US, (struct how){.unknown = true, .load_ns = 500 * US});
	CHECK_EQ(records(S1), 2);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 750 * US);
	end();
	/* A call that is brief loads nothing, whatever is known: it is a pause as any. */
	begin();
	launch_how(S1, 500 * US, (struct how){.unknown = true, .alone = true, .load_ns = 90 * US});
	finish(S1);
	CHECK_NEAR(busy_ns(), 590 * US);
	end();
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	finish(S1);
	fake_pass(60 * US);
	launch_how(S1, 250 * US, (struct how){.watched = true, .load_ns = 60 * US});
	finish(S1);
	CHECK_NEAR(busy_ns(), 870 * US);
	end();
	/* A copy has no code: what keeps its call is the work before it. */
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	launch_how(S1, 20 * US,
		   (struct how){.unknown = true, .kind = LAUNCH_COPY, .load_ns = 240 * US});
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 520 * US);
	end();
}

/* --- Where room ends ----------------------------------------------------------------------- */

/* Each launch of a watched stream has its end: one waits for room in the ring. */
static void check_ring_watched(void)
{
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	fake_pass(20 * MS);
	for (int i = 0; i < 3 * STREAM_EVENTS; i++)
		launch(S1, 250 * US);
	CHECK(fake.slept);
	finish(S1);
	CHECK_EQ(records(S1), 3 + 3 * STREAM_EVENTS);
	CHECK_NEAR(busy_ns(), (1 + 3 * STREAM_EVENTS) * 250 * US + MS);
	CHECK_EQ(unmeasured_ns(), MS);
	end();
	/* It may wait for what comes next, so no launch waits for ever. */
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	fake_pass(20 * MS);
	launch(S1, 10000 * MS);
	for (int i = 0; i < STREAM_EVENTS; i++)
		launch(S1, 250 * US);
	CHECK(stream_room(stream_of(S1)) >= STREAM_EVENTS / 4);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_CLOSE(busy_ns(), 10000 * MS + (1 + STREAM_EVENTS) * 250 * US + MS, 100 * US);
	CHECK_EQ(unmeasured_ns(), MS);
	end();
}

/* What has no room in the ring stays open. Answers how long all of it takes. */
static uint64_t fill_ring(void)
{
	begin();
	for (int i = 0; i < 3 * STREAM_EVENTS; i++) {
		launch_how(S1, 10 * MS, (struct how){.rival = true});
		fake_pass(TUNING_END_RIVAL_NS + US);
	}
	/* Ends leave room for where the program waits, */
	CHECK_EQ(stream_room(stream_of(S1)), STREAM_EVENTS / 4);
	for (int i = 0; i < 2 * STREAM_EVENTS; i++) {
		launch_how(S1, 10 * MS, (struct how){.rival = true});
		close_it(S1, METER_WAIT);
	}
	/* which may use all of it, and no more. */
	CHECK_EQ(stream_room(stream_of(S1)), 0);
	CHECK(stream_of(S1)->open.launches);
	return 5 * STREAM_EVENTS * 10 * MS;
}

static void check_ring_full(void)
{
	uint64_t took = fill_ring();

	/* The next end closes it, where there is room again while it works, */
	fake_pass(took / 2);
	collect_done(&meter);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_CLOSE(busy_ns(), took, 150 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* or the wait itself says when it was done. */
	took = fill_ring();
	fake_pass(fake_done_ns(S1) - fake.now_ns);
	meter_waited(&meter, fake.context, S1, false, meter_asked_ns(), fake.now_ns);
	collect_done(&meter);
	fake_pass(20 * MS);
	launch(S1, 250 * US);
	CHECK_CLOSE(busy_ns(), took, 150 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	finish(S1);
	end();
	/* What nobody waited for is bounded, and it was not over before what was measured. */
	took = fill_ring();
	finish(S1);
	fake_pass(20 * MS);
	launch(S1, 250 * US);
	CHECK_EQ(unmeasured_ns(), MS);
	finish(S1);
	end();
}

/* The stream that was used least recently gives its place to a new one, if it is closed. */
static void check_streams(void)
{
	uint64_t serial;

	begin();
	for (int i = 0; i < STREAMS_KEPT; i++) {
		launch(FAKE_STREAM(i), 10 * US);
		fake_pass(i ? 10 * US : 20 * US); /* one after the other */
		collect_done(&meter);
	}
	CHECK_EQ(meter.nstreams, STREAMS_KEPT);
	launch(FAKE_STREAM(0), 100 * MS); /* works, and the next one was used before it */
	serial = atomic_load(&stream_of(FAKE_STREAM(1))->serial);
	CHECK(stream_of(FAKE_STREAM(1)) == &meter.stream[1]);
	launch(FAKE_STREAM(STREAMS_KEPT), 10 * US);
	CHECK_EQ(meter.nstreams, STREAMS_KEPT);
	CHECK(!stream_of(FAKE_STREAM(1)));
	CHECK(stream_of(FAKE_STREAM(STREAMS_KEPT)) == &meter.stream[1]);
	CHECK_EQ(atomic_load(&meter.stream[1].serial), serial + 1);
	CHECK(stream_of(FAKE_STREAM(0)));
	finish(FAKE_STREAM(STREAMS_KEPT));
	/* It is known again when it is used again. */
	launch(FAKE_STREAM(1), 10 * US);
	CHECK(stream_of(FAKE_STREAM(1)) == &meter.stream[2]);
	close_it(FAKE_STREAM(0), METER_WAIT);
	finish(FAKE_STREAM(0));
	CHECK_CLOSE(busy_ns(), (STREAMS_KEPT + 1) * 10 * US + 100 * MS, 10 * US); /* and a pause */
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* Where all of them work there is room for more, and beyond that nothing is measured. */
static void check_streams_full(void)
{
	struct launch one;

	begin();
	for (int i = 0; i < STREAMS; i++)
		launch(FAKE_STREAM(i), 50 * MS);
	CHECK_EQ(meter.nstreams, STREAMS);
	CHECK_EQ(records(NULL), 2 * STREAMS);
	one = launch_how(FAKE_STREAM(STREAMS), 50 * MS, (struct how){0});
	CHECK(!one.in);
	CHECK_EQ(records(NULL), 2 * STREAMS);
	CHECK_EQ(unmeasured_ns(), MS);
	finish(FAKE_STREAM(0));
	CHECK_CLOSE(busy_ns(), 50 * MS, 10 * US);
	/* As many events are kept as there is room for. */
	CHECK_EQ(meter.clock[0].spares, CLOCK_EVENTS);
	CHECK_EQ(fake.events, CLOCK_EVENTS + 1);
	end();
}

/* A context more than there are clocks takes that which was used least recently. */
static void check_contexts(void)
{
	unsigned int events;

	begin();
	for (int i = 0; i < CLOCKS; i++) {
		fake.context = FAKE_CONTEXT(i);
		launch(FAKE_STREAM(i), 250 * US);
		finish(FAKE_STREAM(i));
		fake_pass(MS);
	}
	/* Its stream is not the one that was: nor is a stream left without its clock. */
	fake.context = FAKE_CONTEXT(0);
	launch(FAKE_STREAM(0), 250 * US);
	finish(FAKE_STREAM(0));
	events = fake.events;
	fake.context = FAKE_CONTEXT(CLOCKS);
	launch(S1, 250 * US);
	finish(S1);
	CHECK_EQ(fake.events, events); /* those of the first one are gone */
	CHECK_NEAR(busy_ns(), (CLOCKS + 2) * 250 * US);
	CHECK(stream_of(S1)->clock == 0);
	fake.context = FAKE_CONTEXT(0);
	CHECK(!stream_of(FAKE_STREAM(0)));
	launch(FAKE_STREAM(0), 250 * US);
	finish(FAKE_STREAM(0));
	CHECK(stream_of(FAKE_STREAM(0))->clock == 1);
	CHECK_NEAR(busy_ns(), (CLOCKS + 3) * 250 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* Of one for which there is none nothing is known. */
	begin();
	for (int i = 0; i <= CLOCKS; i++) {
		fake.context = FAKE_CONTEXT(i);
		launch(FAKE_STREAM(i), 50 * MS);
	}
	CHECK_EQ(records(FAKE_STREAM(CLOCKS)), 0);
	fake_pass(50 * MS);
	collect_done(&meter);
	CHECK_EQ(unmeasured_ns(), 0);
	fake_pass(50 * MS);
	launch(FAKE_STREAM(CLOCKS), 250 * US);
	CHECK_CLOSE(unmeasured_ns(), 0, 0); /* of the time that it worked, all is the others' */
	CHECK_CLOSE(busy_ns(), 50 * MS, 10 * US);
}

/* --- What the driver refuses --------------------------------------------------------------- */

static void check_refused_create(void)
{
	begin();
	fake.create_error = CUDA_ERROR_OUT_OF_MEMORY;
	launch(S1, 250 * US);
	CHECK_EQ(records(S1), 0);
	CHECK_EQ(stream_of(S1)->clock, -ENOSPC);
	close_it(S1, METER_WAIT);
	CHECK(!meter_works(&meter));
	fake_pass(20 * MS);
	launch(S1, 250 * US);
	CHECK_EQ(unmeasured_ns(), MS);
	CHECK_EQ(busy_ns(), MS);
	/* Where it gives events but no stream to set a clock by, the first event sets it. */
	begin();
	fake.stream_error = CUDA_ERROR_OUT_OF_MEMORY;
	launch(S1, 250 * US);
	finish(S1);
	fake_pass(10 * MS);
	launch(S1, 250 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_EQ(unmeasured_ns(), 0);
	CHECK_CLOSE(busy_ns(), 500 * US, 250 * US);
	end();
}

static void check_refused_record(void)
{
	begin();
	fake.record_error = CUDA_ERROR_INVALID_HANDLE;
	launch(S1, 250 * US);
	fake_pass(20 * MS);
	collect_done(&meter);
	CHECK_EQ(unmeasured_ns(), MS);
	CHECK_EQ(busy_ns(), MS);
	end();
	/* It is not asked again there, nor anywhere else left alone. */
	fake.record_error = CUDA_SUCCESS;
	launch(S1, 250 * US);
	launch(S2, 250 * US);
	CHECK_EQ(records(S1), 0);
	CHECK_EQ(records(S2), 2);
	finish(S2);
	CHECK_NEAR(busy_ns(), MS + 250 * US);
}

static void check_refused_read(void)
{
	begin();
	launch(S1, 250 * US);
	fake.elapsed_error = CUDA_ERROR_INVALID_HANDLE;
	fake_pass(20 * MS);
	collect_done(&meter);
	CHECK_EQ(unmeasured_ns(), MS);
	end();
	/* The next burst of the stream is closed. */
	fake.elapsed_error = CUDA_SUCCESS;
	launch(S1, 250 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_EQ(unmeasured_ns(), MS);
	CHECK_NEAR(busy_ns(), MS + 250 * US);
	end();
	begin();
	launch(S1, 250 * US);
	fake.query_error = CUDA_ERROR_INVALID_HANDLE;
	fake_pass(20 * MS);
	collect_done(&meter);
	CHECK_EQ(unmeasured_ns(), MS);
	end();
}

/* A launch that the driver refuses is no work. */
static void check_refused_launch(void)
{
	begin();
	launch(S1, 250 * US);
	finish(S1);
	launch(S1, 250 * US);
	launch_how(S1, 250 * US, (struct how){.error = CUDA_ERROR_INVALID_HANDLE});
	CHECK_EQ(meter.flying_ns, 250 * US);
	fake_pass(100 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 500 * US);
	CHECK_EQ(seen.done, 2);
	end();
	/* Nor is one that was to be measured by itself, */
	begin();
	launch(S1, 250 * US);
	launch_how(S1, 250 * US, (struct how){.watched = true, .error = CUDA_ERROR_INVALID_HANDLE});
	finish(S1);
	CHECK_NEAR(busy_ns(), 250 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	CHECK_EQ(seen.done, 1);
	end();
	/* and what was open before it is not lost. */
	launch(S1, 250 * US);
	launch_how(S1, 250 * US, (struct how){.watched = true, .error = CUDA_ERROR_INVALID_HANDLE});
	launch(S1, 250 * US);
	CHECK_EQ(meter.flying_ns, 500 * US);
	fake_pass(100 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 750 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* --- Ends of streams, contexts and processes ----------------------------------------------- */

static void check_stream_leaves(void)
{
	begin();
	launch(S1, 250 * US);
	launch(S1, 250 * US);
	leave_stream_before(&meter, fake.context, S1);
	CHECK_EQ(records(S1), 3);
	fake_pass(MS);
	collect_done(&meter); /* nobody looks meanwhile */
	CHECK_EQ(busy_ns(), 0);
	leave_stream_after(&meter, fake.context, S1, true);
	CHECK(!stream_of(S1));
	collect_done(&meter);
	CHECK_NEAR(busy_ns(), 500 * US);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
	/* Another gets its handle: what was, is not that one's. */
	launch(S1, 250 * US);
	finish(S1);
	CHECK_NEAR(busy_ns(), 750 * US);
	end();
}

/* The handle of a thread's own stream means another one in each thread. */
static void check_per_thread(void)
{
	struct launch launch_of_other = {
		.stream = CU_STREAM_PER_THREAD,
		.key = 4711,
		.meter = &meter,
		.context = FAKE_CONTEXT(0),
		.stream_key = launch_stream_key(CU_STREAM_PER_THREAD) + 1,
		.known = true,
	};

	begin();
	launch(CU_STREAM_PER_THREAD, MS);
	launch(CU_STREAM_PER_THREAD, MS);
	launch_of_other.now_ns = fake.now_ns;
	meter_begin(&launch_of_other);
	meter_end(&launch_of_other, CUDA_SUCCESS);
	meter_begin(&launch_of_other);
	meter_end(&launch_of_other, CUDA_SUCCESS);
	CHECK_EQ(records(CU_STREAM_PER_THREAD), 4);
	meter_close_all(&meter, fake.context, METER_HOLD);
	CHECK_EQ(records(CU_STREAM_PER_THREAD), 5);
}

/* What is not done when a context goes is billed until it is gone. */
static void check_context_leaves(bool gone)
{
	begin();
	launch(S1, MS);
	fake_pass(300 * US);
	launch(S1, MS);
	launch(S2, 250 * US);
	leave_context_before(&meter, fake.context);
	CHECK_EQ(records(S1), 3);
	fake_pass(MS);
	collect_done(&meter); /* nobody looks meanwhile */
	CHECK_EQ(busy_ns(), 0);
	if (gone)
		fake_context_end(fake.context);
	leave_context_after(&meter, fake.context, gone);
	if (!gone)
		finish(S1);
	CHECK_NEAR(busy_ns(), 2 * MS);
	CHECK_EQ(unmeasured_ns(), 0);
	CHECK(!stream_of(S1) == gone);
	end();
	/* A context with the same handle is another, with events of its own. */
	fake_pass(10 * MS);
	launch(S1, 250 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 2 * MS + 250 * US);
	end();
}

static void check_context_leaves_open(void)
{
	/* What is done by then is known exactly. */
	begin();
	launch(S1, MS);
	fake_pass(20 * MS);
	leave_context_before(&meter, fake.context);
	CHECK_NEAR(busy_ns(), MS);
	fake_pass(20 * MS);
	fake_context_end(fake.context);
	leave_context_after(&meter, fake.context, true);
	CHECK_NEAR(busy_ns(), MS);
	end();
	/* Of what had not begun by then nobody knows how much was work, and how much a wait. */
	begin();
	launch(S1, 250 * US);
	close_it(S1, METER_SPLIT);
	fake_launch(S1, 20 * MS);
	launch(S1, 250 * US);
	finish(S2);
	fake_pass(250 * US);
	leave_context_before(&meter, fake.context);
	CHECK(!meter_has_begun(&meter));
	fake_context_end(fake.context);
	leave_context_after(&meter, fake.context, true);
	CHECK_EQ(unmeasured_ns(), MS);
	CHECK_NEAR(busy_ns(), MS + 250 * US);
	end();
	/* One of others is not touched by it. */
	begin();
	launch(S1, MS);
	fake.context = FAKE_CONTEXT(1);
	launch(S2, MS);
	leave_context_before(&meter, FAKE_CONTEXT(1));
	fake_context_end(FAKE_CONTEXT(1));
	leave_context_after(&meter, FAKE_CONTEXT(1), true);
	fake.context = NULL; /* who collects makes the event's own current */
	collect_done(&meter);
	CHECK(!fake.context);
	CHECK_NEAR(busy_ns(), MS);
	end();
}

/* The process ends: what was seen to work is billed as far as that, and 1 ms of the rest. */
static void check_end_all(void)
{
	begin();
	launch(S1, 100 * MS);
	fake_pass(2 * MS);
	collect_done(&meter);
	CHECK_EQ(busy_ns(), 0);
	fake_pass(5 * MS);
	leave_process(&meter);
	CHECK_NEAR(busy_ns(), 3 * MS);
	CHECK_EQ(unmeasured_ns(), MS);
	/* Nothing is in flight: nothing is billed. */
	begin();
	launch(S1, 250 * US);
	finish(S1);
	fake_pass(5 * MS);
	leave_process(&meter);
	CHECK_NEAR(busy_ns(), 250 * US);
	CHECK_EQ(unmeasured_ns(), 0);
}

/* --- The clock, captures ------------------------------------------------------------------- */

/* The soonest answer sets it; it is moved where an event is found done before that. */
static void check_clock(void)
{
	begin();
	fake.sync_ns[0] = 30 * US;
	fake.sync_ns[1] = 5 * US;
	fake.sync_ns[2] = 20 * US;
	launch(S1, 250 * US);
	CHECK_EQ(meter.clock[0].base_ns, fake.now_ns - 20 * US);
	CHECK_EQ(fake.events, 1 + 8); /* of the others none is left; two are in the stream */
	finish(S1);
	CHECK_NEAR(busy_ns(), 250 * US);
	CHECK_NEAR(meter.clock[0].base_ns, fake.now_ns - 275 * US);
	end();
}

/*
 * After a day a float of milliseconds would tell nothing: the base moves on. `drift_ns`: by how much
 * the clocks may differ from then on.
 */
static void check_rebase(bool own, uint64_t drift_ns)
{
	begin();
	launch(S1, 230 * US);
	close_it(S1, METER_WAIT);
	finish(S1);
	fake.stream_error = own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < 40; i++) {
		uint64_t was;

		fake_pass(UINT64_C(86400) * 1000 * MS / 40 + 37 * US);
		was = busy_ns();
		launch(S1, 230 * US);
		close_it(S1, METER_WAIT);
		finish(S1);
		CHECK_CLOSE(busy_ns() - was, 230 * US, drift_ns + NEAR_NS);
	}
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* Code that is loaded ends by our clock, and what follows by the device's, which is looked at late. */
static void check_late(void)
{
	begin();
	for (int i = 0; i < 100; i++) {
		uint64_t was = busy_ns();

		launch_how(S1, 40 * US,
			   (struct how){.unknown = true, .watched = true, .load_ns = 500 * US});
		fake_pass(300 * MS);
		collect_done(&meter);
		CHECK_NEAR(busy_ns() - was, 40 * US);
	}
	end();
}

static void check_capture(void)
{
	begin();
	CHECK(!meter_is_captured(S1));
	launch(S1, MS);
	launch(S1, MS);
	launch(S2, MS);
	launch(S2, 5 * MS);
	fake_capture(S2, true);
	CHECK(meter_is_captured(S2) && !meter_is_captured(S1));
	fake_pass(500 * US);
	meter_close_all(&meter, fake.context, METER_WAIT);
	CHECK_EQ(records(S1), 3);
	CHECK_EQ(records(S2), 2);
	/* Our own calls are none that a capture forbids, and others are not made lawful by them. */
	launch(FAKE_STREAM(3), MS);
	CHECK_EQ(records(FAKE_STREAM(3)), 2);
	finish(S1);
	CHECK_EQ(fake.spoiled, 0);
	CHECK_EQ(fake.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	fake_capture(S2, false);
	meter_close_all(&meter, fake.context, METER_WAIT);
	CHECK_EQ(records(S2), 3);
	finish(S2);
	CHECK_CLOSE(busy_ns(), 6 * MS, TIMELINE_BIT_NS);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* --- Waits for the program ----------------------------------------------------------------- */

/* Nothing of a stream that waits for the program is work, but what was before the wait. */
static void check_park(void)
{
	begin();
	launch(S1, MS);
	finish(S1);
	meter_park(&meter, fake.context, S1);
	CHECK(is_parked(S1));
	fake_launch(S1, 50 * MS); /* the wait */
	for (int i = 0; i < 3; i++) {
		launch(S1, MS);
		fake_pass(2 * MS); /* their ends are due */
		collect_done(&meter);
		CHECK(meter_is_pending(&meter) && !meter_works(&meter));
		CHECK(meter_has_begun(&meter));
		CHECK_EQ(meter.flying_ns, 0);
		CHECK_EQ(seen.look.late_ns, 0);
	}
	launch(S2, MS);
	CHECK(meter_works(&meter));
	CHECK_EQ(meter.flying_ns, MS);
	finish(S2);
	CHECK(!meter_works(&meter));
	CHECK_EQ(seen.released, 0);
	fake_pass(fake_done_ns(S1) - fake.now_ns - 2 * MS);
	collect_done(&meter);
	CHECK_EQ(seen.released, 1);
	CHECK(meter_works(&meter) && !is_parked(S1));
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 5 * MS);
	CHECK_EQ(unmeasured_ns(), 0);
	end();
}

/* What is in front of the wait works; a stream of which nothing is known waits all the same. */
static void check_park_behind_work(void)
{
	begin();
	launch(S1, MS);
	meter_park(&meter, fake.context, S1);
	CHECK(!is_parked(S1));
	fake_launch(S1, 50 * MS);
	launch(S1, MS);
	CHECK(meter_works(&meter));
	CHECK_EQ(meter.flying_ns, 2 * MS);
	fake_pass(2 * MS);
	collect_done(&meter);
	CHECK(is_parked(S1) && !meter_works(&meter));
	CHECK_EQ(meter.flying_ns, 0);
	close_it(S1, METER_WAIT);
	finish(S1);
	CHECK_NEAR(busy_ns(), 2 * MS);
	meter_park(&meter, fake.context, S2); /* its first: code is loaded behind it */
	CHECK(is_parked(S2));
	fake_launch(S2, 50 * MS);
	launch_how(S2, MS, (struct how){.unknown = true});
	CHECK(!meter_works(&meter));
	close_it(S2, METER_WAIT);
	finish(S2);
	CHECK_NEAR(busy_ns(), 3 * MS);
	end();
}

/* The legacy stream waits for streams that wait for the program, and those for that one. */
static void check_park_of_others(void)
{
	static const CUstream legacy = CU_STREAM_LEGACY;

	for (int other_first = 0; other_first < 2; other_first++) {
		CUstream waits = other_first ? S1 : legacy, behind = other_first ? legacy : S1;

		begin();
		launch(S1, MS);
		launch(legacy, MS);
		finish(S1);
		finish(legacy);
		meter_park(&meter, fake.context, waits);
		CHECK(is_parked(behind));
		fake_launch(waits, 50 * MS);
		fake_launch(behind, 50 * MS); /* as the driver has it */
		launch(waits, MS);
		launch(behind, MS);
		launch(behind, MS);
		CHECK(meter_is_pending(&meter) && !meter_works(&meter));
		CHECK_EQ(stream_of(behind)->event[stream_of(behind)->head % STREAM_EVENTS].blocked,
			 true);
		fake_pass(MS);
		close_it(waits, METER_WAIT);
		close_it(behind, METER_WAIT);
		finish(waits);
		finish(behind);
		CHECK_CLOSE(busy_ns(), 3 * MS, 100 * US); /* side by side, here */
		CHECK(!is_parked(behind));
		end();
	}
}

/* A graph that may wait for the program in its middle does so when it takes far too long. */
static void check_park_in_graph(void)
{
	begin();
	launch_how(S1, MS, (struct how){.waits = true, .longer_ns = 49 * MS});
	launch(S1, MS);
	fake_pass(2 * MS);
	collect_done(&meter);
	CHECK(meter_works(&meter) && !is_parked(S1));
	fake_pass(4 * MS);
	collect_done(&meter);
	CHECK(!meter_works(&meter) && is_parked(S1));
	CHECK_EQ(meter.flying_ns, 0);
	CHECK_EQ(seen.look.late_ns, 0);
	close_it(S1, METER_WAIT);
	fake_pass(44 * MS + MS / 2);
	collect_done(&meter);
	CHECK(meter_works(&meter) && !is_parked(S1));
	CHECK_EQ(meter.flying_ns, MS);
	finish(S1);
	CHECK_NEAR(busy_ns(), 51 * MS);
	end();
}

/* It ends with the stream's context, and the places of those that wait are not given away. */
static void check_park_ends(void)
{
	begin();
	meter_park(&meter, fake.context, S1);
	for (int i = 0; i < STREAMS_KEPT + 8; i++) {
		launch(FAKE_STREAM(10 + i), 20 * US);
		finish(FAKE_STREAM(10 + i));
	}
	CHECK(is_parked(S1));
	fake_launch(S1, 50 * MS);
	launch(S1, MS);
	CHECK(!meter_works(&meter) && meter_is_pending(&meter));
	leave_context_before(&meter, fake.context);
	fake_context_end(fake.context);
	leave_context_after(&meter, FAKE_CONTEXT(0), true);
	CHECK(!meter_is_pending(&meter));
	CHECK_EQ(atomic_load(&meter.parked), 0);
	end();
}

/* An event tells of work that ends by itself, or stands behind a wait, as far as one is there. */
static void check_recorded(void)
{
	CUevent early = FAKE_EVENT(-1), late = FAKE_EVENT(-2), right = FAKE_EVENT(-3);

	begin();
	CHECK_EQ(recorded_ask(&meter, early), RECORDED_NOT);
	recorded_note(&meter, early, fake.context, S2); /* nothing was ever launched there */
	CHECK_EQ(recorded_ask(&meter, early), RECORDED_FREE);
	launch(S1, MS);
	recorded_note(&meter, early, fake.context, S1);
	meter_park(&meter, fake.context, S1);
	fake_launch(S1, 50 * MS);
	recorded_note(&meter, right, fake.context, S1);
	launch(S1, MS);
	close_it(S1, METER_MARK);
	recorded_note(&meter, late, fake.context, S1);
	CHECK_EQ(recorded_ask(&meter, early), RECORDED_FREE);
	CHECK_EQ(recorded_ask(&meter, right), RECORDED_BLOCKED);
	CHECK_EQ(recorded_ask(&meter, late), RECORDED_BLOCKED);
	finish(S1);
	CHECK_EQ(recorded_ask(&meter, late), RECORDED_FREE);
	recorded_note(&meter, right, fake.context, S1);
	CHECK_EQ(recorded_ask(&meter, right), RECORDED_FREE);
	for (int i = 0; i < 2 * RECORDED; i++)
		recorded_note(&meter, FAKE_EVENT(i), fake.context, S1);
	CHECK_EQ(recorded_ask(&meter, FAKE_EVENT(2 * RECORDED - 1)), RECORDED_FREE);
	CHECK_EQ(recorded_ask(&meter, right), RECORDED_NOT);
	end();
}

int main(void)
{
	fake_guest(&guest, 500);
	fake_open(true);
	check_burst();
	check_pauses();
	check_hold();
	check_split();
	check_overlap();
	check_spun();
	check_overtime();
	check_overtime_ends();
	check_overtime_until_next();
	check_skip();
	check_skip_waited();
	check_hold_all();
	check_waited();
	check_waited_long();
	check_prompt();
	check_elsewhere();
	check_watched_context();
	check_no_skip_beside_a_rival();
	check_unmeasured();
	check_ends();
	check_loads();
	check_ring_watched();
	check_ring_full();
	check_streams();
	check_streams_full();
	check_contexts();
	check_refused_create();
	check_refused_record();
	check_refused_read();
	check_refused_launch();
	check_stream_leaves();
	check_per_thread();
	check_context_leaves(true);
	check_context_leaves(false);
	check_context_leaves_open();
	check_end_all();
	check_clock();
	check_rebase(true, 0);
	check_rebase(false, 30 * US);
	check_late();
	check_capture();
	check_park();
	check_park_behind_work();
	check_park_of_others();
	check_park_in_graph();
	check_park_ends();
	check_recorded();
	return 0;
}
