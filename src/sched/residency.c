/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/residency.h"

#include <string.h>

#include "base/number.h"
#include "sched/residency_account.h"
#include "sched/residency_time.h"
#include "sched/tuning.h"

#define DEVICES RESIDENCY_DEVICES

const struct residency_params residency_defaults = {
	.turn_least_ns = TUNING_RESIDENCY_LEAST_NS,
	.turn_swaps = TUNING_RESIDENCY_SWAPS,
	.idle_least_ns = TUNING_RESIDENCY_IDLE_NS,
	.idle_part = TUNING_RESIDENCY_IDLE_PART,
	.patience_turns = TUNING_RESIDENCY_PATIENCE,
	.bytes_per_us = TUNING_RESIDENCY_BYTES_PER_US,
	.refuse_ns = TUNING_RESIDENCY_REFUSE_NS,
};

/*
 * What is on the devices, as it is planned to be; `now`: as it is, with what is on its way there;
 * `soon`: without what is on its way from there.
 */
struct residency_plan {
	const struct residency_params *params;
	struct residency_tenant *tenant;
	const struct residency_device *device;
	bool foresees; /* nobody leaves yet */
	int n, devices; /* up to the last that anybody has memory of */
	uint64_t now_ns;
	uint64_t now[DEVICES], soon[DEVICES], then[DEVICES];
};

/* --- How long ------------------------------------------------------------------------------- */

/*
 * What it takes in addition to what is there. Of one that is here something is away where a process
 * of it was stopped while it moved, and follows the others.
 */
static uint64_t residency_need(const struct residency_tenant *t, int d)
{
	return t->more[d] + t->away[d];
}

static uint64_t residency_scale(uint64_t ns, uint64_t bytes, uint64_t all)
{
	return bytes < all ? (uint64_t)((double)ns * ((double)bytes / (double)all)) : ns;
}

/* How long it takes that one makes room for the other, of which only a part may be away. */
static uint64_t residency_change_ns(const struct residency_plan *plan,
				    const struct residency_tenant *leaver,
				    const struct residency_tenant *comer)
{
	uint64_t leaves = 0, need = 0, away = 0, comes = 0;

	for (int d = 0; d < plan->devices; d++) {
		leaves += residency_size(leaver, d);
		need += residency_need(comer, d);
		away += comer->away[d];
		comes += residency_size(comer, d);
	}
	return residency_scale(residency_out_ns(plan->params, leaver), need, leaves) +
	       residency_scale(residency_back_ns(plan->params, comer), away, comes);
}

static uint64_t residency_turn_for_ns(const struct residency_plan *plan,
				      const struct residency_tenant *leaver,
				      const struct residency_tenant *comer)
{
	return residency_turn_of_ns(plan->params, residency_change_ns(plan, leaver, comer));
}

static bool residency_is_overdue(const struct residency_plan *plan,
				 const struct residency_tenant *t)
{
	uint64_t turns = plan->params->patience_turns * residency_turn_ns(plan->params, t, t);

	return plan->now_ns - t->waits_since_ns > max_u64(turns, 2 * t->round_ns);
}

static bool residency_is_idle(const struct residency_plan *plan, const struct residency_tenant *t,
			      const struct residency_tenant *comer)
{
	uint64_t most = residency_change_ns(plan, t, comer) / plan->params->idle_part;
	uint64_t last = t->used_ns > t->came_ns ? t->used_ns : t->came_ns;

	if (t->wants)
		return false;
	most = most > plan->params->idle_least_ns ? most : plan->params->idle_least_ns;
	return plan->now_ns > last + most;
}

/* --- Where it is ---------------------------------------------------------------------------- */

/* What is on a device when so much of it has left: no more than that. */
static uint64_t residency_stays(const struct residency_tenant *t, int d, uint32_t part)
{
	uint64_t stays = residency_size(t, d) / RESIDENCY_ALL * (RESIDENCY_ALL - part);

	return stays < t->here[d] ? stays : t->here[d];
}

/* What it has of a device, or is about to have. */
static uint64_t residency_there(const struct residency_tenant *t, int d)
{
	return t->place == RESIDENCY_COMING    ? residency_size(t, d)
	       : t->place == RESIDENCY_LEAVING ? residency_stays(t, d, t->asked)
					       : t->here[d];
}

static bool residency_is_there(const struct residency_tenant *t)
{
	for (int d = 0; d < DEVICES; d++)
		if (t->here[d])
			return true;
	return false;
}

/* --- Who leaves for whom -------------------------------------------------------------------- */

enum residency_rank {
	RANK_READY,
	RANK_IDLE,
	RANK_LOWER,
	RANK_OVER,
	RANK_TURN,  /* its turn goes on */
	RANK_LATER, /* it is on its way there, or not to be asked for a while */
	RANK_NEVER,
};

/* `key`: of those of a rank the lowest goes first. */
static enum residency_rank residency_rank(const struct residency_plan *plan,
					  const struct residency_tenant *t,
					  const struct residency_tenant *comer, uint64_t *key)
{
	enum residency_rank rank = RANK_OVER;
	uint64_t turn, over;

	*key = t->came_ns;
	if (!t->id || t == comer || t->planned || t->fixed)
		return RANK_NEVER;
	turn = residency_turn_for_ns(plan, t, comer);
	if (t->place == RESIDENCY_COMING) {
		*key = plan->now_ns + turn;
		return RANK_LATER;
	}
	/*
	 * It does not run: what is left of it costs least, or others would leave for each other as
	 * long as it is there.
	 */
	if (t->place == RESIDENCY_AWAY && residency_is_there(t)) {
		*key = 0;
		return RANK_READY;
	}
	if (t->place != RESIDENCY_HERE)
		return RANK_NEVER;
	if (t->stays_until_ns > plan->now_ns) {
		*key = t->stays_until_ns;
		return RANK_LATER;
	}
	if (residency_is_idle(plan, t, comer)) {
		*key = t->used_ns;
		/* Its host memory is there: it leaves in a part of the time. */
		return t->ready && !plan->foresees ? RANK_READY : RANK_IDLE;
	}
	if (t->priority > comer->priority && !residency_is_overdue(plan, comer))
		return RANK_NEVER;
	if (t->priority < comer->priority && !t->lifted) {
		turn = turn / plan->params->turn_swaps;
		rank = RANK_LOWER;
	}
	over = t->came_ns + turn;
	/* Weights are of those of one priority; a tenant that waits itself has no use for its turn. */
	if (t->priority == comer->priority && !t->wants && !residency_is_overdue(plan, comer))
		over = max_u64(over, plan->now_ns + residency_account_left_ns(t, comer, turn));
	if (plan->now_ns < over) {
		*key = over;
		return RANK_TURN;
	}
	if (rank == RANK_OVER)
		*key = UINT64_MAX - 1 - t->served;
	return rank;
}

/* What has to go from a device with so much room for one that comes beside `used`. */
static uint64_t residency_lack_on(const struct residency_plan *plan,
				  const struct residency_tenant *comer, int d, uint64_t used,
				  uint64_t room)
{
	uint64_t need = residency_need(comer, d);
	uint64_t spare = used > residency_there(comer, d) ? plan->device[d].spare_bytes : 0;

	return need ? sat_sub_u64(used + need + spare, room) : 0;
}

static bool residency_fits(const struct residency_plan *plan, const uint64_t used[DEVICES],
			   const struct residency_tenant *t)
{
	for (int d = 0; d < plan->devices; d++)
		if (residency_lack_on(plan, t, d, used[d], plan->device[d].capacity_bytes))
			return false;
	return true;
}

/* What has to go from each device for one that comes. Whether anything has. */
static bool residency_lacks(const struct residency_plan *plan, const struct residency_tenant *comer,
			    uint64_t lack[DEVICES])
{
	bool any = false;

	for (int d = 0; d < plan->devices; d++) {
		lack[d] = residency_lack_on(plan, comer, d, plan->then[d],
					    plan->device[d].capacity_bytes);
		any |= lack[d] > 0;
	}
	return any;
}

/* The same where nobody comes, and a device has less room than is used. */
static bool residency_exceeds(const struct residency_plan *plan, uint64_t lack[DEVICES])
{
	bool any = false;

	for (int d = 0; d < plan->devices; d++) {
		lack[d] = sat_sub_u64(plan->then[d], plan->device[d].capacity_bytes);
		any |= lack[d] > 0;
	}
	return any;
}

/* Whether it would help that it leaves. */
static bool residency_helps(const struct residency_plan *plan, const struct residency_tenant *t,
			    const uint64_t lack[DEVICES])
{
	for (int d = 0; d < plan->devices; d++)
		if (residency_there(t, d) && lack[d])
			return true;
	return false;
}

/* Of all that it has, with what is away already, so that the device has so much more. */
static uint32_t residency_part_for(const struct residency_tenant *t, int d, uint64_t lack)
{
	uint64_t size = residency_size(t, d), there = residency_there(t, d), part;

	if (!lack || !there)
		return 0;
	/* By small steps more time goes to asking than to moving. */
	lack = lack > size / TUNING_RESIDENCY_STEP_PART ? lack : size / TUNING_RESIDENCY_STEP_PART;
	if (lack >= there || size < RESIDENCY_ALL)
		return RESIDENCY_ALL;
	part = (size - there + lack) / (size / RESIDENCY_ALL) + 1;
	return part < RESIDENCY_ALL ? (uint32_t)part : RESIDENCY_ALL;
}

static void residency_plan_out(struct residency_plan *plan, struct residency_tenant *t, uint32_t part)
{
	/* What others give may be enough where it has any. */
	t->planned = part > 0;
	t->part = part;
	for (int d = 0; part && d < plan->devices; d++)
		plan->then[d] -= residency_there(t, d) - residency_stays(t, d, part);
}

static void residency_plan_out_by(struct residency_plan *plan, struct residency_tenant *t,
				  const uint64_t lack[DEVICES])
{
	uint32_t part = 0, on;

	for (int d = 0; d < plan->devices; d++) {
		on = residency_part_for(t, d, lack[d]);
		part = on > part ? on : part;
	}
	residency_plan_out(plan, t, part);
}

static void residency_plan_out_for(struct residency_plan *plan, struct residency_tenant *t,
				   const struct residency_tenant *comer)
{
	uint64_t lack[DEVICES];

	residency_lacks(plan, comer, lack);
	residency_plan_out_by(plan, t, lack);
}

static void residency_plan_stay(struct residency_plan *plan, struct residency_tenant *t)
{
	t->planned = false;
	for (int d = 0; d < plan->devices; d++)
		plan->then[d] += residency_there(t, d) - residency_stays(t, d, t->part);
}

/* Of those who help, and of a rank up to `last`, the first; NULL: there is none. */
static struct residency_tenant *residency_next_leaver(struct residency_plan *plan,
						      const struct residency_tenant *comer,
						      const uint64_t lack[DEVICES],
						      enum residency_rank last)
{
	struct residency_tenant *best = NULL;
	uint64_t best_key = UINT64_MAX;

	for (int i = 0; i < plan->n; i++) {
		struct residency_tenant *t = &plan->tenant[i];
		uint64_t key;
		enum residency_rank rank = residency_rank(plan, t, comer, &key);

		if (rank > last || (rank == last && key >= best_key) ||
		    !residency_helps(plan, t, lack))
			continue;
		best = t;
		best_key = key;
		last = rank;
	}
	return best;
}

/* Whether another one of the plan can leave with so much more that it fits. */
static bool residency_others_do(struct residency_plan *plan, struct residency_tenant *comer,
				const int leaver[], int n)
{
	for (int i = 0; i < n && !residency_fits(plan, plan->then, comer); i++) {
		struct residency_tenant *t = &plan->tenant[leaver[i]];

		if (!t->planned)
			continue;
		residency_plan_stay(plan, t);
		residency_plan_out_for(plan, t, comer);
	}
	return residency_fits(plan, plan->then, comer);
}

/*
 * Those of the plan that would not have had to leave, the last first: they were the dearest. But
 * what does not run, and has its place on the host, is not spared at the expense of one that runs.
 */
static void residency_spare_leavers(struct residency_plan *plan, struct residency_tenant *comer,
				    const int leaver[], int n)
{
	for (int i = n; i-- > 0;) {
		struct residency_tenant *t = &plan->tenant[leaver[i]];

		if (t->place == RESIDENCY_AWAY && t->ready)
			continue;
		residency_plan_stay(plan, t);
		if (!residency_others_do(plan, comer, leaver, n))
			residency_plan_out_for(plan, t, comer);
	}
}

/*
 * Plans until it fits; -1: it would not, with all gone who may. Else how many leave, and whether
 * all of them may do so now.
 */
static int residency_plan_for(struct residency_plan *plan, struct residency_tenant *comer,
			      int leaver[RESIDENCY_TENANTS], bool *ret_now)
{
	uint64_t lack[DEVICES];
	int n = 0;

	while (residency_lacks(plan, comer, lack)) {
		struct residency_tenant *t =
			residency_next_leaver(plan, comer, lack, RANK_LATER);

		if (!t) {
			while (n > 0)
				residency_plan_stay(plan, &plan->tenant[leaver[--n]]);
			return -1;
		}
		leaver[n++] = (int)(t - plan->tenant);
		residency_plan_out_by(plan, t, lack);
	}
	residency_spare_leavers(plan, comer, leaver, n);
	*ret_now = true;
	for (int i = 0; i < n; i++) {
		struct residency_tenant *t = &plan->tenant[leaver[i]];
		uint64_t key;

		if (!t->planned)
			continue;
		t->planned = false;
		if (residency_rank(plan, t, comer, &key) >= RANK_TURN)
			*ret_now = false;
		t->planned = true;
	}
	return n;
}

/* What is on a device of others who cannot leave. */
static uint64_t residency_stuck(const struct residency_plan *plan,
				const struct residency_tenant *comer, int d)
{
	uint64_t bytes = 0;

	for (int i = 0; i < plan->n; i++) {
		const struct residency_tenant *t = &plan->tenant[i];

		if (t->id && t != comer && t->place != RESIDENCY_LEAVING && (t->fixed || t->doubtful))
			bytes += residency_there(t, d);
	}
	return bytes;
}

/*
 * Whether it could not come even if all had left who can at all, whenever their turns are over. Who
 * cannot leave now may find room on the host in a moment, and what is lost may be that of a program
 * that ends.
 */
static bool residency_is_too_large(const struct residency_plan *plan,
				   const struct residency_tenant *comer)
{
	bool soon = plan->now_ns < comer->waits_since_ns + plan->params->refuse_ns;

	for (int d = 0; d < plan->devices; d++) {
		const struct residency_device *device = &plan->device[d];
		uint64_t used = residency_there(comer, d), room = device->capacity_bytes;

		if (soon)
			room += device->lost_bytes;
		else
			used += residency_stuck(plan, comer, d);
		if (residency_lack_on(plan, comer, d, used, room))
			return true;
	}
	return false;
}

/* --- One who waits -------------------------------------------------------------------------- */

static void residency_take(struct residency_plan *plan, struct residency_tenant *t)
{
	bool fits = residency_fits(plan, plan->now, t), comes = fits;

	/* An allocation tries once, and what comes back takes its place piece by piece. */
	if (t->place == RESIDENCY_AWAY)
		comes = residency_fits(plan, plan->soon, t);

	/* Its own may not go for who comes behind it in the same step. */
	t->planned = true;
	for (int d = 0; d < plan->devices; d++) {
		uint64_t need = residency_need(t, d);

		plan->then[d] += need;
		plan->now[d] += comes ? need : 0;
		plan->soon[d] += comes ? need : 0;
	}
	if (!comes)
		return;
	t->early = !fits;
	t->come = true;
	if (t->place == RESIDENCY_AWAY)
		t->lifted = residency_is_overdue(plan, t);
}

static bool residency_allocates(const struct residency_plan *plan, const struct residency_tenant *t)
{
	for (int d = 0; d < plan->devices; d++)
		if (t->more[d])
			return true;
	return false;
}

static void residency_serve(struct residency_plan *plan, struct residency_tenant *t)
{
	int leaver[RESIDENCY_TENANTS], n;
	bool now = false;

	/* It was planned to leave for one who waits for longer: it is served when it is away. */
	if (t->planned)
		return;
	t->refuse = !residency_fits(plan, plan->now, t) && residency_allocates(plan, t) &&
		    residency_is_too_large(plan, t);
	if (t->refuse)
		return;
	n = residency_plan_for(plan, t, leaver, &now);
	if (n < 0)
		return;
	for (int i = 0; i < n; i++)
		plan->tenant[leaver[i]].leave |= now && plan->tenant[leaver[i]].planned;
	residency_take(plan, t);
}

/* It is there and its turn goes on: that is of no use while it waits for more. */
static bool residency_has_turn(const struct residency_plan *plan, const struct residency_tenant *t)
{
	return t->place == RESIDENCY_HERE &&
	       plan->now_ns < t->came_ns + residency_turn_ns(plan->params, t, t);
}

static bool residency_goes_before(const struct residency_plan *plan,
				  const struct residency_tenant *a,
				  const struct residency_tenant *b)
{
	bool first = residency_is_overdue(plan, a), second = residency_is_overdue(plan, b);

	if (first != second)
		return first;
	if (!first && a->priority != b->priority)
		return a->priority > b->priority;
	first = residency_has_turn(plan, a);
	second = residency_has_turn(plan, b);
	if (first != second)
		return first;
	if (!residency_is_overdue(plan, a) && a->served != b->served)
		return a->served < b->served;
	if (a->waits_since_ns != b->waits_since_ns)
		return a->waits_since_ns < b->waits_since_ns;
	return a->id < b->id;
}

static bool residency_waits(const struct residency_tenant *t)
{
	return t->id && t->wants && (t->place == RESIDENCY_AWAY || t->place == RESIDENCY_HERE);
}

/* Those who wait, in the order in which they are served. */
static int residency_list_waiters(const struct residency_plan *plan, int waiter[RESIDENCY_TENANTS])
{
	int n = 0;

	for (int i = 0; i < plan->n; i++) {
		int at = n;

		if (!residency_waits(&plan->tenant[i]))
			continue;
		for (; at > 0 && residency_goes_before(plan, &plan->tenant[i],
						       &plan->tenant[waiter[at - 1]]);
		     at--)
			waiter[at] = waiter[at - 1];
		waiter[at] = i;
		n++;
	}
	return n;
}

/* --- Before anybody is served --------------------------------------------------------------- */

static void residency_note(const struct residency_plan *plan, struct residency_tenant *t)
{
	if (t->known_id != t->id) {
		t->known_id = t->id;
		/*
		 * Who has just begun to decide does not know when it came: no later than it was
		 * used.
		 */
		t->came_ns = t->used_ns ? min_u64(t->used_ns, plan->now_ns) : plan->now_ns;
		t->waits_since_ns = t->served = t->counted_ns = t->contended_ns = 0;
		t->lifted = false;
	} else if (t->place == RESIDENCY_HERE && t->known_place != RESIDENCY_HERE) {
		t->came_ns = plan->now_ns;
	}
	t->known_place = t->place;
	/* Who gives more of its memory, being away, keeps its place among those who wait. */
	if (!t->wants || t->place == RESIDENCY_COMING)
		t->waits_since_ns = 0;
	else if (!t->waits_since_ns)
		t->waits_since_ns = plan->now_ns;
	t->leave = t->come = t->refuse = t->planned = false;
}

/* Whether all of one that is on its way has its place only when others have left. */
static bool residency_is_early(const struct residency_plan *plan, const struct residency_tenant *t)
{
	bool now = true, soon = true;

	for (int d = 0; d < plan->devices; d++) {
		now &= !residency_size(t, d) || plan->now[d] <= plan->device[d].capacity_bytes;
		soon &= !residency_size(t, d) || plan->soon[d] <= plan->device[d].capacity_bytes;
	}
	return t->place == RESIDENCY_COMING && soon && !now;
}

/* What a device holds, or is about to: what leaves is there until it has left. */
static void residency_count(struct residency_plan *plan)
{
	for (int i = 0; i < plan->n; i++) {
		const struct residency_tenant *t = &plan->tenant[i];

		for (int d = DEVICES; d-- > plan->devices;)
			if (t->id && (residency_size(t, d) || t->more[d]))
				plan->devices = d + 1;
	}
	for (int i = 0; i < plan->n; i++) {
		const struct residency_tenant *t = &plan->tenant[i];

		for (int d = 0; t->id && d < plan->devices; d++) {
			plan->then[d] += residency_there(t, d);
			plan->now[d] += t->place == RESIDENCY_COMING ? residency_size(t, d)
								     : t->here[d];
			plan->soon[d] += t->place == RESIDENCY_LEAVING && !t->leaves
						 ? t->here[d]
						 : residency_there(t, d);
		}
	}
}

/* A device has less room than is used: whoever can leaves at once, for what is not to be taken. */
static void residency_relieve(struct residency_plan *plan)
{
	struct residency_tenant nobody = {.priority = INT32_MAX, .waits_since_ns = plan->now_ns}, *t;
	uint64_t lack[DEVICES];

	while (residency_exceeds(plan, lack) &&
	       (t = residency_next_leaver(plan, &nobody, lack, RANK_TURN))) {
		residency_plan_out_by(plan, t, lack);
		t->leave = true;
	}
}

/* --- What comes next ------------------------------------------------------------------------ */

static void residency_foresee_for(struct residency_plan *plan, struct residency_tenant *comer)
{
	int leaver[RESIDENCY_TENANTS];
	bool now;
	int n = residency_plan_for(plan, comer, leaver, &now);

	for (int i = 0; i < n; i++) {
		struct residency_tenant *t = &plan->tenant[leaver[i]];

		if (!t->planned)
			continue;
		t->ahead = t->part > t->ahead ? t->part : t->ahead;
		residency_plan_stay(plan, t);
	}
}

/* Nobody waits: who would leave for each that is away, and how much of it? */
static void residency_foresee(struct residency_plan *plan)
{
	for (int i = 0; i < plan->n; i++) {
		const struct residency_tenant *t = &plan->tenant[i];

		if (t->id && (t->place == RESIDENCY_LEAVING || t->place == RESIDENCY_COMING))
			return;
	}
	plan->foresees = true;
	for (int i = 0; i < plan->n; i++)
		plan->tenant[i].ahead = 0;
	for (int i = 0; i < plan->n; i++)
		if (plan->tenant[i].id && plan->tenant[i].place == RESIDENCY_AWAY)
			residency_foresee_for(plan, &plan->tenant[i]);
}

/* --- Who leaves for nobody ------------------------------------------------------------------ */

/* Others may have had a part of it leave: the rest does so, too. */
bool residency_may_leave_idle(const struct residency_tenant *t)
{
	bool rests = t->place == RESIDENCY_HERE ||
		     (t->place == RESIDENCY_AWAY && t->leaves && t->asked < RESIDENCY_ALL);

	return t->id && t->idle_suspend_ns && rests && !t->wants && residency_is_there(t);
}

uint64_t residency_leaves_idle_ns(const struct residency_tenant *t)
{
	if (!residency_may_leave_idle(t) || t->fixed)
		return UINT64_MAX;
	return max_u64(sat_add_u64(max_u64(t->used_ns, t->came_ns), t->idle_suspend_ns),
		       max_u64(t->stays_until_ns, t->idle_until_ns));
}

/* All of it leaves; what was planned for those that wait goes first. */
static void residency_send_idle(const struct residency_plan *plan)
{
	for (int i = 0; i < plan->n; i++) {
		struct residency_tenant *t = &plan->tenant[i];

		if (t->planned || plan->now_ns < residency_leaves_idle_ns(t))
			continue;
		t->leave = true;
		t->part = RESIDENCY_ALL;
	}
}

/* --- The step ------------------------------------------------------------------------------- */

bool residency_step(const struct residency_params *params, struct residency_tenant *tenant, int n,
		    const struct residency_device device[static RESIDENCY_DEVICES], uint64_t now_ns)
{
	struct residency_plan plan = {.params = params, .tenant = tenant, .device = device,
				      .n = n, .now_ns = now_ns};
	int waiter[RESIDENCY_TENANTS], waiters;

	for (int i = 0; i < n; i++)
		residency_note(&plan, &tenant[i]);
	residency_count(&plan);
	residency_account_count(params, tenant, n, plan.devices, now_ns);
	for (int i = 0; i < n; i++)
		tenant[i].early = tenant[i].id && residency_is_early(&plan, &tenant[i]);
	residency_relieve(&plan);
	waiters = residency_list_waiters(&plan, waiter);
	for (int i = 0; i < waiters; i++)
		residency_serve(&plan, &tenant[waiter[i]]);
	if (!waiters)
		residency_foresee(&plan);
	residency_send_idle(&plan);
	return waiters;
}
