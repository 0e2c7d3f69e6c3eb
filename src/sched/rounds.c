/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/rounds.h"

#include "base/now.h"
#include "base/number.h"

/* No sum of these overflows, whatever is asked. */
#define MOST_NS	    (100 * NS_PER_S)
#define WEIGHT_MOST (1 << 20)

/* Of two whose turns are off their weights by this part neither is off by a point. */
#define EVEN_PART 50

struct sums {
	uint64_t weight, prefer_ns, over_ns;
	bool is_long; /* all work for long at a time, and wait for it */
};

static uint64_t rounds_bounded(uint64_t ns)
{
	return min_u64(ns, MOST_NS);
}

static uint64_t rounds_weight(const struct rounds_tenant *t)
{
	return (uint64_t)clamp_i64(t->weight, 1, WEIGHT_MOST);
}

static struct sums rounds_sum(const struct rounds_tenant *tenant, int n)
{
	struct sums all = {.is_long = true};

	for (int i = 0; i < n; i++) {
		all.weight += rounds_weight(&tenant[i]);
		all.prefer_ns += rounds_bounded(tenant[i].prefer_ns);
		all.over_ns += rounds_bounded(tenant[i].over_ns);
		all.is_long &= tenant[i].burst_ns > 0;
	}
	return all;
}

/*
 * How long all others may have the device. By default a tenant's burst is done after the latency,
 * so that a step of a token loop takes no longer; what was asked is the wait alone.
 */
static uint64_t rounds_budget_ns(const struct rounds_params *params, const struct rounds_tenant *t)
{
	if (t->latency_ns)
		return rounds_bounded(t->latency_ns);
	return sat_sub_u64(params->latency_ns, t->burst_ns);
}

/*
 * The round in which all others have just that time. By default nobody's turns are shortened because
 * others' kernels are long.
 */
static uint64_t rounds_allowed_ns(const struct rounds_params *params, const struct sums *all,
				  const struct rounds_tenant *t)
{
	uint64_t others = all->weight - rounds_weight(t);
	uint64_t over_ns = t->latency_ns ? all->over_ns - rounds_bounded(t->over_ns) : 0;

	return sat_sub_u64(rounds_budget_ns(params, t), over_ns) * all->weight / others;
}

/* The round of those that asked for a latency, and that of the others, which is to be cheap, too. */
static uint64_t rounds_length_ns(const struct rounds_params *params,
				 const struct rounds_tenant *tenant, int n, const struct sums *all)
{
	uint64_t asked = UINT64_MAX, usual = UINT64_MAX;
	uint64_t cheap = (uint64_t)n * (all->is_long ? params->cheap_long_ns : params->cheap_ns);

	for (int i = 0; i < n; i++) {
		uint64_t ns = rounds_allowed_ns(params, all, &tenant[i]);

		if (tenant[i].latency_ns)
			asked = min_u64(asked, ns);
		else
			usual = min_u64(usual, ns);
	}
	return min_u64(all->prefer_ns, min_u64(asked, max_u64(usual, cheap)));
}

static uint64_t rounds_slice_ns(const struct rounds_params *params, const struct sums *all,
				uint64_t round_ns, const struct rounds_tenant *t)
{
	return max_u64(round_ns * rounds_weight(t) / all->weight, params->least_ns);
}

/* How long a turn of a tenant keeps the others from the device. */
static uint64_t rounds_keeps_ns(const struct rounds_params *params, const struct sums *all,
				uint64_t round_ns, const struct rounds_tenant *t)
{
	return rounds_slice_ns(params, all, round_ns, t) + rounds_bounded(t->over_ns);
}

/*
 * The latest ends of a turn of `of` that keep the latency of each other tenant: that less the turns
 * of the rest. A latency that the round exceeds, as it would cost too much, ends no turn.
 */
static void rounds_bound_turn(const struct rounds_params *params, const struct rounds_tenant *tenant,
			      int n, const struct sums *all, uint64_t round_ns, int of,
			      struct rounds_turn *turn)
{
	uint64_t rest_ns = params->hand_over_ns;

	for (int i = 0; i < n; i++)
		rest_ns += i != of ? rounds_keeps_ns(params, all, round_ns, &tenant[i]) : 0;
	for (int i = 0; i < n; i++) {
		uint64_t others_ns, end_ns;

		if (i == of)
			continue;
		others_ns = rest_ns - rounds_keeps_ns(params, all, round_ns, &tenant[i]);
		end_ns = sat_sub_u64(rounds_budget_ns(params, &tenant[i]), others_ns);
		if (tenant[i].latency_ns)
			turn->asked_end_ns = min_u64(turn->asked_end_ns,
						     max_u64(end_ns, params->least_ns));
		else if (rounds_allowed_ns(params, all, &tenant[i]) >= round_ns)
			turn->usual_end_ns = min_u64(turn->usual_end_ns, end_ns);
	}
}

struct rounds_turn rounds_turn_of(const struct rounds_params *params,
				  const struct rounds_tenant *tenant, int n, int of)
{
	struct sums all = rounds_sum(tenant, n);
	struct rounds_turn turn = {rounds_bounded(tenant[of].prefer_ns), UINT64_MAX, UINT64_MAX};
	uint64_t round_ns;

	if (n < 2)
		return turn;
	round_ns = rounds_length_ns(params, tenant, n, &all);
	turn.slice_ns = rounds_slice_ns(params, &all, round_ns, &tenant[of]);
	rounds_bound_turn(params, tenant, n, &all, round_ns, of, &turn);
	return turn;
}

uint64_t rounds_least_turn_ns(const struct rounds_params *params, uint64_t unit_ns,
			      uint64_t over_ns)
{
	return rounds_bounded(max_u64(params->least_ns + over_ns,
				      unit_ns + over_ns / 2 + params->hand_over_ns));
}

/*
 * It waits for one turn of each other tenant, and until the others have had as much by their weights
 * as its own turn is long; and it goes before others by one turn of theirs to be in time. With a
 * single other one, which has that with one turn, there is none to go before.
 */
uint64_t rounds_least_latency_ns(const struct rounds_params *params,
				 const struct rounds_tenant *tenant, int n, int of)
{
	uint64_t own = rounds_least_turn_ns(params, tenant[of].unit_ns, tenant[of].over_ns);
	uint64_t others = 0, weight = 0, longest = 0;

	for (int i = 0; i < n; i++) {
		uint64_t ns = rounds_least_turn_ns(params, tenant[i].unit_ns, tenant[i].over_ns);

		if (i == of)
			continue;
		others += ns;
		longest = max_u64(longest, ns);
		weight += rounds_weight(&tenant[i]);
	}
	own = own * weight / rounds_weight(&tenant[of]);
	if (n == 2 && own <= others + others / EVEN_PART)
		return others;
	return max_u64(others, own + longest);
}
