/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deficit: run, measure, and pay for exactly what was used. The hot word is the instant at which
 * everything used so far is paid for; work of b moves it on by b / share. A tenant that is ahead of
 * it owes, and waits for it. One that is behind has credit, which is capped, so that idleness
 * saves nothing up. Once held, a tenant is held until it can work for a slice: going on and off in
 * small steps would cost the device a drained queue each time.
 *
 * The word carries the share that it was reckoned with, so that a change of the share applies to
 * debts, too: who sees another share in it converts it on the way.
 */
#include "share/controller.h"

#include <stdbool.h>

/* Instants in units of 8 ns: 53 bits last for two years of uptime. */
#define UNIT_NS	      8
#define HELD	      (UINT64_C(1) << 10)
#define PERMILLE_MASK (HELD - 1)
#define PAID_SHIFT    11

/* Credit beyond a slice's: what a late wake-up loses is made up for afterwards. */
#define SLACK_NS UINT64_C(10000000)
/* No debt is paid for longer: a share of 1 % and a kernel of 10 s, or damage. */
#define DEBT_MAX_NS (UINT64_C(1000) * 1000000000)

struct account {
	uint64_t paid_ns; /* see above */
	bool held;
};

static uint64_t share_of(const struct share_params *params)
{
	uint64_t share = params->share_permille;

	return share < 1 ? 1 : share > 1000 ? 1000 : share;
}

/* How far ahead of the clock a tenant must be to work for a slice without owing. */
static uint64_t slice_credit_ns(const struct share_params *params)
{
	uint64_t share = share_of(params);

	return params->slice_ns * (1000 - share) / share;
}

static uint64_t credit_max_ns(const struct share_params *params)
{
	return slice_credit_ns(params) + SLACK_NS;
}

static struct account unpack(uint64_t hot, const struct share_params *params, uint64_t now_ns)
{
	uint64_t paid = (hot >> PAID_SHIFT) * UNIT_NS, was = hot & PERMILLE_MASK;
	uint64_t least = now_ns > credit_max_ns(params) ? now_ns - credit_max_ns(params) : 0;
	struct account account = {.paid_ns = paid, .held = hot & HELD};

	if (!hot)
		return (struct account){.paid_ns = least};
	if (was != share_of(params) && paid > now_ns)
		account.paid_ns = now_ns + (paid - now_ns) * was / share_of(params);
	if (account.paid_ns < least)
		account.paid_ns = least;
	if (account.paid_ns > now_ns + DEBT_MAX_NS)
		account.paid_ns = now_ns + DEBT_MAX_NS;
	return account;
}

static uint64_t pack(struct account account, const struct share_params *params)
{
	return account.paid_ns / UNIT_NS << PAID_SHIFT | (account.held ? HELD : 0) | share_of(params);
}

static uint64_t bill(uint64_t hot, const struct share_params *params, uint64_t from_ns,
		     uint64_t to_ns)
{
	struct account account = unpack(hot, params, from_ns);
	uint64_t busy = to_ns > from_ns ? to_ns - from_ns : 0;

	if (busy > DEBT_MAX_NS / 1000)
		busy = DEBT_MAX_NS / 1000;
	account.paid_ns += busy * 1000 / share_of(params);
	return pack(account, params);
}

static uint64_t admit(uint64_t hot, const struct share_params *params, uint64_t now_ns,
		      uint64_t blocks, uint64_t *ret_hot)
{
	struct account account = unpack(hot, params, now_ns);
	uint64_t open_ns;

	if (account.paid_ns > now_ns)
		account.held = true;
	open_ns = account.paid_ns + (account.held ? slice_credit_ns(params) : 0);
	if (open_ns <= now_ns)
		account.held = false;
	*ret_hot = pack(account, params);
	return open_ns <= now_ns ? 0 : open_ns;
}

static int64_t debt_ns(uint64_t hot, const struct share_params *params, uint64_t now_ns)
{
	struct account account = unpack(hot, params, now_ns);

	return ((int64_t)account.paid_ns - (int64_t)now_ns) * (int64_t)share_of(params) / 1000;
}

const struct controller controller_deficit = {
	.name = "deficit",
	.bill = bill,
	.admit = admit,
	.debt_ns = debt_ns,
};
