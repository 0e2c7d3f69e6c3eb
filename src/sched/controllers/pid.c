/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID: launches keep a distance, which an incremental PID changes by how far NVML's utilisation
 * is from the share. The hot word is the next instant at which a launch may start, and the
 * distance. For comparison, and for moving from systems that insert delays.
 *
 * The distance that a share needs is a multiple of the kernel's length, and those differ by orders
 * of magnitude: each change is a part of the distance.
 */
#include "sched/controller.h"

#include "base/now.h"
#include "base/number.h"

#define TICK_NS (200 * NS_PER_MS)

/*
 * 40 bits of instant and 24 of distance, in microseconds. The instant wraps around after days, and
 * is the one that is nearest to now.
 */
#define UNIT_NS		 1000
#define DISTANCE_BITS	 24
#define DISTANCE_MASK	 ((UINT64_C(1) << DISTANCE_BITS) - 1)
#define DISTANCE_MAX_NS	 ((int64_t)(16 * NS_PER_S))
/* Changes are a part of the distance and this, or 0 would stay 0. */
#define DISTANCE_STEP_NS 50000

/* A fresh one's, so that neither short kernels nor long ones wait long for the first effect. */
#define DISTANCE_FRESH_NS 1000000

/* Gains, in thousandths, on differences in thousandths. */
#define GAIN_PROPORTIONAL 150
#define GAIN_INTEGRAL	  500
#define GAIN_DERIVATIVE	  50

enum {
	COLD_DISTANCE_NS,
	COLD_ERROR, /* the last one, permille of too much, and the one before */
	COLD_ERROR_BEFORE,
	COLD_STARTED,
};

static uint64_t pid_admit(uint64_t hot, const struct share_params *params, uint64_t now_ns,
			  uint64_t blocks, uint64_t *ret_hot)
{
	int64_t distance = (int64_t)(hot & DISTANCE_MASK);
	uint64_t now = now_ns / UNIT_NS;
	int64_t wait = (int64_t)(((hot >> DISTANCE_BITS) - now) << DISTANCE_BITS);

	*ret_hot = hot;
	if (params->share_permille >= 1000 || !distance)
		return 0;
	/* A launch waits for one distance at most; the word may be of another one, or damaged. */
	wait = clamp_i64(wait >> DISTANCE_BITS, 0, distance);
	if (wait)
		return (now + (uint64_t)wait) * UNIT_NS;
	*ret_hot = (now + (uint64_t)distance) << DISTANCE_BITS | (uint64_t)distance;
	return 0;
}

static void pid_steer(uint64_t cold[CONTROLLER_COLD], const struct share_params *params,
		      uint64_t now_ns, unsigned int utilisation_percent)
{
	int64_t got = utilisation_percent < 100 ? utilisation_percent * 10 : 1000;
	int64_t asked = params->share_permille < 1000 ? params->share_permille : 1000;
	int64_t error = got - asked, last = clamp_i64((int64_t)cold[COLD_ERROR], -1000, 1000);
	int64_t before = clamp_i64((int64_t)cold[COLD_ERROR_BEFORE], -1000, 1000);
	int64_t distance = clamp_i64((int64_t)cold[COLD_DISTANCE_NS], 0, DISTANCE_MAX_NS);
	int64_t change = GAIN_PROPORTIONAL * (error - last) + GAIN_INTEGRAL * error +
			 GAIN_DERIVATIVE * (error - 2 * last + before);

	if (!cold[COLD_STARTED])
		distance = DISTANCE_FRESH_NS;
	distance += (distance + DISTANCE_STEP_NS) * change / 1000000;
	cold[COLD_DISTANCE_NS] = (uint64_t)clamp_i64(distance, 0, DISTANCE_MAX_NS);
	cold[COLD_ERROR_BEFORE] = (uint64_t)last;
	cold[COLD_ERROR] = (uint64_t)error;
	cold[COLD_STARTED] = 1;
}

static uint64_t pid_refill(uint64_t hot, const uint64_t cold[CONTROLLER_COLD],
			   const struct share_params *params, uint64_t now_ns)
{
	int64_t distance = clamp_i64((int64_t)cold[COLD_DISTANCE_NS], 0, DISTANCE_MAX_NS);

	return (hot & ~DISTANCE_MASK) | (uint64_t)(distance / UNIT_NS);
}

const struct controller controller_pid = {
	.id = CONTROLLER_PID,
	.name = "pid",
	.tick_ns = TICK_NS,
	.bill = controller_bill_nothing,
	.admit = pid_admit,
	.steer = pid_steer,
	.refill = pid_refill,
};
