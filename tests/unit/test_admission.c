/* SPDX-License-Identifier: Apache-2.0 */
/* Who may go, by numbers alone. */
#include "sched/admission.h"

#include "base/now.h"
#include "base/number.h"
#include "sched/controller.h"
#include "sched/tuning.h"
#include "tests/check.h"

#define US NS_PER_US
#define MS NS_PER_MS

static const struct admission_inputs free_to_go = {
	.now_ns = 1000 * MS, .turn = true, .place = true, .look_ns = 2 * MS, .patience_ns = 2000 * MS,
};

static void expect(struct admission_inputs in, enum admission_verdict verdict, uint64_t until_ns)
{
	struct admission is = admission_decide(&in);

	CHECK_EQ(is.verdict, verdict);
	CHECK_EQ(is.until_ns, until_ns);
}

static void check_decide(void)
{
	struct admission_inputs in = free_to_go;

	expect(in, ADMISSION_GO, 0);

	/* Another's turn comes before all else. */
	in.turn = false;
	in.beside = true;
	expect(in, ADMISSION_WAIT_TURN, 1020 * MS);

	/* A debt is waited for, but what changes meanwhile is looked at. */
	in = free_to_go;
	in.paid_ns = 1005 * MS;
	expect(in, ADMISSION_WAIT_DEBT, 1005 * MS);
	in.paid_ns = 5000 * MS;
	expect(in, ADMISSION_WAIT_DEBT, 1020 * MS);
	/* Where its stream can wait on the device it is queued; once it does it needs only room. */
	in.may_stall = true;
	expect(in, ADMISSION_STALL, 5000 * MS);
	in.stalls = true;
	expect(in, ADMISSION_GO, 0);
	in.room_ns = 1007 * MS;
	expect(in, ADMISSION_WAIT_ROOM, 1002 * MS);
	/* Beside work of other streams it takes no time of its own, owed or not. */
	in = free_to_go;
	in.paid_ns = 1005 * MS;
	in.beside = true;
	expect(in, ADMISSION_GO, 0);

	/* Room is waited for with patience, since work may wait for this launch. */
	in = free_to_go;
	in.room_ns = 1000 * MS + 300 * US;
	expect(in, ADMISSION_WAIT_ROOM, in.room_ns);
	in.patience_ns = 1000 * MS;
	expect(in, ADMISSION_GO, 0);
	/* Work that is late may wait for it, so nothing holds it. */
	in = free_to_go;
	in.awaited = true;
	in.paid_ns = 1005 * MS;
	in.room_ns = 1007 * MS;
	in.turn = in.place = false;
	expect(in, ADMISSION_GO, 0);
	in = free_to_go;
	in.place = false; /* which may be given back any moment */
	expect(in, ADMISSION_WAIT_ROOM, 1001 * MS);
}

/*
 * What is in flight may take less than is expected, far or by a bit, and may wait for this launch:
 * nobody sleeps through that. Answers how much later the end is seen, and how often it was looked
 * for.
 */
static uint64_t looks_late(uint64_t expected_ns, uint64_t took_ns, int *ret_looks)
{
	struct admission_inputs in = free_to_go;
	uint64_t from = in.now_ns;

	in.room_ns = from + expected_ns;
	in.patience_ns = UINT64_MAX;
	for (*ret_looks = 1; in.now_ns < from + took_ns; ++*ret_looks) {
		struct admission answer = admission_decide(&in);

		CHECK_EQ(answer.verdict, ADMISSION_WAIT_ROOM);
		CHECK(answer.until_ns > in.now_ns && answer.until_ns <= in.room_ns);
		in.now_ns = answer.until_ns;
	}
	return in.now_ns - from - took_ns;
}

static void check_looks(void)
{
	const uint64_t expected = 83 * MS;
	int looks;

	CHECK_EQ(looks_late(12 * MS, 12 * MS, &looks), 0);
	CHECK(looks <= 9);
	for (uint64_t took = MS / 2; took < expected; took += MS / 2) {
		CHECK(looks_late(expected, took, &looks) <= TUNING_AWAITED_LOOK_NS);
		CHECK(looks <= 6 + (int)(took / TUNING_AWAITED_LOOK_NS));
	}
}

/* No pause is too short to be worth two wake-ups, and none too long to show in a second. */
static void check_pace(void)
{
	struct admission_pace pace = {.share_permille = 900};

	CHECK_EQ(admission_slice_ns(&pace), 27 * MS);
	pace.share_permille = 500;
	CHECK_EQ(admission_slice_ns(&pace), CONTROLLER_SLICE_NS);
	pace.siblings = true;
	CHECK_EQ(admission_slice_ns(&pace), 10 * MS);
	pace.uneven = true;
	CHECK_EQ(admission_slice_ns(&pace), CONTROLLER_LONG_SLICE_NS);
	for (int64_t share = 0; share <= 1000; share++) {
		pace.share_permille = share;
		CHECK(admission_slice_ns(&pace) >= CONTROLLER_SLICE_NS);
		CHECK(admission_slice_ns(&pace) <= CONTROLLER_LONG_SLICE_NS);
	}
}

static void check_window(void)
{
	struct admission_window window = {.share_permille = 500, .processes = 1};

	CHECK_EQ(admission_window_ns(&window), TUNING_WINDOW_ALONE_MOST_NS);
	window.share_permille = 100;
	CHECK_EQ(admission_window_ns(&window), TUNING_WINDOW_ALONE_LEAST_NS);
	window.share_permille = 900;
	CHECK_EQ(admission_window_ns(&window), TUNING_WINDOW_LARGE_MOST_NS);
	window.contended = true;
	CHECK_EQ(admission_window_ns(&window), TUNING_WINDOW_NS);
	/* Together several have no more than is paid for soon. */
	window.processes = 4;
	CHECK_EQ(admission_window_ns(&window), TUNING_WINDOW_NS / 4);
	window.contended = false;
	window.share_permille = 500;
	CHECK_EQ(admission_window_ns(&window), TUNING_WINDOW_SIBLINGS_PAUSE_NS / 4);
	window.asked_ns = 2;
	CHECK_EQ(admission_window_ns(&window), 1);
}

int main(void)
{
	check_decide();
	check_looks();
	check_pace();
	check_window();
	return 0;
}
