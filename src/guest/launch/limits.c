/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/limits.h"

#include "base/number.h"
#include "base/word.h"
#include "guest/core/in_force.h"
#include "ledger/device_time.h"
#include "sched/tuning.h"

void limits_open(struct limits *limits, struct guest *guest)
{
	limits->turn = turn_of(guest->policy_map);
}

static void limits_take(struct limits *limits, struct guest *guest, const struct policy *policy)
{
	struct ledger_device_info info;
	int n = 0;

	for (; n < POLICY_DEVICES && !ledger_device_info(guest->ledger, n, &info); n++)
		atomic_store(&limits->share_permille[n], policy_share(policy, info.uuid));
	atomic_store(&limits->ndevices, (uint32_t)n);
	/* A tenant that is measured alone asks nobody. */
	atomic_store(&limits->compute, policy_limits_compute(policy) || guest->metered
					       ? policy->compute
					       : POLICY_COMPUTE_OFF);
	atomic_store(&limits->mode, policy->mode);
	atomic_store(&limits->controller, policy->controller);
	atomic_store(&limits->inflight_us, policy->inflight_us);
	atomic_store(&limits->slice_us, policy->slice_us);
}

/* As of now, and of all devices that the tenant has by now. */
static bool limits_is_fresh(const struct limits *limits, struct guest *guest, uint64_t generation)
{
	return atomic_load_explicit(&limits->generation, memory_order_acquire) == generation &&
	       !ledger_knows(guest->ledger, (int)atomic_load(&limits->ndevices));
}

/* Of threads that refresh at once, the last to write has looked again after writing. */
void limits_refresh(struct limits *limits, struct guest *guest)
{
	uint64_t now = guest_generation(guest);
	struct policy policy;

	while (!limits_is_fresh(limits, guest, now)) {
		/* Else the policy that was last read, or began with, stays in force. */
		if (in_force_policy(guest, &policy)) {
			if (atomic_load(&limits->generation))
				return;
			policy = guest->policy;
			in_force_lower(guest, &policy);
		}
		limits_take(limits, guest, &policy);
		atomic_store_explicit(&limits->generation, now, memory_order_release);
		now = guest_generation(guest);
	}
}

bool limits_none(const struct limits *limits, const struct guest *guest)
{
	return atomic_load(&limits->compute) == POLICY_COMPUTE_OFF ||
	       (atomic_load(&limits->mode) == POLICY_MODE_SPACE && atomic_load(&guest->space.confirmed));
}

uint64_t limits_slice_ns(const struct limits *limits)
{
	uint64_t asked = atomic_load(&limits->slice_us) * NS_PER_US, chosen;

	if (asked)
		return asked;
	chosen = atomic_load(&limits->slice_ns);
	return chosen ? chosen : CONTROLLER_SLICE_NS;
}

const struct controller *limits_controller(const struct limits *limits, int device,
					   struct share_params *ret_params)
{
	*ret_params = (struct share_params){
		.share_permille = limits_share(limits, device),
		.slice_ns = limits_slice_ns(limits),
		.blocks = atomic_load(&limits->blocks[device]),
	};
	if (!limits_capped(limits, device)) {
		/* A part of what others want, too; nobody arbitrates, so it is a cap. */
		uint32_t entitled = limits->turn ? word_read(&limits->turn->entitled_permille) : 0;

		ret_params->share_permille = entitled && entitled < 1000 ? entitled : 1000;
		return &controller_deficit;
	}
	return controller_by_id(atomic_load(&limits->controller));
}

void limits_bill(const struct limits *limits, struct ledger *ledger, int device, uint64_t from_ns,
		 uint64_t to_ns)
{
	struct device_time *time = device_time_of(ledger, device);
	struct share_params params;
	const struct controller *controller = limits_controller(limits, device, &params);
	uint64_t old, hot;

	do {
		old = word_read(&time->hot);
		hot = controller->bill(old, &params, from_ns, to_ns);
	} while (hot != old && !word_swap_if(&time->hot, old, hot));
}

static uint64_t limits_account_paid_ns(const struct limits *limits, struct ledger *ledger,
				       int device, uint64_t now_ns, uint64_t blocks)
{
	struct device_time *time = device_time_of(ledger, device);
	struct share_params params;
	const struct controller *controller = limits_controller(limits, device, &params);
	uint64_t old, hot, until;

	do {
		old = word_read(&time->hot);
		until = controller->admit(old, &params, now_ns, blocks, &hot);
	} while (hot != old && !word_swap_if(&time->hot, old, hot));
	return until;
}

static bool limits_is_silent(const struct limits *limits, uint64_t now_ns)
{
	return !limits->turn || turn_silent(limits->turn, now_ns, TUNING_SILENCE_NS);
}

uint64_t limits_paid_ns(const struct limits *limits, struct ledger *ledger, int device,
			uint64_t now_ns, uint64_t blocks, uint64_t *ret_own_ns)
{
	/* The arbiter died while others wanted the device: each keeps to the part it had. */
	bool orphan = limits->turn && limits_is_silent(limits, now_ns) &&
		      word_read(&limits->turn->flags) & TURN_CONTENDED;
	uint64_t latest = 0;

	*ret_own_ns = 0;
	for (int i = 0; i < (int)atomic_load(&limits->ndevices); i++) {
		bool own = i == device;
		uint64_t at;

		if (limits_share(limits, i) != limits_share(limits, device) ||
		    !(orphan || limits_capped(limits, i)))
			continue;
		at = limits_account_paid_ns(limits, ledger, i, now_ns, own ? blocks : 0);
		latest = max_u64(at, latest);
		if (own)
			*ret_own_ns = at;
	}
	return latest;
}

uint32_t limits_turn_flags(const struct limits *limits, uint64_t now_ns)
{
	return limits_is_silent(limits, now_ns) ? 0 : word_read(&limits->turn->flags);
}

uint64_t limits_urged_ns(const struct limits *limits)
{
	uint64_t part = word_read(&limits->turn->urgent_us) * NS_PER_US / TUNING_URGED_PART;

	return (uint64_t)clamp_i64((int64_t)part, TUNING_URGED_NS, TUNING_URGED_MOST_NS);
}

bool limits_not_our_turn(const struct limits *limits, uint64_t now_ns)
{
	return !limits_is_silent(limits, now_ns) &&
	       word_acquire(&limits->turn->open_until_ns) <= now_ns;
}

uint64_t limits_turn_ended_ns(const struct limits *limits, int device, uint64_t now_ns)
{
	bool awaited = limits_turn_flags(limits, now_ns) & TURN_AWAITED;

	if (awaited || device >= 32 || !limits_not_our_turn(limits, now_ns) ||
	    !(word_read(&limits->turn->shared) >> device & 1))
		return 0;
	return word_read(&limits->turn->open_until_ns);
}
