/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bucket: a token is a block of a grid. The hot word is the number of tokens, and a launch takes
 * its blocks when there is no debt of them. The tokens of each tick are raised and lowered by the
 * distance of NVML's utilisation from the share. HAMi-core's method, for comparison and for moving
 * from it.
 *
 * Kernels differ by orders of magnitude in the time that a block takes, so the tokens of a tick are
 * changed by a part of themselves. Blind for the time of a sample, it overshoots when the load
 * changes.
 */
#include "base/now.h"
#include "base/number.h"
#include "sched/controller.h"

#define TICK_NS (120 * NS_PER_MS)
#define WAIT_NS (10 * NS_PER_MS)

/* Parts of a token, so that a long kernel of few blocks can be paid for over many ticks. */
#define PARTS 256

/* The default for a device that does not tell its number, and the most that one is believed. */
#define BLOCKS_DEFAULT 2048
#define BLOCKS_MAX     (UINT64_C(1) << 20)

/* No block is shorter than this, which limits the tokens of a tick; a fresh bucket assumes so. */
#define SHORTEST_NS NS_PER_US
#define FRESH_NS    (10 * NS_PER_MS)

/* A debt is paid off within this many ticks, two minutes, whatever it was. */
#define DEBT_TICKS 1024

/* A difference of all of the device's time changes a tick's tokens by 1000 / GAIN of it. */
#define GAIN 2500

enum {
	COLD_BRINGS, /* parts of tokens that a tick brings; 0 fresh */
};

static int64_t bucket_full(const struct share_params *params, uint64_t block_ns)
{
	uint64_t blocks = params->blocks ? params->blocks : BLOCKS_DEFAULT;

	if (blocks > BLOCKS_MAX)
		blocks = BLOCKS_MAX;
	return (int64_t)(blocks * PARTS * (TICK_NS / block_ns));
}

static int64_t bucket_brings(const uint64_t cold[CONTROLLER_COLD],
			     const struct share_params *params)
{
	uint64_t now = cold[COLD_BRINGS], most = (uint64_t)bucket_full(params, SHORTEST_NS);

	if (!now)
		return bucket_full(params, FRESH_NS);
	return (int64_t)(now < most ? now : most);
}

static uint64_t bucket_admit(uint64_t hot, const struct share_params *params, uint64_t now_ns,
			     uint64_t blocks, uint64_t *ret_hot)
{
	int64_t left = (int64_t)hot, most = bucket_full(params, SHORTEST_NS);
	int64_t takes = (int64_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX) * PARTS;

	*ret_hot = hot;
	if (params->share_permille >= 1000)
		return 0;
	if (left < 0)
		return now_ns + WAIT_NS;
	*ret_hot = (uint64_t)((left < most ? left : most) - takes);
	return 0;
}

static void bucket_steer(uint64_t cold[CONTROLLER_COLD], const struct share_params *params,
			 uint64_t now_ns, unsigned int utilisation_percent)
{
	int64_t got = utilisation_percent < 100 ? utilisation_percent * 10 : 1000;
	int64_t asked = params->share_permille < 1000 ? params->share_permille : 1000;
	int64_t tokens = bucket_brings(cold, params), most = bucket_full(params, SHORTEST_NS);

	/* Rounded up, or a bucket that brings little would never bring more. */
	tokens += (tokens * (asked - got) + (asked > got ? GAIN - 1 : 0)) / GAIN;
	cold[COLD_BRINGS] = (uint64_t)(tokens < 1 ? 1 : tokens < most ? tokens : most);
}

static uint64_t bucket_refill(uint64_t hot, const uint64_t cold[CONTROLLER_COLD],
			      const struct share_params *params, uint64_t now_ns)
{
	int64_t tokens = bucket_brings(cold, params), left = (int64_t)hot;

	if (left < -tokens * DEBT_TICKS)
		left = -tokens * DEBT_TICKS;
	left = left < tokens ? left + tokens : tokens;
	return (uint64_t)(left < tokens ? left : tokens);
}

static uint64_t bucket_tokens(uint64_t hot, const struct share_params *params, uint64_t now_ns)
{
	return (uint64_t)clamp_i64((int64_t)hot, 0, bucket_full(params, SHORTEST_NS)) / PARTS;
}

const struct controller controller_bucket = {
	.id = CONTROLLER_BUCKET,
	.name = "bucket",
	.tick_ns = TICK_NS,
	.bill = controller_bill_nothing,
	.admit = bucket_admit,
	.steer = bucket_steer,
	.refill = bucket_refill,
	.tokens = bucket_tokens,
};
