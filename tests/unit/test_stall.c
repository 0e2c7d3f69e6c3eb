/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses that the device makes, before a driver that the test plays: when a launch may go behind
 * one, in which order things are put into the stream, and that nothing ever waits for a word that
 * nobody writes.
 */
#include "guest/launch/stall.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "guest/launch/monitor.h"
#include "guest/meter/meter.h"
#include "ledger/device_time.h"
#include "ledger/turn.h"
#include "sched/tuning.h"
#include "tests/unit/fake_driver.h"

#define US NS_PER_US
#define MS NS_PER_MS

#define S1    FAKE_STREAM(1)
#define S2    FAKE_STREAM(2)
#define PAUSE (50 * MS)
#define AT    0x1000000000 /* the device sees a word so much higher, see fake_driver.c */

static struct guest guest;
static struct launch_device *device;
static struct launch_state *state;
static struct stall *stall;
static struct device_time *block;

/* Nothing was launched, nobody owes anything, and a monitor is believed to run. */
static void begin(void)
{
	fake = (struct fake){.now_ns = fake.now_ns + 10000 * MS, .context = FAKE_CONTEXT(0)};
	device = fake_launch_device(&guest);
	stall = &device->stall;
	state = state_get(&guest);
	block = device->meter.time;
	block->hot = block->throttles = block->throttled_ns = 0;
	atomic_store(&state->monitor.started, 1);
	atomic_store(&state->monitor.stop, 0);
	fake_guest_turn(&guest)->beat_ns = 0;
}

static struct launch launch_in(CUstream stream)
{
	return (struct launch){
		.stream = stream,
		.meter = &device->meter,
		.key = 4711,
		.context = fake.context,
		.stream_key = launch_stream_key(stream),
		.now_ns = fake.now_ns,
		.expected_ns = 50 * US,
		.known = true,
	};
}

static void go(CUstream stream)
{
	struct launch launch = launch_in(stream);

	meter_begin(&launch);
	fake_launch(stream, 50 * US);
	meter_end(&launch, CUDA_SUCCESS);
}

static bool may(void)
{
	struct launch launch = launch_in(S1);

	return stall_may(state, device, &launch, fake.now_ns + PAUSE);
}

static bool begin_in(CUstream stream)
{
	struct launch launch = launch_in(stream);

	return stall_begin(&guest, device, &launch, fake.now_ns + PAUSE);
}

static uint32_t word(void)
{
	CHECK(fake.host);
	return *(const uint32_t *)fake.host;
}

/* Another process of the tenant launches, or does not any more. */
static void begin_sibling(void)
{
	atomic_store(&device->processes, 2);
	atomic_store(&device->counted_ns, UINT64_MAX / 2);
}

static void end_sibling(void)
{
	atomic_store(&device->processes, 1);
	atomic_store(&device->counted_ns, 0);
}

/* --- Who may ------------------------------------------------------------------------------- */

static void check_may(void)
{
	struct launch launch;

	begin();
	launch = launch_in(S1);
	CHECK(may());
	/* A pause that is worth it, */
	CHECK(!stall_may(state, device, &launch, fake.now_ns + TUNING_STALL_LEAST_NS));
	CHECK(stall_may(state, device, &launch, fake.now_ns + TUNING_STALL_LEAST_NS + 1));
	/* that is paid for by time, */
	atomic_store(&state->limits.controller, CONTROLLER_BUCKET);
	CHECK(!may());
	atomic_store(&state->limits.controller, CONTROLLER_DEFICIT);
	/* and ended by somebody; */
	atomic_store(&state->monitor.started, 2);
	CHECK(!may());
	atomic_store(&state->monitor.started, 1);
	atomic_store(&state->monitor.stop, 1);
	CHECK(!may());
	atomic_store(&state->monitor.stop, 0);
	/* no other tenant wants the device, */
	fake_guest_turn(&guest)->beat_ns = fake.now_ns;
	fake_guest_turn(&guest)->flags = TURN_CONTENDED;
	CHECK(!may());
	fake_guest_turn(&guest)->flags = 0;
	CHECK(may());
	/* nor another process of this one; */
	begin_sibling();
	CHECK(!may());
	end_sibling();
	/* it is known what it takes; */
	launch.known = false;
	CHECK(!stall_may(state, device, &launch, fake.now_ns + PAUSE));
	/* what is launched is brief. */
	device->window.costs.mean_ns = TUNING_STALL_LONG_NS;
	CHECK(!may());
	device->window.costs.mean_ns = TUNING_STALL_LONG_NS - 1;
	CHECK(may());
}

/* No other stream and no other device works beside it. */
static void check_beside(void)
{
	begin();
	go(S1);
	CHECK(may()); /* its own */
	go(S2);
	CHECK(!may());
	fake_pass(TUNING_STALL_BESIDE_NS - 1);
	CHECK(!may());
	fake_pass(1);
	CHECK(may());
	fake_guest_holds(&guest, 1, true);
	CHECK(!may());
	fake_guest_holds(&guest, 1, false);
	fake_guest_holds(&guest, 0, true);
	CHECK(may());
	fake_guest_holds(&guest, 0, false);
	atomic_store(&device->beside, true);
	CHECK(!may());
	/* A stream of that name in another context is another. */
	begin();
	fake.context = FAKE_CONTEXT(1);
	go(S1);
	fake.context = FAKE_CONTEXT(0);
	CHECK(!may());
}

/* --- The way of a pause -------------------------------------------------------------------- */

static void check_log(unsigned int i, enum fake_what what, CUstream stream)
{
	CHECK(i < fake.logged);
	CHECK_EQ(fake.log[i].what, what);
	CHECK(fake.log[i].stream == stream);
}

/* Work is closed, the stream waits, and work begins anew. */
static void check_begin(void)
{
	unsigned int was;
	uint64_t due, bell;

	begin();
	go(S1);
	go(S1);
	was = fake.logged;
	due = window_due_ns(&device->window);
	bell = atomic_load(&state->monitor.bell);
	CHECK(begin_in(S1));
	CHECK(stall_is_on(stall));
	CHECK_EQ(fake.logged, was + 2);
	check_log(was, FAKE_RECORD, S1);
	check_log(was + 1, FAKE_WAIT, S1);
	CHECK_EQ(fake.log[was + 1].at, (uintptr_t)fake.host + AT);
	CHECK_EQ(fake.log[was + 1].value, 1);
	CHECK_EQ(word(), 0);
	CHECK_EQ(atomic_load(&stall->before_ns), due);
	CHECK_EQ(stall_end_ns(stall, fake.now_ns), fake.now_ns + PAUSE);
	CHECK_EQ(stall_end_ns(stall, fake.now_ns + 2 * PAUSE), fake.now_ns + 2 * PAUSE);
	/* It counts as if the launch were held, once, and who ends it is told. */
	CHECK_EQ(block->throttles, 1);
	CHECK_EQ(block->throttled_ns, PAUSE);
	CHECK(atomic_load(&state->monitor.bell) != bell);
	fake_launch(S1, PAUSE); /* the stream waits */
	go(S1);
	check_log(was + 3, FAKE_RECORD, S1);
	check_log(was + 4, FAKE_LAUNCH, S1);
	CHECK(!meter_has_begun(&device->meter));
	/* What comes into the stream then is behind the wait already; */
	CHECK(begin_in(S1));
	CHECK_EQ(fake_count(FAKE_WAIT, NULL, was), 1);
	/* another stream waits for the same. */
	CHECK(begin_in(S2));
	CHECK_EQ(fake_count(FAKE_WAIT, S2, was), 1);
	CHECK_EQ(fake.log[fake.logged - 1].value, 1);
	CHECK_EQ(block->throttles, 1);
	CHECK_EQ(fake.hosts, 1);
	/* Its end lets both go; the next pause has a number of its own. */
	stall_end(device);
	CHECK(!stall_is_on(stall));
	CHECK_EQ(word(), 1);
	CHECK_EQ(stall_end_ns(stall, fake.now_ns), fake.now_ns);
	CHECK(begin_in(S2));
	CHECK_EQ(fake.log[fake.logged - 1].value, 2);
	CHECK_EQ(word(), 1);
	CHECK_EQ(block->throttles, 2);
	stall_end(device);
	CHECK_EQ(word(), 2);
	CHECK_EQ(fake.hosts, 1);
	/* No pause has the number of none. */
	stall->last = UINT32_MAX;
	CHECK(begin_in(S1));
	CHECK_EQ(fake.log[fake.logged - 1].value, 1);
	stall_end(device);
	CHECK_EQ(word(), 1);
	/* Where none is on nothing is written. */
	*(uint32_t *)fake.host = 4711;
	stall_end(device);
	CHECK_EQ(word(), 4711);
}

/* A monitor that looks sooner by itself need not be woken. */
static void check_monitor(void)
{
	uint32_t bell;

	begin();
	bell = atomic_load(&state->monitor.bell);
	atomic_store(&state->monitor.next_ns, fake.now_ns + PAUSE);
	CHECK(begin_in(S1));
	CHECK_EQ(atomic_load(&state->monitor.bell), bell);
	stall_end(device);
	atomic_store(&state->monitor.next_ns, fake.now_ns + PAUSE + 1);
	CHECK(begin_in(S1));
	CHECK(atomic_load(&state->monitor.bell) != bell);
	stall_end(device);
	/* One that has looked for the last time ends no pause: it is over at once. */
	atomic_store(&state->monitor.stop, 1);
	CHECK(begin_in(S1));
	CHECK(!stall_is_on(stall));
	CHECK_EQ(word(), 3);
}

/* --- Its end ------------------------------------------------------------------------------- */

static void *(*watch)(void *); /* what the monitor's thread does */

int __wrap_thread_start(void *(*run)(void *), void *arg);
int __wrap_thread_start(void *(*run)(void *), void *arg)
{
	watch = run;
	return 0;
}

/* The monitor looks once: where it would sleep it ends. */
static void end_monitor(void)
{
	atomic_store(&state->monitor.stop, 1);
}

/* It finds no arbiter's file, and answers when it would look again. */
static uint64_t look(void)
{
	static const char nowhere[] = "/nowhere/tenant";
	char dir[sizeof(guest.dir)];

	memcpy(dir, guest.dir, sizeof(dir));
	memcpy(guest.dir, nowhere, sizeof(nowhere));
	fake_futex_wait = end_monitor;
	if (!watch) {
		atomic_store(&state->monitor.started, 0);
		monitor_work(&guest);
		CHECK(watch);
	}
	watch(&guest);
	memcpy(guest.dir, dir, sizeof(dir));
	CHECK(atomic_load(&state->monitor.stop));
	atomic_store(&state->monitor.stop, 0);
	return atomic_load(&stall->until_ns);
}

static void owe(uint64_t ns)
{
	limits_bill(&state->limits, guest.ledger, 0, fake.now_ns, fake.now_ns + ns);
}

static void check_look(void)
{
	uint64_t until;

	begin();
	look();
	CHECK(begin_in(S1));
	/* It is not over. */
	until = fake.now_ns + PAUSE;
	fake_pass(PAUSE - 1);
	CHECK_EQ(look(), until);
	CHECK(stall_is_on(stall) && word() == 0);
	/* More is owed by now. */
	owe(1000 * MS);
	fake_pass(1);
	until = look();
	CHECK(stall_is_on(stall) && word() == 0);
	CHECK(until > fake.now_ns + 1500 * MS && until < fake.now_ns + 2500 * MS);
	fake_pass(until - fake.now_ns);
	/* It is others' turn. */
	fake_guest_turn(&guest)->beat_ns = fake.now_ns;
	fake_guest_turn(&guest)->open_until_ns = fake.now_ns;
	CHECK_EQ(look(), fake.now_ns + TUNING_TICK_NS);
	CHECK(stall_is_on(stall) && word() == 0);
	fake_pass(TUNING_TICK_NS);
	fake_guest_turn(&guest)->open_until_ns = fake.now_ns + MS;
	look();
	CHECK(!stall_is_on(stall));
	CHECK_EQ(word(), 1);
}

/* Siblings that take what is paid each time prolong no pause. */
static void check_look_beside_siblings(void)
{
	begin();
	CHECK(begin_in(S1));
	begin_sibling();
	owe(1000 * MS);
	fake_pass(PAUSE - 1);
	look();
	CHECK(stall_is_on(stall));
	fake_pass(1);
	look();
	CHECK(!stall_is_on(stall));
	end_sibling();
}

/* What was done before the pause is billed before it is asked what is owed. */
static void check_look_collects(void)
{
	begin();
	go(S1);
	fake_launch(S1, 900 * MS);
	go(S1);
	CHECK(begin_in(S1));
	fake_pass(1000 * MS);
	look();
	CHECK(!meter_works(&device->meter));
	CHECK(stall_is_on(stall));
}

/* --- A context that goes ------------------------------------------------------------------- */

static void check_context(void)
{
	const CUcontext context = FAKE_CONTEXT(0), other = FAKE_CONTEXT(1);
	const void *first;

	begin();
	CHECK(begin_in(S1));
	first = fake.host;
	stall_context_leaves(device, other);
	CHECK(stall_is_on(stall) && word() == 0);
	stall_context_left(device, other, true);
	CHECK(begin_in(S1));
	/* The word is written before it goes, or the end of the context would wait for ever. */
	stall_context_leaves(device, context);
	CHECK(!stall_is_on(stall));
	CHECK_EQ(word(), 1);
	CHECK(!begin_in(S1)); /* held */
	CHECK(!stall_is_on(stall));
	stall_context_leaves(device, context);
	stall_context_left(device, context, false);
	CHECK(!begin_in(S1)); /* another call is still at it */
	stall_context_left(device, context, false);
	CHECK(begin_in(S1));
	CHECK(fake.host == first);
	/* Another context of the device has none. */
	fake.context = other;
	CHECK(!begin_in(S2));
	fake.context = context;
	/* Gone: what comes is given its own. */
	stall_context_leaves(device, context);
	CHECK_EQ(word(), 2);
	stall_context_left(device, context, true);
	CHECK(!stall->context && !stall->word);
	fake.context = other;
	CHECK(begin_in(S2));
	CHECK(fake.host != first);
	CHECK_EQ(word(), 0);
	CHECK_EQ(fake.log[fake.logged - 1].at, (uintptr_t)fake.host + AT);
	CHECK_EQ(*(const uint32_t *)first, 2); /* nobody touches what went with it */
	stall_end(device);
	CHECK_EQ(*(const uint32_t *)first, 2);
	CHECK_EQ(word(), 3);
}

/* --- What the driver refuses --------------------------------------------------------------- */

static void check_no_word(void)
{
	begin();
	fake.host_error = CUDA_ERROR_OUT_OF_MEMORY;
	CHECK(!begin_in(S1));
	fake.host_error = CUDA_SUCCESS;
	CHECK(!begin_in(S1)); /* it is asked once */
	CHECK_EQ(fake.hosts, 0);
	CHECK(!stall_is_on(stall));
	begin();
	fake.pointer_error = CUDA_ERROR_INVALID_VALUE;
	CHECK(!begin_in(S1));
	CHECK_EQ(fake.hosts, 0);
	CHECK_EQ(block->throttles, 0);
	CHECK_EQ(fake.logged, 0);
}

static void check_no_wait(void)
{
	begin();
	fake.wait_error = CUDA_ERROR_NOT_SUPPORTED;
	CHECK(!begin_in(S1));
	CHECK(!stall_is_on(stall));
	fake.wait_error = CUDA_SUCCESS;
	CHECK(!begin_in(S1)); /* it is asked once */
	CHECK_EQ(fake_count(FAKE_WAIT, NULL, 0), 0);
}

/* It is held then, and that is counted when it is over. */
static void check_no_wait_counts(void)
{
	begin();
	fake.wait_error = CUDA_ERROR_NOT_SUPPORTED;
	CHECK(!begin_in(S1));
	CHECK_EQ(block->throttles, 0);
	CHECK_EQ(block->throttled_ns, 0);
}

/* Another stream waits already, and not for ever. */
static void check_no_wait_beside(void)
{
	begin();
	CHECK(begin_in(S1));
	fake.wait_error = CUDA_ERROR_NOT_SUPPORTED;
	CHECK(!begin_in(S2));
	stall_end(device);
	CHECK_EQ(word(), 1);
}

static void check_capture(void)
{
	begin();
	fake_capture(S2, true);
	go(S1);
	CHECK(begin_in(S1));
	CHECK_EQ(fake.spoiled, 0);
	CHECK_EQ(fake.mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	fake_capture(S2, false);
	stall_end(device);
}

/* A driver without the function, in a process of its own. */
static void check_no_function(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid) {
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
		return;
	}
	fake_guest(&guest, 500);
	fake_open(false);
	begin();
	CHECK(!begin_in(S1));
	CHECK_EQ(fake.hosts, 0);
	exit(0);
}

int main(void)
{
	check_no_function();
	fake_guest(&guest, 500);
	fake_open(true);
	check_may();
	check_beside();
	check_begin();
	check_monitor();
	check_look();
	check_look_beside_siblings();
	check_look_collects();
	check_context();
	check_no_word();
	check_no_wait();
	check_no_wait_counts();
	check_no_wait_beside();
	check_capture();
	return 0;
}
