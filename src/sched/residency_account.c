/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/residency_account.h"

#include "base/now.h"
#include "base/number.h"
#include "sched/residency_time.h"

#define DEVICES RESIDENCY_DEVICES

/* Accounts are in thousandths of a ns: a step divided by a large sum of weights is not 0. */
#define UNITS_OF_NS 1000
/* A tenant leaves for a rival when it is ahead of that by this part of a turn. */
#define LEAD_PART 2
/* No work is billed at once that took longer: a damaged figure. */
#define BILL_MOST_NS (60 * NS_PER_S)
/* Longer than anything is waited for: a sum of it and of a time does not wrap. */
#define LONGEST_NS (UINT64_C(1) << 62)

struct account_step {
	const struct residency_params *params;
	struct residency_tenant *tenant;
	int n, devices;
	uint64_t now_ns;
	uint64_t weights[DEVICES]; /* of all that run there ... */
	int running[DEVICES];	   /* ... as many as these */
	uint64_t billed_ns[DEVICES]; /* since the last step, to those together */
	bool unmetered[DEVICES];     /* it is not known of all that run there */
	bool contended[DEVICES];   /* somebody waits for it, or moves */
	bool runs[RESIDENCY_TENANTS];
	uint64_t turn_ns[RESIDENCY_TENANTS];
};

/* The tenants that one competes with, itself among them. */
struct account_rivals {
	uint64_t n, turn_ns; /* the longest turn of any of them */
	uint64_t weights, least_weight;
	uint64_t least, least_running; /* account; UINT64_MAX: of none */
};

static uint64_t account_weight(const struct residency_tenant *t)
{
	return t->weight ? t->weight : 1;
}

static uint64_t account_units(uint64_t ns, uint64_t weights)
{
	return ns * UNITS_OF_NS / weights;
}

static bool account_has(const struct residency_tenant *t, int d)
{
	return t->id && (residency_size(t, d) || t->more[d]);
}

/* True if it is there, or finishes what it had begun, and was not idle for long. */
static bool account_finds_running(const struct account_step *step, const struct residency_tenant *t,
				  uint64_t swap_ns)
{
	uint64_t idle = max_u64(swap_ns / step->params->idle_part, step->params->idle_least_ns);

	if (step->now_ns > max_u64(t->used_ns, t->came_ns) + idle)
		return false;
	return t->place == RESIDENCY_HERE ? !t->wants : t->place == RESIDENCY_LEAVING && !t->leaves;
}

/* The time that the device worked for it since the last step. Work is billed when it ends. */
static uint64_t account_billed_ns(const struct residency_tenant *t, int d)
{
	if (!t->metered || !t->counted_ns)
		return 0;
	return min_u64(sat_sub_u64(t->busy_ns[d], t->billed_ns[d]), BILL_MOST_NS);
}

static void account_look(struct account_step *step)
{
	for (int i = 0; i < step->n; i++) {
		const struct residency_tenant *t = &step->tenant[i];
		bool contends =
			t->wants || t->place == RESIDENCY_LEAVING || t->place == RESIDENCY_COMING;

		if (!t->id)
			continue;
		step->runs[i] = account_finds_running(step, t, residency_swap_ns(step->params, t));
		step->turn_ns[i] = residency_turn_ns(step->params, t, t);
		for (int d = 0; d < step->devices; d++) {
			if (!account_has(t, d))
				continue;
			step->contended[d] |= contends;
			step->weights[d] += step->runs[i] ? account_weight(t) : 0;
			step->running[d] += step->runs[i];
			step->billed_ns[d] += step->runs[i] ? account_billed_ns(t, d) : 0;
			step->unmetered[d] |= step->runs[i] && !t->metered;
		}
	}
}

/*
 * The rest of the time that a tenant had beside others, of its part of that time and of what all were
 * billed for meanwhile. They lose some of it by handing the device over, the more the more they work:
 * as much as a tenant's own work is nobody's. Programs that leave the device idle have what exceeds
 * that. It is less than nothing if more was billed than the time has, as work of two at once is.
 */
static int64_t account_rest(const struct residency_tenant *t, int d)
{
	if (t->beside_billed[d] > t->beside[d])
		return -(int64_t)(t->beside_billed[d] - t->beside[d]);
	return (int64_t)sat_sub_u64(t->beside[d] - t->beside_billed[d], t->beside_own[d]);
}

static int64_t account_rest_beside(struct residency_tenant *t, int d, uint64_t part, uint64_t billed,
				   uint64_t own)
{
	int64_t before = account_rest(t, d);

	t->beside[d] += part;
	t->beside_billed[d] += billed;
	t->beside_own[d] += own;
	return account_rest(t, d) - before;
}

/*
 * By how much the account moves on for a device: by the time, where the tenant runs alone, else by the
 * work that was billed, and the rest; by its weight. Where one is not metered, all have their part of
 * the time. Work is billed when it ends: after the tenant has left, too.
 */
static int64_t account_change(struct account_step *step, int i, int d)
{
	struct residency_tenant *t = &step->tenant[i];
	uint64_t own = account_units(account_billed_ns(t, d), account_weight(t)), part;

	if (!step->runs[i])
		return step->unmetered[d] ? 0 : (int64_t)own;
	part = account_units(step->now_ns - t->counted_ns, step->weights[d]);
	if (step->running[d] < 2 || step->unmetered[d])
		return (int64_t)part;
	return (int64_t)own + account_rest_beside(t, d, part,
						  account_units(step->billed_ns[d], step->weights[d]), own);
}

/* Of several devices the one that the tenant had the most of counts. */
static void account_add(struct account_step *step, int i)
{
	struct residency_tenant *t = &step->tenant[i];
	int64_t most = INT64_MIN;

	for (int d = 0; d < step->devices; d++) {
		if (!account_has(t, d))
			continue;
		if (t->counted_ns && step->weights[d])
			most = max_i64(most, account_change(step, i, d));
		if (step->contended[d])
			t->contended_ns = step->now_ns;
	}
	if (most >= 0)
		t->served = sat_add_u64(t->served, (uint64_t)most);
	else if (most != INT64_MIN)
		t->served = sat_sub_u64(t->served, (uint64_t)-most);
}

static void account_note_billed(const struct account_step *step, int i)
{
	struct residency_tenant *t = &step->tenant[i];

	for (int d = 0; t->metered && d < step->devices; d++)
		t->billed_ns[d] = t->busy_ns[d];
}

static bool account_competes(const struct account_step *step, const struct residency_tenant *a,
			     const struct residency_tenant *b)
{
	if (!b->id || !b->counted_ns || a->priority != b->priority)
		return false;
	for (int d = 0; d < step->devices; d++)
		if (account_has(a, d) && account_has(b, d))
			return true;
	return false;
}

static struct account_rivals account_find_rivals(const struct account_step *step,
						 const struct residency_tenant *t)
{
	struct account_rivals rivals = {.least_weight = account_weight(t),
					.least = UINT64_MAX,
					.least_running = UINT64_MAX};

	for (int i = 0; i < step->n; i++) {
		const struct residency_tenant *other = &step->tenant[i];

		if (!account_competes(step, t, other))
			continue;
		rivals.n++;
		rivals.turn_ns = max_u64(rivals.turn_ns, step->turn_ns[i]);
		rivals.weights += account_weight(other);
		rivals.least_weight = min_u64(rivals.least_weight, account_weight(other));
		rivals.least = min_u64(rivals.least, other->served);
		if (step->runs[i])
			rivals.least_running = min_u64(rivals.least_running, other->served);
	}
	return rivals;
}

/*
 * A tenant that cannot come for long keeps a claim of a round. Its account is raised: if those of
 * its rivals were lowered instead, they would become equal, whatever each had. So only a tenant in
 * nobody's way is ever two rounds ahead of all others.
 */
static void account_bound(struct residency_tenant *t, bool runs,
			  const struct account_rivals *rivals)
{
	uint64_t round = account_units(rivals->n * rivals->turn_ns, rivals->least_weight);
	uint64_t running = rivals->least_running;

	if (!rivals->n)
		return;
	if (!t->counted_ns)
		t->served = max_u64(t->served, running < UINT64_MAX ? running : rivals->least);
	else if (running < UINT64_MAX && !runs)
		t->served = max_u64(t->served, sat_sub_u64(running, round));
	t->served = min_u64(t->served, rivals->least + 2 * round);
}

/* An account is forgotten when nobody wanted its devices for as long as a round. */
static void account_settle(const struct account_step *step, int i)
{
	struct residency_tenant *t = &step->tenant[i];
	struct account_rivals rivals = account_find_rivals(step, t);

	t->turn_ns = rivals.turn_ns;
	t->round_ns = rivals.turn_ns * rivals.weights / rivals.least_weight;
	if (!t->contended_ns || step->now_ns > t->contended_ns + t->round_ns) {
		t->served = t->counted_ns = 0;
	} else if (t->place == RESIDENCY_AWAY && !t->wants) {
		t->counted_ns = 0;
	} else {
		account_bound(t, step->runs[i], &rivals);
		t->counted_ns = step->now_ns;
	}
	for (int d = 0; d < step->devices && !(step->runs[i] && t->counted_ns); d++)
		t->beside[d] = t->beside_billed[d] = 0;
}

static uint32_t account_entitled_permille(const struct account_step *step,
					  const struct residency_tenant *t)
{
	uint64_t all = 0;

	if (!t->id || !t->counted_ns)
		return 0;
	for (int i = 0; i < step->n; i++)
		if (account_competes(step, t, &step->tenant[i]))
			all += account_weight(&step->tenant[i]);
	return all ? (uint32_t)max_u64(account_weight(t) * 1000 / all, 1) : 0;
}

void residency_account_count(const struct residency_params *params, struct residency_tenant *tenant,
			     int n, int devices, uint64_t now_ns)
{
	struct account_step step = {
		.params = params, .tenant = tenant, .n = n, .devices = devices, .now_ns = now_ns};

	account_look(&step);
	for (int i = 0; i < n; i++)
		if (tenant[i].id) {
			account_add(&step, i);
			account_note_billed(&step, i);
		}
	for (int i = 0; i < n; i++)
		if (tenant[i].id)
			account_settle(&step, i);
	for (int i = 0; i < n; i++)
		tenant[i].entitled_permille = account_entitled_permille(&step, &tenant[i]);
}

uint64_t residency_account_left_ns(const struct residency_tenant *tenant,
				   const struct residency_tenant *comer, uint64_t turn_ns)
{
	uint64_t turn = max_u64(turn_ns, tenant->turn_ns);
	uint64_t weight = min_u64(account_weight(tenant), account_weight(comer));
	uint64_t lead = account_units(turn, weight) / LEAD_PART;
	double ns = (double)sat_sub_u64(comer->served + lead, tenant->served) *
		    (double)account_weight(tenant) / UNITS_OF_NS;

	return ns < (double)LONGEST_NS ? (uint64_t)ns : LONGEST_NS;
}
