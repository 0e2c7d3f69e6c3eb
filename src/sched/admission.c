/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/admission.h"

#include "base/number.h"
#include "sched/controller.h"
#include "sched/tuning.h"

static struct admission admission_answer(enum admission_verdict verdict, uint64_t until_ns)
{
	return (struct admission){verdict, until_ns};
}

/*
 * Returns when a launch that waits for room looks next. Room may appear before it is expected, and
 * work in flight may wait for this launch, so it also looks in between.
 */
static uint64_t admission_room_look_ns(const struct admission_inputs *in)
{
	uint64_t left = sat_sub_u64(in->room_ns, in->now_ns);
	uint64_t wait = max_u64(left / 2, TUNING_GLANCE_NS);

	if (left < wait + TUNING_GLANCE_NS)
		wait = left;
	return in->now_ns + min_u64(wait, in->look_ns);
}

/*
 * First the tenant's conditions, then the launch's. While one is waited for another may change, so
 * a launch asks again after each wait.
 */
struct admission admission_decide(const struct admission_inputs *in)
{
	if (in->awaited)
		return admission_answer(ADMISSION_GO, 0);
	if (!in->turn)
		return admission_answer(ADMISSION_WAIT_TURN, in->now_ns + TUNING_LOOK_NS);
	if (in->paid_ns && !in->stalls && !in->beside) {
		if (in->may_stall)
			return admission_answer(ADMISSION_STALL, in->paid_ns);
		return admission_answer(ADMISSION_WAIT_DEBT,
					min_u64(in->paid_ns, in->now_ns + TUNING_LOOK_NS));
	}
	if (in->room_ns && !in->beside && in->now_ns < in->patience_ns)
		return admission_answer(ADMISSION_WAIT_ROOM, admission_room_look_ns(in));
	if (!in->place)
		return admission_answer(ADMISSION_WAIT_ROOM, in->now_ns + TUNING_GLANCE_NS);
	return admission_answer(ADMISSION_GO, 0);
}

int64_t admission_paid_in_ns(int64_t share_permille, int64_t pause_ns)
{
	int64_t rest = share_permille < 1000 ? 1000 - share_permille : 1;

	return pause_ns * share_permille / rest;
}

static int64_t admission_pause_ns(const struct admission_pace *pace)
{
	int64_t even = TUNING_PAUSE_EVEN_NS * 1000 /
		       (uint64_t)(pace->share_permille ? pace->share_permille : 1);

	if (pace->uneven)
		return clamp_i64(even, 0, TUNING_PAUSE_MOST_NS);
	return pace->siblings ? TUNING_PAUSE_SIBLINGS_NS : TUNING_PAUSE_NS;
}

uint64_t admission_slice_ns(const struct admission_pace *pace)
{
	return (uint64_t)clamp_i64(
		admission_paid_in_ns(pace->share_permille, admission_pause_ns(pace)),
		CONTROLLER_SLICE_NS, CONTROLLER_LONG_SLICE_NS);
}

static uint64_t admission_alone_ns(int64_t share)
{
	int64_t part = clamp_i64(admission_paid_in_ns(share, TUNING_WINDOW_ALONE_PAUSE_NS),
				 TUNING_WINDOW_ALONE_LEAST_NS, TUNING_WINDOW_ALONE_MOST_NS);
	int64_t large = clamp_i64(admission_paid_in_ns(share, TUNING_WINDOW_LARGE_PAUSE_NS), 0,
				  TUNING_WINDOW_LARGE_MOST_NS);

	return (uint64_t)(large > part ? large : part);
}

/*
 * All processes of a tenant together have no more in flight than is paid for soon. Otherwise they
 * would work and pause in rounds that are as many times as long as there are processes. Each has
 * its part.
 */
uint64_t admission_window_ns(const struct admission_window *window)
{
	int64_t n = window->processes, share = window->share_permille;
	uint64_t asked = window->asked_ns / window->processes;

	if (window->asked_ns)
		return asked ? asked : 1;
	if (window->contended)
		return TUNING_WINDOW_NS / window->processes;
	if (n == 1)
		return admission_alone_ns(share);
	return (uint64_t)clamp_i64(admission_paid_in_ns(share, TUNING_WINDOW_SIBLINGS_PAUSE_NS) / n,
				   TUNING_WINDOW_NS / n, TUNING_WINDOW_SIBLINGS_MOST_NS);
}
