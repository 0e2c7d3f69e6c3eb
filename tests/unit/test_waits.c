/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program waits, as the hooks tell it: whose work is measured to its end there. */
#include "guest/launch/waits.h"

#include "base/now.h"
#include "guest/launch/attach.h"
#include "guest/launch/state.h"
#include "tests/unit/fake_driver.h"

#define MS NS_PER_MS

static struct guest guest;

/* As the hook of a launch does. */
static void launched(CUcontext context, CUstream stream)
{
	struct launch_device *device;
	struct launch launch = {.stream = stream, .key = 1, .known = true, .expected_ns = MS / 5};

	fake.context = context;
	CHECK_EQ(attach_device(&guest, &launch.context, &device), CUDA_SUCCESS);
	launch.meter = &device->meter;
	launch.stream_key = launch_stream_key(stream);
	launch.now_ns = fake.now_ns;
	meter_begin(&launch);
	fake_launch(stream, MS / 5);
	meter_end(&launch, CUDA_SUCCESS);
}

/* Two contexts of a device that work at once are waited for one after the other. */
static void check_contexts(void)
{
	unsigned int since;

	/* Of the first round launches have ends of their own. */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 2; i++)
			launched(FAKE_CONTEXT(i), FAKE_STREAM(1 + i));
		fake_pass(MS / 10);
		since = fake.logged;
		for (int i = 0; i < 2; i++) {
			fake.context = FAKE_CONTEXT(i);
			waits_stream(&guest, FAKE_STREAM(1 + i), false, METER_WAIT);
			CHECK_EQ(fake_count(FAKE_RECORD, FAKE_STREAM(1 + i), since), round > 0);
		}
		fake_pass(MS / 5);
		for (int i = 0; i < 2; i++) {
			fake.context = FAKE_CONTEXT(i);
			waits_over(&guest, FAKE_STREAM(1 + i), false);
		}
	}
	/* Nothing was launched there. */
	fake.context = FAKE_CONTEXT(2);
	since = fake.logged;
	waits_stream(&guest, FAKE_STREAM(1), false, METER_WAIT);
	CHECK_EQ(fake_count(FAKE_RECORD, NULL, since), 0);
}

/* The program's own event tells the end of what its stream had, who waits for it or asks. */
static void check_event(void)
{
	CUevent event = (CUevent)&guest, other = (CUevent)&fake;
	CUstream s = FAKE_STREAM(5);
	struct meter *meter = &fake_launch_device(&guest)->meter;
	struct stream *stream;
	uint64_t asked;

	launched(FAKE_CONTEXT(0), s);
	fake_pass(MS / 5);
	waits_stream(&guest, s, false, METER_WAIT);
	waits_over(&guest, s, false);
	stream = meter_stream_of(meter, FAKE_CONTEXT(0), launch_stream_key(s));
	stream->prompt = true;
	launched(FAKE_CONTEXT(0), s);
	waits_record(&guest, event, s, false);
	asked = meter_asked_ns();
	CHECK(meter_is_open(meter, FAKE_CONTEXT(0), s, asked));
	waits_event_over(&guest, event); /* recorded anew elsewhere: the stream is not done */
	CHECK(meter_is_open(meter, FAKE_CONTEXT(0), s, asked));
	fake_pass(MS / 5);
	waits_event_over(&guest, other);
	CHECK(meter_is_open(meter, FAKE_CONTEXT(0), s, asked));
	waits_event_over(&guest, event);
	CHECK(!meter_is_open(meter, FAKE_CONTEXT(0), s, asked));
	CHECK(!meter_works(meter));
}

/* Work that is done after the tenant's turn: the arbiter is told at once, else now and then. */
static void check_rings(void)
{
	const uint32_t *bell = ledger_bell(guest.ledger);
	struct launch_device *device = state_device(&guest, 0);
	struct turn *turn = fake_guest_turn(&guest);
	CUstream s = FAKE_STREAM(6);
	uint32_t rung;

	for (int over = 0; over < 2; over++) {
		launched(FAKE_CONTEXT(0), s);
		turn->flags = TURN_CONTENDED;
		turn->beat_ns = fake.now_ns;
		waits_stream(&guest, s, false, METER_WAIT);
		turn->open_until_ns = over ? 0 : fake.now_ns + 10 * MS;
		fake_pass(MS / 5);
		turn->beat_ns = fake.now_ns;
		atomic_store(&device->rung_ns, fake.now_ns);
		rung = *bell;
		waits_over(&guest, s, false);
		CHECK_EQ(*bell - rung, over);
	}
	turn->beat_ns = 0;
}

int main(void)
{
	fake_open(true);
	fake_guest(&guest, 500);
	fake_launch_device(&guest);
	check_contexts();
	check_event();
	check_rings();
	return 0;
}
