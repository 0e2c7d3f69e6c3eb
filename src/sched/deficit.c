/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deficit: run, measure, and pay for exactly what was used. The hot word is the instant at which
 * everything used so far is paid for; work of b moves it on by b / share. A tenant that is ahead of
 * it owes, and waits for it. A tenant behind it has credit, which is capped, so that idleness saves
 * nothing up. Once held, a tenant is held until it can work for a slice: small steps would cost the
 * device a drained queue each time.
 *
 * The word contains the share that it was computed with, so that a change of the share applies to
 * debts, too: a process that sees another share converts the word.
 */
#include "sched/controller.h"

#include <stdbool.h>

#include "base/now.h"
#include "base/number.h"

/*
 * 53 bits of instant, in units of 8 ns, which wrap around every two years; an instant is the one
 * that is nearest to now. Below them whether the tenant is held, and the share.
 */
#define UNIT_NS	   8
#define PAID_SHIFT 11
#define HELD	   (UINT64_C(1) << 10)
#define SHARE_MASK (HELD - 1)

/* Credit beyond a slice's: time lost by a late wake-up is made up for afterwards. */
#define SLACK_NS ((int64_t)(10 * NS_PER_MS))
/* No debt is paid for longer: a share of 1 % and a kernel of 10 s, or damage. */
#define DEBT_MAX_NS  ((int64_t)(1000 * NS_PER_S))
#define SLICE_MAX_NS NS_PER_S

/* In time that has to pass: device time divided by the share. */
struct account {
	int64_t owed_ns; /* negative: credit */
	bool held;
};

static int64_t deficit_share_of(const struct share_params *params)
{
	return clamp_i64(params->share_permille, 1, 1000);
}

/* Credit that a tenant must have saved to work for a slice without owing. */
static int64_t deficit_slice_credit_ns(uint64_t slice_ns, int64_t share)
{
	int64_t most = slice_ns < SLICE_MAX_NS ? (int64_t)slice_ns : (int64_t)SLICE_MAX_NS;

	return most * (1000 - share) / share;
}

/*
 * The same for the longest slice, whatever was asked for: one process of a tenant may want other
 * slices than the next, or at another time, and credit for a long one is not lost to a short one.
 */
static int64_t deficit_credit_max_ns(const struct share_params *params, int64_t share)
{
	uint64_t slice_ns = params->slice_ns;

	return deficit_slice_credit_ns(max_u64(slice_ns, CONTROLLER_LONG_SLICE_NS), share) +
	       SLACK_NS;
}

static struct account deficit_unpack(uint64_t hot, const struct share_params *params,
				     uint64_t now_ns)
{
	int64_t share = deficit_share_of(params), was = (int64_t)(hot & SHARE_MASK);
	int64_t most = deficit_credit_max_ns(params, share);
	int64_t units = (int64_t)(((hot >> PAID_SHIFT) - now_ns / UNIT_NS) << PAID_SHIFT);
	int64_t owed_ns = (units >> PAID_SHIFT) * UNIT_NS - (int64_t)(now_ns % UNIT_NS);

	/* Fresh, or damaged. */
	if (was < 1 || was > 1000 || owed_ns > 2 * DEBT_MAX_NS)
		return (struct account){
			.owed_ns = -deficit_slice_credit_ns(params->slice_ns, share) - SLACK_NS};
	if (was != share) {
		owed_ns = clamp_i64(owed_ns, -deficit_credit_max_ns(params, was), DEBT_MAX_NS);
		owed_ns = owed_ns * was / share;
	}
	/* A tenant that has all of the device's time owes none of it. */
	return (struct account){
		.owed_ns = clamp_i64(owed_ns, -most, share == 1000 ? 0 : DEBT_MAX_NS),
		.held = share < 1000 && hot & HELD,
	};
}

static uint64_t deficit_pack(struct account account, const struct share_params *params,
			     uint64_t now_ns)
{
	uint64_t paid = (now_ns + (uint64_t)account.owed_ns) / UNIT_NS;

	return paid << PAID_SHIFT | (account.held ? HELD : 0) | (uint64_t)deficit_share_of(params);
}

static uint64_t deficit_bill(uint64_t hot, const struct share_params *params, uint64_t from_ns,
			     uint64_t to_ns)
{
	struct account account = deficit_unpack(hot, params, from_ns);
	uint64_t busy_ns = sat_sub_u64(to_ns, from_ns);

	if (busy_ns > (uint64_t)DEBT_MAX_NS)
		busy_ns = (uint64_t)DEBT_MAX_NS;
	account.owed_ns += (int64_t)busy_ns * 1000 / deficit_share_of(params);
	if (account.owed_ns > DEBT_MAX_NS)
		account.owed_ns = DEBT_MAX_NS;
	return deficit_pack(account, params, from_ns);
}

static uint64_t deficit_admit(uint64_t hot, const struct share_params *params, uint64_t now_ns,
			      uint64_t blocks, uint64_t *ret_hot)
{
	struct account account = deficit_unpack(hot, params, now_ns);
	int64_t slice_ns = deficit_slice_credit_ns(params->slice_ns, deficit_share_of(params));
	bool held = account.owed_ns > 0 || (account.held && account.owed_ns > -slice_ns);

	/* Time passes by itself: as long as nothing else changes, neither does the word. */
	if (held != account.held || (hot & SHARE_MASK) != (uint64_t)deficit_share_of(params)) {
		account.held = held;
		hot = deficit_pack(account, params, now_ns);
	}
	*ret_hot = hot;
	return held ? now_ns + (uint64_t)(account.owed_ns + slice_ns) : 0;
}

static int64_t deficit_debt_ns(uint64_t hot, const struct share_params *params, uint64_t now_ns)
{
	return deficit_unpack(hot, params, now_ns).owed_ns * deficit_share_of(params) / 1000;
}

static uint64_t deficit_tokens(uint64_t hot, const struct share_params *params, uint64_t now_ns)
{
	int64_t debt_ns = deficit_debt_ns(hot, params, now_ns);

	return debt_ns < 0 ? -(uint64_t)debt_ns : 0;
}

const struct controller controller_deficit = {
	.id = CONTROLLER_DEFICIT,
	.name = "deficit",
	.bill = deficit_bill,
	.admit = deficit_admit,
	.debt_ns = deficit_debt_ns,
	.tokens = deficit_tokens,
};
