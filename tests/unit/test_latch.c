/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches, before a driver that the test plays: where they stand in a stream, when they open, and
 * that nothing waits for a word that nobody writes.
 */
#include "guest/launch/latch.h"

#include "base/now.h"
#include "guest/core/pass.h"
#include "guest/launch/attach.h"
#include "guest/meter/collect.h"
#include "guest/meter/meter.h"
#include "ledger/device_time.h"
#include "ledger/turn.h"
#include "sched/tuning.h"
#include "tests/unit/fake_driver.h"

#define MS NS_PER_MS
#define S1 FAKE_STREAM(1)
#define AT 0x1000000000 /* the device sees a word so much higher, see fake_driver.c */

static struct guest guest;
static struct launch_device *device;
static struct launch_state *state;
static struct turn *turn;
static uint32_t given; /* numbers, before the test */

/* A rival wants the device, whose turn it is. A monitor is believed to run. */
static void begin(void)
{
	fake = (struct fake){.now_ns = fake.now_ns + 10000 * MS, .context = FAKE_CONTEXT(0)};
	device = fake_launch_device(&guest);
	state = state_get(&guest);
	device->meter.latches = given;
	device->meter.time->hot = device->meter.time->late_until_ns = 0;
	atomic_store(&state->monitor.started, 1);
	atomic_store(&state->monitor.stop, 0);
	turn = fake_guest_turn(&guest);
	turn->flags = TURN_CONTENDED;
}

/* Whose turn it is, as of now. */
static void tell_turn(bool ours)
{
	turn->beat_ns = fake.now_ns;
	turn->open_until_ns = ours ? fake.now_ns + 20 * MS : 0;
}

static bool may(void)
{
	const struct launch launch = {.context = fake.context, .now_ns = fake.now_ns};

	return latch_may(state, device, &launch);
}

static bool is_latched(void)
{
	const struct launch next = {.context = fake.context, .stream_key = launch_stream_key(S1)};

	return meter_stands(&device->meter, &next) == METER_LATCHED;
}

static void launch_behind_wait(void)
{
	struct launch launch = {
		.stream = S1,
		.meter = &device->meter,
		.key = 4711,
		.context = fake.context,
		.stream_key = launch_stream_key(S1),
		.now_ns = fake.now_ns,
		.expected_ns = MS,
		.known = true,
	};

	latch_prepare(device, fake.context);
	meter_park(&device->meter, fake.context, S1);
	fake_launch(S1, 10 * MS); /* the program's wait */
	launch.latches = may();
	CHECK(launch.latches);
	meter_begin(&launch);
	fake_launch(S1, MS);
	meter_end(&launch, CUDA_SUCCESS);
}

static const struct fake_log *last_wait(void)
{
	const struct fake_log *log = NULL;

	for (unsigned int i = 0; i < fake.logged; i++)
		if (fake.log[i].what == FAKE_WAIT)
			log = &fake.log[i];
	CHECK(log);
	return log;
}

static uint32_t *last_word(void)
{
	return (uint32_t *)(uintptr_t)(last_wait()->at - AT);
}

/* What the stream was last to wait for is written: as the driver compares. */
static bool is_open(void)
{
	return (int32_t)(*last_word() - last_wait()->value) >= 0;
}

static void check_may(void)
{
	begin();
	tell_turn(false);
	CHECK(!may());
	for (int i = 0; i < 2; i++) { /* a context has its words once */
		latch_prepare(device, fake.context);
		CHECK(may() && fake.hosts == 1);
	}
	turn->flags = TURN_CONTENDED | TURN_FIRST;
	CHECK(!may());
	turn->flags = 0;
	CHECK(!may());
	turn->flags = TURN_CONTENDED;
	atomic_store(&state->monitor.stop, 1);
	CHECK(!may());
	/* Where the driver gives no words it is asked once. */
	begin();
	tell_turn(false);
	fake.context = FAKE_CONTEXT(1);
	fake.host_error = CUDA_ERROR_OUT_OF_MEMORY;
	latch_prepare(device, fake.context);
	fake.host_error = CUDA_SUCCESS;
	latch_prepare(device, fake.context);
	CHECK(!may() && !fake.hosts);
	latch_context_left(device, FAKE_CONTEXT(0), true);
	latch_context_left(device, FAKE_CONTEXT(1), true);
	/* Nor while a stream waits for the program: the driver might wait for that. */
	meter_park(&device->meter, fake.context, S1);
	latch_prepare(device, fake.context);
	CHECK(!may() && !fake.hosts);
}

/* Launches behind a wait of 10 ms, which is over then. Ours would take long if nobody ended it. */
static void wait_is_over(void)
{
	begin();
	tell_turn(false);
	fake.wait_ns = 1000 * MS;
	launch_behind_wait();
	CHECK(is_latched());
	collect_done(&device->meter);
	latch_look(device, fake.now_ns);
	CHECK(!is_open() && !meter_works(&device->meter)); /* the program has it wait */
	fake_pass(10 * MS);
	tell_turn(false);
	device->meter.time->demand_until_ns = 0;
	collect_done(&device->meter);
	latch_look(device, fake.now_ns);
	CHECK(!is_open() && !meter_works(&device->meter));
	CHECK(device->meter.time->demand_until_ns > fake.now_ns);
	CHECK(is_latched());
}

static void end(void)
{
	fake_pass(fake_done_ns(S1) - fake.now_ns);
	collect_done(&device->meter);
	CHECK(!meter_is_pending(&device->meter));
	latch_context_left(device, FAKE_CONTEXT(0), true);
}

/* The wait for the program, an event, ours, an event, the work; which goes in the tenant's turn. */
static void check_turn(void)
{
	static const enum fake_what order[] = {FAKE_LAUNCH, FAKE_RECORD, FAKE_WAIT, FAKE_RECORD,
					       FAKE_LAUNCH};
	unsigned int k = 0;

	wait_is_over();
	for (unsigned int i = 0; i < fake.logged && k < 5; i++)
		if (fake.log[i].stream == S1)
			CHECK_EQ(fake.log[i].what, order[k++]);
	tell_turn(true);
	latch_look(device, fake.now_ns);
	CHECK(is_open());
	CHECK(device->meter.time->work_until_ns > fake.now_ns);
	end();
}

/* Work in flight may wait for it, memory is to leave, or its context ends. */
static void check_opens(void)
{
	wait_is_over();
	device_time_say_late(device->meter.time, fake.now_ns, fake.now_ns + MS);
	latch_look(device, fake.now_ns);
	CHECK(is_open());
	end();
	wait_is_over();
	guest.swappable = true;
	atomic_store(&guest.pass.shut, PASS_SHUTTING);
	latch_look(device, fake.now_ns);
	CHECK(is_open());
	guest.swappable = false;
	atomic_store(&guest.pass.shut, PASS_OPEN);
	end();
	wait_is_over();
	latch_context_leaves(device, FAKE_CONTEXT(1));
	CHECK(!is_open());
	latch_context_leaves(device, FAKE_CONTEXT(0));
	CHECK(is_open());
	end();
	wait_is_over();
	latch_open_all(device);
	CHECK(is_open());
	end();
}

/* The context's words may go before its streams are forgotten. */
static void check_leaves(void)
{
	wait_is_over();
	latch_context_leaves(device, FAKE_CONTEXT(0));
	CHECK(is_open() && !may());
	*last_word() = 0; /* what shows who writes */
	tell_turn(true);
	latch_look(device, fake.now_ns);
	latch_open_all(device);
	CHECK_EQ(*last_word(), 0);
	latch_context_left(device, FAKE_CONTEXT(0), false); /* it did not end */
	tell_turn(false);
	CHECK(may());
	end();
}

/* Numbers wrap. */
static void check_numbers(void)
{
	static const uint32_t before[] = {INT32_MAX - 1, INT32_MAX, UINT32_MAX - 1, UINT32_MAX};

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		given = before[i];
		wait_is_over();
		CHECK(last_wait()->value);
		*last_word() = last_wait()->value - 2;
		tell_turn(true);
		latch_look(device, fake.now_ns);
		CHECK_EQ(*last_word(), last_wait()->value);
		end();
		wait_is_over();
		latch_open_all(device);
		CHECK(is_open());
		end();
	}
	given = 0;
}

/* A stream may take no such wait, or its event; the context has no latches from then on. */
static void check_refused(void)
{
	begin();
	tell_turn(false);
	fake.wait_error = CUDA_ERROR_NOT_SUPPORTED;
	launch_behind_wait();
	fake.wait_error = CUDA_SUCCESS;
	CHECK(!may());
	end();
	begin();
	tell_turn(false);
	fake.record_error = CUDA_ERROR_INVALID_HANDLE;
	launch_behind_wait();
	fake.record_error = CUDA_SUCCESS;
	CHECK(is_open() && !may());
	end();
}

int main(void)
{
	fake_guest(&guest, 500);
	fake_open(true);
	check_may();
	check_turn();
	check_opens();
	check_leaves();
	check_numbers();
	check_refused();
	return 0;
}
