/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit: what a launch that asked lets through, and until when; and what of that takes its part of
 * one word, counted by whoever has the lock next.
 */
#include "guest/launch/credit.h"

#include "base/now.h"
#include "sched/tuning.h"
#include "tests/unit/fake_driver.h"

#define US NS_PER_US
#define MS NS_PER_MS

#define S1  FAKE_STREAM(1)
#define S2  FAKE_STREAM(2)
#define KEY 4711
#define ROOM (300 * US)

static struct guest guest;
static struct launch_device *device;
static struct launch_state *state;
static uint64_t now;

/* Nothing is in flight, and no launch asked. */
static void begin(void)
{
	fake_pass(10000 * MS);
	now = fake.now_ns;
	device = fake_launch_device(&guest);
	state = state_get(&guest);
	device->meter.nstreams = 2;
	for (int i = 0; i < 2; i++) {
		device->meter.stream[i].context = fake.context;
		device->meter.stream[i].key = (uint64_t)(uintptr_t)(i ? S2 : S1);
	}
}

static struct launch launch_of(CUstream stream, uint64_t expected_ns)
{
	return (struct launch){
		.stream = stream,
		.meter = &device->meter,
		.key = KEY,
		.context = fake.context,
		.stream_key = launch_stream_key(stream),
		.now_ns = now,
		.expected_ns = expected_ns,
		.known = true,
		.in = &device->meter.stream[stream == S2],
		.end = -1,
	};
}

static void give(bool rival, uint64_t until_ns)
{
	struct launch asked = launch_of(S1, 10 * US);

	asked.rival = rival;
	credit_give(device, &asked, ROOM, atomic_load(&state->bills), until_ns);
}

static bool lets_at(uint64_t at_ns)
{
	struct launch launch = launch_of(S1, 10 * US);

	launch.now_ns = at_ns;
	return credit_lets(state, device, &launch);
}

static void check_lets(void)
{
	struct launch launch;

	begin();
	CHECK(!lets_at(now)); /* nobody asked */
	give(false, UINT64_MAX);
	CHECK(lets_at(now + TUNING_CREDIT_ALONE_NS - 1));
	CHECK(!lets_at(now + TUNING_CREDIT_ALONE_NS));
	/* Beside others for less, and for no longer than the turn. */
	give(true, UINT64_MAX);
	CHECK(lets_at(now + TUNING_CREDIT_NS - 1));
	CHECK(!lets_at(now + TUNING_CREDIT_NS));
	launch = launch_of(S1, 10 * US);
	CHECK(credit_lets(state, device, &launch) && launch.rival);
	give(true, now + 10 * US);
	CHECK(!lets_at(now + 10 * US));
	/* As long as there is room, */
	give(false, UINT64_MAX);
	atomic_store(&device->window.due_ns, now + ROOM);
	CHECK(lets_at(now));
	atomic_store(&device->window.due_ns, now + ROOM + 1);
	CHECK(!lets_at(now));
	/* and nothing more is billed. */
	atomic_store(&device->window.due_ns, 0);
	atomic_fetch_add(&state->bills, 1);
	CHECK(!lets_at(now));
}

/* What takes longer than there is room may have to go alone. */
static void check_fits(void)
{
	struct launch brief, longer;

	begin();
	give(false, UINT64_MAX);
	brief = launch_of(S1, ROOM);
	longer = launch_of(S1, ROOM + 1);
	CHECK(credit_fits(device, &brief));
	CHECK(!credit_fits(device, &longer));
}

/* Two launches into one stream that took the lock: the next ones need not. */
static void open_credit(void)
{
	struct launch launch, other;

	begin();
	launch = launch_of(S1, 10 * US);
	other = launch_of(S2, 10 * US);
	give(false, UINT64_MAX);
	credit_open(device, &other);
	credit_open(device, &launch);
	CHECK(!credit_take(&launch)); /* not behind the first */
	credit_open(device, &launch);
}

static void check_take(void)
{
	struct stream *stream;
	struct launch launch, other;

	open_credit();
	launch = launch_of(S1, 10 * US);
	stream = launch.in;
	other = launch_of(S2, 10 * US);
	CHECK(credit_take(&launch));
	CHECK(!credit_take(&other));
	other = launch_of(S1, 10 * US);
	other.context = FAKE_CONTEXT(1);
	CHECK(!credit_take(&other));
	launch.now_ns = now + 5 * US;
	CHECK(credit_take(&launch));
	credit_count(&device->meter, stream);
	CHECK_EQ(stream->open.launches, 2);
	CHECK_EQ(stream->open.expected_ns, 20 * US);
	CHECK_EQ(stream->open.key, KEY);
	CHECK_EQ(stream->launched_ns, now + 5 * US);
	CHECK_EQ(device->meter.flying_ns, 20 * US);
	CHECK(!credit_take(&launch)); /* that is over */
	/* Of several keys none is learned of. */
	credit_open(device, &launch);
	CHECK(credit_take(&launch));
	launch.key++;
	CHECK(credit_take(&launch));
	credit_count(&device->meter, stream);
	CHECK_EQ(stream->open.key, 0);
}

/* No more than there is room for, and than the word counts. */
static void check_bounds(void)
{
	struct launch launch;
	int n = 0;

	open_credit();
	launch = launch_of(S1, 70 * US);
	while (credit_take(&launch))
		n++;
	CHECK_EQ(n, 2); /* of 200 us: alone that may be in flight uncounted */
	open_credit();
	launch = launch_of(S1, 1);
	for (n = 0; credit_take(&launch); n++)
		;
	CHECK_EQ(n, 255);
	/* A stream that is another's by now has none. */
	open_credit();
	launch = launch_of(S1, 10 * US);
	atomic_fetch_add(&launch.in->serial, 1);
	CHECK(!credit_take(&launch));
}

int main(void)
{
	fake_guest(&guest, 500);
	fake_open(true);
	check_lets();
	check_fits();
	check_take();
	check_bounds();
	return 0;
}
