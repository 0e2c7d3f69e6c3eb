/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/gate.h"

#include <sys/mman.h>

#include "base/futex.h"
#include "base/now.h"
#include "preload/hook.h"
#include "preload/park.h"
#include "preload/room.h"
#include "share/between.h"

#define MS UINT64_C(1000000)

/*
 * A pause costs two wake-ups, so none is shorter than this, which decides where shares are large.
 * After each a program has to get ahead of the device again, ranks of each other, and streams end
 * one after the other: one of launches shorter than this, ranks and streams pause less often, as
 * long as no pause gets longer than that, nor takes more of the share than this, which is what a
 * second is off by that shows one more or less: 1.6 points.
 */
#define PAUSE_LEAST_NS (3 * MS)
#define SHORT_NS       (MS / 20)
#define PAUSE_MOST_NS  (150 * MS)
#define PAUSE_OFF_NS   (16 * MS)
/* The driver's slices of several processes end early in each. */
#define PAUSE_PEERS_NS (10 * MS)
/* Less than what the deficit's slack makes up for. */
#define MORE_NS	      (8 * MS)
/*
 * Where one launch was let through, others need not ask for so long, unless something is billed;
 * for longer where nobody else waits.
 */
#define PASS_NS	      (MS / 20)
#define PASS_ALONE_NS (MS / 5)
/* Who waits or just worked counts as wanting the device for so long. */
#define DEMAND_NS     (10 * MS)
#define LINGER_NS     (MS / 5)
/* A turn begins no longer after it is given, and for so long before that one stays awake. */
#define EDGE_MOST_NS  MS
#define LOOK_NS	      (MS / 5)
/* An arbiter that did not say anything for so long is gone. */
#define SILENCE_NS    (30 * MS)

static struct gate *gate_make(struct guest *guest)
{
	struct gate *gate = gate_get(guest), *expected = NULL;

	if (gate)
		return gate;
	gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (gate == MAP_FAILED)
		return NULL;
	if (!guest->policy_map)
		policy_open(guest->dir, &gate->map);
	if (guest->policy_map || gate->map)
		gate->turn = policy_turn(guest->policy_map ? guest->policy_map : gate->map);
	if (atomic_compare_exchange_strong(&guest->compute, &expected, gate))
		return gate;
	policy_close(gate->map);
	munmap(gate, sizeof(*gate));
	return expected;
}

struct meter_device *gate_device_made(struct guest *guest, int ordinal)
{
	struct gate *gate = gate_get(guest);

	return gate ? atomic_load_explicit(&gate->device[ordinal], memory_order_acquire) : NULL;
}

static struct meter_device *make_device(struct guest *guest, struct gate *gate,
					struct guest_device *device)
{
	struct meter_device *md, *expected = NULL;

	md = atomic_load_explicit(&gate->device[device->ordinal], memory_order_acquire);
	if (md)
		return md;
	md = mmap(NULL, sizeof(*md), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (md == MAP_FAILED)
		return NULL;
	md->device = device;
	md->compute = compute_of(guest->ledger, device->ledger);
	md->overlap_permille = 1000;
	md->doubt_ns = 1;
	if (md->compute &&
	    atomic_compare_exchange_strong(&gate->device[device->ordinal], &expected, md))
		return md;
	munmap(md, sizeof(*md));
	return expected;
}

struct meter_device *gate_device(struct guest *guest, struct guest_device *device,
				 CUcontext context)
{
	struct gate *gate = gate_make(guest);
	struct meter_device *md = gate ? make_device(guest, gate, device) : NULL;

	if (md)
		atomic_store_explicit(&gate->context[device->ordinal], context,
				      memory_order_release);
	return md;
}

struct meter_device *gate_device_of(struct guest *guest, CUcontext context)
{
	struct gate *gate = gate_get(guest);

	for (int i = 0; gate && i < guest->ndevices; i++)
		if (atomic_load_explicit(&gate->context[i], memory_order_acquire) == context)
			return gate_device_made(guest, i);
	return NULL;
}

void gate_part(struct guest *guest, CUcontext context)
{
	struct gate *gate = gate_get(guest);

	for (int i = 0; gate && i < guest->ndevices; i++) {
		CUcontext expected = context;

		atomic_compare_exchange_strong(&gate->context[i], &expected, NULL);
	}
}

static void refresh_shares(struct guest *guest, struct gate *gate, const struct policy *policy)
{
	struct ledger_device_info info;
	int n = 0;

	for (; n < POLICY_DEVICES && !ledger_device_info(guest->ledger, n, &info); n++)
		atomic_store(&gate->share_permille[n], policy_share(policy, info.uuid));
	atomic_store(&gate->ndevices, (uint32_t)n);
}

/* As of now, and of all devices that the tenant has by now. */
static bool is_fresh(struct guest *guest, const struct gate *gate, uint64_t generation)
{
	return atomic_load_explicit(&gate->generation, memory_order_acquire) == generation &&
	       !ledger_knows(guest->ledger, (int)atomic_load(&gate->ndevices));
}

/* Of threads that refresh at once, the last to write has looked again after writing. */
static void refresh(struct guest *guest, struct gate *gate)
{
	uint64_t now = guest_generation(guest);
	struct policy policy;

	while (!is_fresh(guest, gate, now)) {
		if (!guest->policy_map) {
			policy = guest->policy;
		} else if (policy_read(guest->policy_map, &policy)) {
			/* What was last read stays in force, or what the process began with. */
			if (atomic_load(&gate->generation))
				return;
			policy = guest->policy;
		}
		refresh_shares(guest, gate, &policy);
		atomic_store(&gate->compute, policy.compute);
		atomic_store(&gate->mode, policy.mode);
		atomic_store(&gate->controller, policy.controller);
		atomic_store(&gate->inflight_us, policy.inflight_us);
		atomic_store(&gate->slice_us, policy.slice_us);
		atomic_store_explicit(&gate->generation, now, memory_order_release);
		now = guest_generation(guest);
	}
}

static bool silent(const struct policy_turn *turn, uint64_t now_ns)
{
	return policy_turn_silent(turn, now_ns, SILENCE_NS);
}

bool gate_capped(const struct gate *gate, int device)
{
	return atomic_load(&gate->compute) == POLICY_COMPUTE_CAP &&
	       atomic_load(&gate->share_permille[device]) < 1000;
}

uint64_t gate_slice_ns(const struct gate *gate)
{
	uint64_t asked = atomic_load(&gate->slice_us) * UINT64_C(1000), chosen;

	if (asked)
		return asked;
	chosen = atomic_load(&gate->slice_ns);
	return chosen ? chosen : CONTROLLER_SLICE_NS;
}

/* The least pause. */
static int64_t pause_ns(struct meter_device *md, int64_t share_permille, bool beside)
{
	uint64_t even = PAUSE_OFF_NS * 1000 / (uint64_t)(share_permille ? share_permille : 1);

	if (beside || meter_pauses_badly(md, SHORT_NS))
		return (int64_t)(even < PAUSE_MOST_NS ? even : PAUSE_MOST_NS);
	return meter_has_peers(md) ? PAUSE_PEERS_NS : PAUSE_LEAST_NS;
}

static uint64_t choose_slice_ns(struct guest *guest, const struct gate *gate,
				struct meter_device *md, uint64_t now_ns)
{
	int64_t share = atomic_load(&gate->share_permille[md->device->ledger]);
	bool beside = compute_beside(guest->ledger, md->device->ledger, now_ns);

	atomic_store_explicit(&md->beside, beside, memory_order_relaxed);
	return (uint64_t)between(room_paid_in_ns(share, pause_ns(md, share, beside)),
				 CONTROLLER_SLICE_NS, CONTROLLER_LONG_SLICE_NS);
}

/* Of any device of the tenant, by its index in the ledger. */
static const struct controller *controller_of(const struct gate *gate, int device,
					      struct share_params *ret_params)
{
	*ret_params = (struct share_params){
		.share_permille = atomic_load(&gate->share_permille[device]),
		.slice_ns = gate_slice_ns(gate),
	};
	if (!gate_capped(gate, device)) {
		/* A part of what others want, too; nobody arbitrates, so it is a cap. */
		uint32_t entitled = gate->turn ? atomic_peek(&gate->turn->entitled_permille) : 0;

		ret_params->share_permille = entitled && entitled < 1000 ? entitled : 1000;
		return &controller_deficit;
	}
	return controller_by_id(atomic_load(&gate->controller));
}

const struct controller *gate_controller(struct guest *guest, struct meter_device *md,
					 struct share_params *ret_params)
{
	const struct controller *controller =
		controller_of(gate_get(guest), md->device->ledger, ret_params);

	ret_params->blocks = md->device->stack_threads / 256;
	return controller;
}

void gate_bill(struct guest *guest, struct meter_device *md, uint64_t from_ns, uint64_t to_ns)
{
	struct share_params params;
	const struct controller *controller = gate_controller(guest, md, &params);
	uint64_t old, hot;

	atomic_fetch_add(&gate_get(guest)->bills, 1);
	do {
		old = atomic_peek(&md->compute->hot);
		hot = controller->bill(old, &params, from_ns, to_ns);
	} while (hot != old && !atomic_swap_if_u64(&md->compute->hot, old, hot));
}

/*
 * What is in flight will be owed for, too, so who would wake up before that is paid sleeps on; no
 * longer than is made up for if it takes less than was expected.
 */
static uint64_t more_ns(const struct controller *controller, const struct share_params *params,
			const struct meter_device *md)
{
	uint32_t share = params->share_permille ? params->share_permille : 1;
	uint64_t more = meter_pending_ns(md) * 1000 / share;

	if (controller != &controller_deficit)
		return 0;
	return more < MORE_NS ? more : MORE_NS;
}

/* 0, or until when the account of a device, by its index in the ledger, is not settled. */
static uint64_t account(struct guest *guest, const struct gate *gate, int device,
			const struct unit *unit)
{
	struct compute *compute = compute_of(guest->ledger, device);
	bool own = device == unit->device->device->ledger;
	uint64_t old, hot, until;
	struct share_params params;
	const struct controller *controller =
		own ? gate_controller(guest, unit->device, &params) :
		      controller_of(gate, device, &params);

	do {
		old = atomic_peek(&compute->hot);
		until = controller->admit(old, &params, unit->now_ns, own ? unit->blocks : 0, &hot);
	} while (hot != old && !atomic_swap_if_u64(&compute->hot, old, hot));
	if (!until || !own || park_is_on(unit->device))
		return until;
	return until + more_ns(controller, &params, unit->device);
}

/* 0, or until when to wait for the share; *ret_turn: for the tenant's turn, not for its debts. */
static uint64_t share_wait(struct guest *guest, struct gate *gate, const struct unit *unit,
			   bool *ret_turn)
{
	const struct policy_turn *turn = gate->turn;
	bool alone = !turn || silent(turn, unit->now_ns);
	bool orphan = turn && alone && atomic_peek(&turn->flags) & POLICY_TURN_CONTENDED;
	uint64_t until = 0;

	*ret_turn = false;
	for (int i = 0; i < (int)atomic_load(&gate->ndevices); i++) {
		uint64_t at = orphan || gate_capped(gate, i) ? account(guest, gate, i, unit) : 0;

		until = at > until ? at : until;
	}
	if (until || alone || atomic_acquire(&turn->open_until_ns) > unit->now_ns)
		return until;
	*ret_turn = true;
	return unit->now_ns + DEMAND_NS / 2;
}

uint32_t gate_turn_flags(const struct gate *gate, uint64_t now_ns)
{
	const struct policy_turn *turn = gate->turn;

	return turn && !silent(turn, now_ns) ? atomic_peek(&turn->flags) : 0;
}

bool gate_alone(struct guest *guest, uint64_t now_ns)
{
	return !gate_turn_flags(gate_get(guest), now_ns);
}

/* Alone, and free to go on: the arbiter need not hear at once that the tenant does. */
static bool has_turn(struct guest *guest, uint64_t now_ns)
{
	const struct policy_turn *turn = gate_get(guest)->turn;

	return turn && !silent(turn, now_ns) && atomic_peek(&turn->open_until_ns) > now_ns &&
	       gate_alone(guest, now_ns);
}

/* The arbiter looks at this, and wakes up when it was over and another may have the turn. */
static void want(struct guest *guest, struct meter_device *md, uint64_t now_ns, uint64_t for_ns)
{
	uint64_t old = atomic_peek(&md->compute->demand_until_ns);

	if (old > now_ns + for_ns / 2 && old < now_ns + 1000 * MS)
		return;
	if (old >= now_ns + 1000 * MS) /* nobody wants anything for so long: damage */
		atomic_swap_if_u64(&md->compute->demand_until_ns, old, now_ns + for_ns);
	else
		atomic_raise_u64(&md->compute->demand_until_ns, now_ns + for_ns);
	if (old < now_ns && atomic_peek(&md->compute->work_until_ns) < now_ns &&
	    !has_turn(guest, now_ns))
		keeper_ring(guest);
}

/*
 * Who waited and may go wants no more than who never waited: its work speaks for it from here on. A
 * tenant that launches now and then would else keep the device for as long as a wait may last.
 * Others of the tenant who still wait were woken by what let this one go, and want again.
 */
static void settle(struct meter_device *md, uint64_t until_ns)
{
	uint64_t old = atomic_peek(&md->compute->demand_until_ns);

	if (old > until_ns)
		atomic_swap_if_u64(&md->compute->demand_until_ns, old, until_ns);
}

bool gate_wishes(struct guest *guest, struct meter_device *md, uint64_t now_ns)
{
	if (!(gate_turn_flags(gate_get(guest), now_ns) & POLICY_TURN_FIRST))
		return false;
	if (meter_begun(md, now_ns)) {
		settle(md, now_ns + (meter_works(md, now_ns) ? LINGER_NS : 0));
		return false;
	}
	want(guest, md, now_ns, DEMAND_NS);
	return true;
}

static void note(struct unit *unit, const struct hold *hold)
{
	struct compute *compute = unit->device->compute;

	if (!hold->share_ns)
		return;
	atomic_fetch_add(&unit->device->held, 1);
	__atomic_fetch_add(&compute->throttled_ns, hold->share_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&compute->throttles, 1, __ATOMIC_RELAXED);
}

bool gate_contended(struct guest *guest, uint64_t now_ns)
{
	return gate_turn_flags(gate_get(guest), now_ns) & POLICY_TURN_CONTENDED;
}

/*
 * The launch may go, and with it what comes in the next moment, as far as there is room: the driver
 * pushes our code out of the processor's cache between two launches, so that to ask costs a brief
 * one more than all the rest. Tokens are taken by each launch, so controllers that count them are
 * asked for each; and so are tenants that give way to a higher priority, or have it.
 */
static void let_pass(struct gate *gate, const struct unit *unit, const struct hold *hold)
{
	const struct policy_turn *turn = gate->turn;
	struct meter_device *md = unit->device;
	uint64_t now = unit->now_ns, open;
	uint64_t until = now + (unit->rare ? PASS_ALONE_NS : PASS_NS);

	if (!hold->settled || !hold->room_ns ||
	    atomic_load(&gate->controller) != CONTROLLER_DEFICIT ||
	    gate_turn_flags(gate, now) & (POLICY_TURN_URGED | POLICY_TURN_FIRST))
		return;
	open = turn && !silent(turn, now) ? atomic_peek(&turn->open_until_ns) : until;
	atomic_poke(&md->pass.rare, unit->rare);
	atomic_poke(&md->pass.room_ns, hold->room_ns);
	atomic_poke(&md->pass.bills, hold->bills);
	atomic_poke(&md->pass.until_ns, open < until ? open : until);
}

/* Whether such a launch came just before, and there is room still. */
static bool passes(const struct gate *gate, struct unit *unit)
{
	const struct meter_device *md = unit->device;

	if (unit->now_ns >= atomic_peek(&md->pass.until_ns) ||
	    atomic_load_explicit(&gate->bills, memory_order_relaxed) !=
		    atomic_peek(&md->pass.bills) ||
	    meter_end_ns(md) > unit->now_ns + atomic_peek(&md->pass.room_ns))
		return false;
	unit->rare = atomic_peek(&md->pass.rare);
	return true;
}

void gate_nap(struct gate *gate, const void *word, uint32_t seen, uint64_t until_ns)
{
	atomic_fetch_add(&gate->waiting, 1);
	futex_wait_until(word, seen, until_ns);
	atomic_fetch_sub(&gate->waiting, 1);
}

/*
 * The turn is there, but the last tenant's work is on the device for a moment more. Sleeping is too
 * coarse for that, so one thread stays awake.
 */
static void wait_for_edge(struct gate *gate, struct unit *unit)
{
	static const uint32_t nothing;
	uint64_t from = gate->turn ? atomic_acquire(&gate->turn->open_from_ns) : 0;
	bool looks;

	if (from <= unit->now_ns || from > unit->now_ns + EDGE_MOST_NS)
		return;
	looks = !atomic_exchange(&gate->looking, true);
	if (!looks || from > unit->now_ns + LOOK_NS)
		futex_wait_until(&nothing, 0, looks ? from - LOOK_NS : from);
	while (looks && now_monotonic_ns() < from)
		;
	if (looks)
		atomic_store(&gate->looking, false);
	unit->now_ns = now_monotonic_ns();
}

/* Who pays nothing, here. */
static bool is_free(struct guest *guest, const struct gate *gate)
{
	return atomic_load(&gate->compute) == POLICY_COMPUTE_OFF ||
	       (atomic_load(&gate->mode) == POLICY_MODE_SPACE && atomic_load(&guest->in_space));
}

uint64_t gate_owes(struct guest *guest, struct meter_device *md, uint64_t now_ns, bool *ret_turn)
{
	const struct unit unit = {.device = md, .now_ns = now_ns};
	struct gate *gate = gate_get(guest);
	uint64_t until = 0;

	*ret_turn = false;
	refresh(guest, gate);
	if (atomic_acquire(guest->gate) & POLICY_GATE_CLOSED)
		return now_ns + METER_LOOK_NS;
	if (!is_free(guest, gate))
		until = share_wait(guest, gate, &unit, ret_turn);
	if (*ret_turn)
		want(guest, md, now_ns, DEMAND_NS);
	return until;
}

static void wait_for_share(struct guest *guest, struct gate *gate, struct unit *unit,
			   struct hold *hold)
{
	unit->ahead_ns = 0;
	hold->settled = false;
	for (;;) {
		uint32_t seen = atomic_acquire(guest->gate);
		uint32_t turn_seen = gate->turn ? atomic_acquire(&gate->turn->seq) : 0;
		uint64_t from = unit->now_ns, since = from - hold->share_ns, until;
		uint32_t bills = atomic_load(&gate->bills);
		bool turn;

		if (seen & POLICY_GATE_CLOSED) {
			futex_wait(guest->gate, seen);
			unit->now_ns = now_monotonic_ns();
			continue;
		}
		refresh(guest, gate);
		atomic_store(&gate->slice_ns, choose_slice_ns(guest, gate, unit->device,
							  unit->now_ns));
		if (is_free(guest, gate))
			return;
		until = share_wait(guest, gate, unit, &turn);
		if (!until) {
			if (park_is_on(unit->device))
				park_open(unit->device);
			wait_for_edge(gate, unit);
			hold->settled = true;
			hold->bills = bills;
			return;
		}
		/* Beside work of other streams, paid for anyway, it takes no time of its own. */
		if (!turn && !park_is_on(unit->device) && meter_fits(unit))
			return;
		if (!turn && park_launch(guest, unit, until))
			return;
		meter_active(guest, unit);
		if (!hold->share_ns)
			meter_pause(unit);
		if (until > unit->now_ns + METER_LOOK_NS)
			until = unit->now_ns + METER_LOOK_NS;
		compute_hold(unit->device->compute, since, from, until);
		/* Who waits for its turn wants the device; who pays a debt leaves it to others. */
		if (turn) {
			want(guest, unit->device, unit->now_ns, DEMAND_NS);
			gate_nap(gate, &gate->turn->seq, turn_seen, until);
		} else {
			gate_nap(gate, guest->gate, seen, until);
			/* The keeper sleeps while nothing is in flight. */
			gate_steer(guest, now_monotonic_ns());
		}
		unit->now_ns = now_monotonic_ns();
		compute_hold_end(unit->device->compute, unit->now_ns);
		hold->share_ns += unit->now_ns - from;
		meter_collect(guest, unit->device);
		meter_publish(unit->device, unit->now_ns);
	}
}

/* For a launch that nobody let through before. */
static void ask(struct guest *guest, struct gate *gate, struct unit *unit)
{
	struct hold hold = {0};

	meter_catch_up(unit->device);
	/* While one was waited for, the other may have gone. */
	do
		wait_for_share(guest, gate, unit, &hold);
	while (room_wait(guest, gate, unit, &hold));
	note(unit, &hold);
	meter_active(guest, unit);
	if (!unit->ahead_ns) { /* who pays a debt leaves the device to others */
		want(guest, unit->device, unit->now_ns, LINGER_NS);
		settle(unit->device, unit->now_ns + LINGER_NS);
	}
	unit->rare = gate_alone(guest, unit->now_ns) && !meter_has_peers(unit->device);
	let_pass(gate, unit, &hold);
}

CUresult gate_enter(struct guest *guest, struct unit *unit)
{
	struct gate *gate;
	uint32_t word;
	CUresult e;

	while ((word = atomic_acquire(guest->gate)) & POLICY_GATE_CLOSED)
		futex_wait(guest->gate, word);
	if (!(word & POLICY_GATE_METERED))
		return CUDA_SUCCESS;
	e = meter_unit(guest, unit);
	if (e || !unit->device)
		return e;
	gate = gate_get(guest);
	unit->key = cost_key(unit->key, unit->blocks);
	unit->asked_ns = unit->now_ns = now_monotonic_ns();
	unit->asked = !passes(gate, unit);
	if ((unit->asked || atomic_load(&guest->captures)) && meter_captured(unit)) {
		unit->device = NULL;
		return CUDA_SUCCESS;
	}
	if (unit->asked)
		ask(guest, gate, unit);
	meter_begin(guest, unit);
	if (unit->asked || meter_grew(unit->device)) {
		meter_publish(unit->device, unit->now_ns);
		gate_wishes(guest, unit->device, unit->now_ns);
	}
	return CUDA_SUCCESS;
}
