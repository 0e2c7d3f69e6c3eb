/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/admission.h"

#include <sched.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/number.h"
#include "base/word.h"
#include "guest/core/pass.h"
#include "guest/core/trace.h"
#include "guest/launch/attach.h"
#include "guest/launch/credit.h"
#include "guest/launch/demand.h"
#include "guest/launch/latch.h"
#include "guest/launch/monitor.h"
#include "guest/launch/stall.h"
#include "guest/launch/steer.h"
#include "guest/launch/window.h"
#include "guest/meter/collect.h"
#include "guest/meter/meter.h"
#include "sched/admission.h"
#include "sched/tuning.h"

/* One launch that asks. */
struct asking {
	struct guest *guest;
	struct launch_state *state;
	struct launch_device *device;
	struct launch *launch;
	uint64_t began_ns;    /* when it asked */
	uint64_t held_ns;     /* for its tenant's share or turn */
	uint64_t full_ns;     /* since when it finds no room; 0: it had some so far */
	uint64_t patience_ns; /* see struct admission_inputs; 0: it had room so far */
	uint64_t window_ns;   /* 0: unbounded */
	uint32_t bills;	      /* when the account was looked at */
	bool closed;	      /* what is open ended where it was held */
	bool settled;	      /* nothing is owed */
	bool stalled;
	bool urged; /* a higher priority may come */
	bool parked; /* its stream waits for the program */
	unsigned int traced; /* 1 + the last reason that was recorded; 0: none */
};

static const uint32_t nothing; /* to sleep on, until an instant */

static int admission_ledger_of(const struct launch_device *device)
{
	return device->meter.device->ledger;
}

/* --- What is known when a launch asks ------------------------------------------------------ */

/*
 * Work in flight will be owed for, too. A thread that would wake up before that is paid sleeps on,
 * but no longer than the share makes up for if the work takes less than was expected.
 */
static uint64_t admission_more_ns(const struct asking *asking)
{
	uint32_t share = limits_share(&asking->state->limits, admission_ledger_of(asking->device));
	uint64_t more = window_pending_ns(asking->device) * 1000 / (share ? share : 1);

	if (atomic_load(&asking->state->limits.controller) != CONTROLLER_DEFICIT)
		return 0;
	return more < TUNING_MORE_NS ? more : TUNING_MORE_NS;
}

static void admission_choose_slice(struct asking *asking)
{
	struct launch_device *device = asking->device;
	struct limits *limits = &asking->state->limits;
	bool beside = device_time_beside(asking->guest->ledger, admission_ledger_of(device),
					 asking->launch->now_ns);

	atomic_store_explicit(&device->beside, beside, memory_order_relaxed);
	atomic_store(&limits->slice_ns,
		     admission_slice_ns(&(struct admission_pace){
			     .share_permille = limits_share(limits, admission_ledger_of(device)),
			     .siblings = state_has_siblings(device),
			     .uneven = beside || window_pauses_badly(device),
		     }));
}

/* The tenant's part: its turn and its accounts. */
static void admission_look_at_share(struct asking *asking, struct admission_inputs *in)
{
	const struct limits *limits = &asking->state->limits;
	struct launch_device *device = asking->device;
	const struct launch *launch = asking->launch;
	uint64_t own;

	asking->bills = atomic_load(&asking->state->bills);
	in->paid_ns = limits_paid_ns(limits, asking->guest->ledger, admission_ledger_of(device),
				     launch->now_ns, launch->blocks, &own);
	if (own && own == in->paid_ns && !stall_is_on(&device->stall))
		in->paid_ns += admission_more_ns(asking);
	in->turn = in->paid_ns || !limits_not_our_turn(limits, launch->now_ns);
	if (!in->paid_ns && stall_is_on(&device->stall))
		stall_end(device);
	in->stalls = asking->stalled ||
		     (stall_is_on(&device->stall) && device->stall.context == launch->context &&
		      device->stall.stream == launch->stream);
	in->may_stall = in->paid_ns && !in->stalls && !asking->held_ns &&
			stall_may(asking->state, device, launch, in->paid_ns);
}

/* In flight there is to be one launch at a time, or the next one a moment early. */
static bool admission_goes_singly(uint64_t window_ns)
{
	return window_ns && window_ns <= TUNING_EARLY_NS;
}

/* 0: unbounded. */
static uint64_t admission_window_of(struct asking *asking)
{
	const struct limits *limits = &asking->state->limits;
	struct launch_device *device = asking->device;
	uint32_t flags = limits_turn_flags(limits, asking->launch->now_ns);
	/* A tenant that goes before all others is not waited for. */
	bool contended = flags & TURN_CONTENDED && !(flags & TURN_FIRST);
	bool capped = limits_capped(limits, admission_ledger_of(device));
	unsigned int n = state_processes(device, asking->launch->now_ns);
	uint64_t window;

	if (atomic_load(&asking->guest->space.confirmed) || (!asking->urged && !contended && !capped))
		return 0;
	window = admission_window_ns(&(struct admission_window){
		.share_permille = limits_share(limits, admission_ledger_of(device)),
		.asked_ns = atomic_load(&limits->inflight_us) * NS_PER_US,
		.contended = contended,
		.processes = n,
	});
	/* Work that takes longer than a slice is paid for before more begins. */
	if (capped && n * window_pending_ns(device) > limits_slice_ns(limits) + n * window)
		return 1;
	/*
	 * While a higher priority may come, brief launches go as far as the device works them off
	 * soon; a longer one goes when the work before it is about to end.
	 */
	if (asking->urged) {
		uint64_t took = asking->launch->known ? asking->launch->expected_ns : 0;
		uint64_t most = limits_urged_ns(limits);

		if (took && took + TUNING_LOOKOUT_NS <= most)
			return most - took;
		return window_early_ns(device, asking->launch);
	}
	return window;
}

/* True if it has a place, where long launches of several processes need one. */
static bool admission_has_place(struct asking *asking)
{
	struct launch_device *device = asking->device;
	const struct limits *limits = &asking->state->limits;
	uint64_t now = asking->launch->now_ns, took = asking->launch->expected_ns;
	unsigned int n = state_processes(device, now);
	int64_t share = limits_share(limits, admission_ledger_of(device));

	if (n <= DEVICE_TIME_PLACES || !limits_capped(limits, admission_ledger_of(device)) ||
	    limits_contended(limits, now) ||
	    n * took <= (uint64_t)admission_paid_in_ns(share, TUNING_ROUND_PAUSE_NS))
		return true;
	return window_take_place(device, now, now + DEVICE_TIME_PLACES * took + TUNING_PATIENCE_NS);
}

/*
 * Work may wait for what the same program launches next, so no launch waits for ever. If work is far
 * later than expected, each timeout admits one more launch; so the timeout grows with the delay.
 */
static uint64_t admission_patience_ns(const struct asking *asking, uint64_t late_part,
				      uint64_t least_ns)
{
	const struct launch_device *device = asking->device;
	uint64_t late = atomic_load(&device->window.late_ns) / late_part;

	if (window_hands_over(device, asking->launch->now_ns))
		return max_u64(TUNING_AWAITED_SOON_NS,
			       window_pending_ns(asking->device) / TUNING_AWAITED_PART);
	return min_u64(max_u64(late, least_ns), TUNING_PATIENCE_MOST_NS);
}

/*
 * A thread that is held neither waits for what it launched nor launches more: what is open ends
 * here, in whichever stream and context, and nobody need guess later when that was.
 */
static void admission_close_open(struct asking *asking)
{
	if (!asking->closed)
		meter_hold(&asking->device->meter, asking->launch->context);
	asking->closed = true;
}

/* The launch's part: room in flight. */
static void admission_look_at_room(struct asking *asking, struct admission_inputs *in)
{
	struct launch_device *device = asking->device;
	uint64_t now = asking->launch->now_ns, window = admission_window_of(asking), most = window;

	asking->window_ns = window;
	in->place = true;
	/* The device cannot begin the launch, and the program may release it by its next call. */
	if (!window || asking->parked)
		return;
	if (asking->full_ns && !asking->urged && !admission_goes_singly(window))
		most -= window / (atomic_load(&device->beside) ? TUNING_REFILL_RANKS_PART
							       : TUNING_REFILL_PART);
	in->room_ns = window_room_ns(device, asking->launch, most,
				     !asking->urged && !admission_goes_singly(window));
	in->look_ns = window_awaited_look_ns(device, now);
	if (!in->room_ns) {
		in->place = admission_has_place(asking);
		return;
	}
	if (!asking->full_ns) {
		/* It waits until there is room for several: a wake-up costs more than they do. */
		asking->full_ns = now;
		admission_close_open(asking);
		admission_look_at_room(asking, in);
		return;
	}
	in->beside = !asking->urged && window_fits(device, asking->launch);
	if (!asking->patience_ns)
		asking->patience_ns =
			max_u64(in->room_ns, now) +
			admission_patience_ns(asking, 1, TUNING_PATIENCE_NS) +
			(state_processes(device, now) - 1) * window_pending_ns(device);
	in->patience_ns = asking->patience_ns;
}

/*
 * How late work has to be before a held launch gives way to it. Devices of the same share pause
 * together, and a kernel on one may spin for the other during the pause: that ends with the pause.
 */
static uint64_t admission_late_after_ns(const struct asking *asking)
{
	const struct limits *limits = &asking->state->limits;
	int own = admission_ledger_of(asking->device);

	if (!limits_capped(limits, own) ||
	    !device_time_beside(asking->guest->ledger, own, asking->launch->now_ns))
		return 0;
	for (int i = 0; i < (int)atomic_load(&limits->ndevices); i++)
		if (i != own && limits_share(limits, i) == limits_share(limits, own))
			return 2 * TUNING_PAUSE_MOST_NS;
	return 0;
}

static uint64_t admission_waited_ns(const struct asking *asking)
{
	return max_u64(asking->held_ns,
		       asking->full_ns ? asking->launch->now_ns - asking->full_ns : 0);
}

/*
 * Returns true if late work of the tenant has the device: in its own turn, or while the arbiter lets
 * no other tenant begin before that work is done. For 50 ms the work may also share the device with
 * another tenant's turn, and a launch may end it. Below a higher priority, where work is late in any
 * case, that is assumed only if a launch ended such work the last time; but now and then one launch
 * goes to see: work that waits for another process's would else owe more and more for its waiting.
 */
static bool admission_has_device(const struct asking *asking, const struct admission_inputs *in,
				 uint64_t late_ns)
{
	uint32_t flags = limits_turn_flags(&asking->state->limits, in->now_ns);

	if (in->turn || flags & TURN_AWAITED)
		return true;
	if (asking->urged && window_may_try(asking->device, in->now_ns))
		return true;
	return late_ns < TUNING_LEAVING_NS &&
	       (!asking->urged || window_hands_over(asking->device, in->now_ns));
}

/*
 * Late work in flight may wait for this launch. If both are in one stream it waits for a later launch
 * of this thread instead, so this one goes, too, where little is in flight, or after a while.
 */
static void admission_look_at_late(const struct asking *asking, struct admission_inputs *in)
{
	struct launch_device *device = asking->device;
	uint64_t late = window_late_ns(device, in->now_ns);

	/* The program may know already that it is done, which is why it launches. */
	if (late) {
		collect_done(&device->meter);
		late = window_late_ns(device, in->now_ns);
	}
	window_see_try(device, device_time_late_ns(asking->guest->ledger, in->now_ns), in->now_ns);
	in->awaited = late > admission_late_after_ns(asking) &&
		      admission_has_device(asking, in, late) &&
		      (window_is_idle(device, asking->launch) ||
		       window_pending_ns(device) + asking->launch->expected_ns <=
			       TUNING_WINDOW_NS ||
		       admission_waited_ns(asking) >
			       admission_patience_ns(asking, 2, TUNING_BEHIND_NS));
}

/* --- Waiting ------------------------------------------------------------------------------- */

/* Each reason once, and not each look. */
static void admission_trace_held(struct asking *asking, enum trace_why why, uint64_t until_ns)
{
	uint64_t now = asking->launch->now_ns;

	if (asking->traced != 1 + (unsigned int)why)
		trace(asking->guest, TRACE_HELD, admission_ledger_of(asking->device), why,
		      until_ns > now ? until_ns - now : 0, window_pending_ns(asking->device));
	asking->traced = 1 + (unsigned int)why;
}

static void admission_trace_launched(const struct asking *asking)
{
	if (asking->held_ns || asking->traced)
		trace(asking->guest, TRACE_LAUNCHED, admission_ledger_of(asking->device),
		      asking->launch->now_ns - asking->began_ns, asking->held_ns,
		      asking->launch->expected_ns);
}

/* A sleeping thread touches no memory, so it gives its pass back: the tenant may be suspended. */
static void admission_nap(struct asking *asking, const void *word, uint32_t seen, uint64_t until_ns)
{
	struct guest *guest = asking->guest;
	bool lent = guest->swappable && pass_lend(guest);

	atomic_fetch_add(&asking->state->waiting, 1);
	futex_wait_until(word, seen, until_ns);
	atomic_fetch_sub(&asking->state->waiting, 1);
	if (lent)
		pass_wait(guest);
	asking->launch->now_ns = now_monotonic_ns();
}

/* After which another look at what the device and others do is due. */
static void admission_look_again(struct asking *asking)
{
	state_active(asking->device, asking->launch->now_ns);
	collect_done(&asking->device->meter);
	demand_publish(asking->device, asking->launch->now_ns);
}

/*
 * The device turns to another tenant only while nothing of this one is queued. So where others may
 * come first, a launch goes when the last one ends, earlier by what the device takes to begin.
 * Sleeping is too coarse for that.
 */
static void admission_look_out(struct asking *asking, uint64_t room_ns)
{
	uint64_t now = asking->launch->now_ns;

	if (room_ns > now + TUNING_GLANCE_NS)
		admission_nap(asking, &nothing, 0, now + TUNING_GLANCE_NS - TUNING_LOOKOUT_NS);
	else if (room_ns > now + TUNING_LOOKOUT_NS)
		admission_nap(asking, &nothing, 0, room_ns - TUNING_LOOKOUT_NS);
	else if (atomic_load(&asking->device->window.late_ns) > TUNING_LOOKOUT_NS)
		admission_nap(asking, &nothing, 0, now + TUNING_LOOKOUT_NS / 2);
	else
		sched_yield(); /* the processor may be wanted, too */
	asking->launch->now_ns = now_monotonic_ns();
}

static void admission_wait_for_room(struct asking *asking, uint64_t until_ns)
{
	admission_trace_held(asking, TRACE_WHY_ROOM, until_ns);
	if (asking->urged)
		admission_look_out(asking, window_due_ns(&asking->device->window));
	else
		admission_nap(asking, &nothing, 0, until_ns);
	admission_look_again(asking);
}

/*
 * Others wait for the end of what is in flight as this one does for theirs, so it looks when that
 * is expected.
 */
static uint64_t admission_turn_look_ns(const struct launch_device *device, uint64_t now_ns)
{
	uint64_t due = window_due_ns(&device->window);

	if (!meter_works(&device->meter))
		return now_ns + TUNING_DEMAND_NS / 2;
	return now_ns + (uint64_t)clamp_i64((int64_t)(due - now_ns), TUNING_LATE_LEAST_NS,
					    TUNING_GLANCE_HELD_NS);
}

/* Work in flight, of any process of the tenant, may wait for the held launch: it looks more often. */
static uint64_t admission_debt_look_ns(const struct asking *asking, uint64_t until_ns)
{
	uint64_t now = asking->launch->now_ns;
	struct ledger *ledger = asking->guest->ledger;

	for (int i = 0; ledger_knows(ledger, i); i++)
		if (word_read(&device_time_of(ledger, i)->work_until_ns) > now)
			return min_u64(until_ns,
				       now + window_awaited_look_ns(asking->device, now));
	return until_ns;
}

/* Held for the share. */
static void admission_wait_for_share(struct asking *asking, const struct admission *decision,
				     uint32_t seen, uint32_t turn_seen)
{
	struct launch_device *device = asking->device;
	struct launch *launch = asking->launch;
	struct limits *limits = &asking->state->limits;
	uint64_t from = launch->now_ns;

	admission_close_open(asking);
	device_time_hold(device->meter.time, from - asking->held_ns, from, decision->until_ns);
	/* A tenant that waits for its turn wants the device; with a debt it leaves it to others. */
	if (decision->verdict == ADMISSION_WAIT_TURN) {
		demand_want(device, from, TUNING_DEMAND_NS);
		admission_trace_held(asking, TRACE_WHY_TURN, decision->until_ns);
		admission_nap(asking, &limits->turn->seq, turn_seen,
			      admission_turn_look_ns(device, from));
	} else {
		admission_trace_held(asking, TRACE_WHY_DEBT, decision->until_ns);
		admission_nap(asking, asking->guest->gate, seen,
			      admission_debt_look_ns(asking, decision->until_ns));
		/* The monitor sleeps while nothing is in flight. */
		steer_all(asking->guest, now_monotonic_ns());
	}
	device_time_hold_end(device->meter.time, launch->now_ns);
	asking->held_ns += launch->now_ns - from;
	admission_look_again(asking);
}

/*
 * The turn is there, but the last tenant's work is on the device for a moment more. Sleeping is too
 * coarse for that, so one thread stays awake.
 */
static void admission_wait_for_edge(struct asking *asking)
{
	struct launch_state *state = asking->state;
	uint64_t now = asking->launch->now_ns;
	uint64_t from = state->limits.turn ? word_acquire(&state->limits.turn->open_from_ns) : 0;
	bool awake;

	if (from <= now || from > now + TUNING_EDGE_MOST_NS)
		return;
	admission_close_open(asking);
	awake = !atomic_exchange(&state->awake, true);
	if (!awake || from > now + TUNING_EDGE_AWAKE_NS)
		futex_wait_until(&nothing, 0, awake ? from - TUNING_EDGE_AWAKE_NS : from);
	while (awake && now_monotonic_ns() < from)
		;
	if (awake)
		atomic_store(&state->awake, false);
	asking->launch->now_ns = now_monotonic_ns();
	asking->held_ns += asking->launch->now_ns - now;
}

/* --- The way of a launch ------------------------------------------------------------------- */

static void admission_note_hold(const struct asking *asking)
{
	struct device_time *time = asking->device->meter.time;

	if (!asking->held_ns)
		return;
	word_add(&time->throttled_ns, asking->held_ns);
	word_add(&time->throttles, 1);
}

/* All that decides about the launch, as of now. */
static struct admission_inputs admission_look(struct asking *asking)
{
	struct admission_inputs in = {.now_ns = asking->launch->now_ns};
	enum meter_standing stands = meter_stands(&asking->device->meter, asking->launch);

	asking->urged = limits_turn_flags(&asking->state->limits, in.now_ns) & TURN_URGED;
	asking->parked = stands != METER_FREE;
	/* The stream itself waits for the tenant's turn, so the program does not have to. */
	if (stands == METER_LATCHED) {
		asking->bills = atomic_load(&asking->state->bills);
		in.turn = in.latched = in.place = true;
		return in;
	}
	admission_look_at_share(asking, &in);
	/* Beside work of other streams, paid for anyway, it takes no time of its own. */
	in.beside = in.turn && in.paid_ns && !in.stalls && !stall_is_on(&asking->device->stall) &&
		    window_fits(asking->device, asking->launch);
	if (in.turn && (!in.paid_ns || in.stalls || in.beside))
		admission_look_at_room(asking, &in);
	if (!in.turn || in.paid_ns || in.room_ns)
		admission_look_at_late(asking, &in);
	return in;
}

/* One look and what comes of it. True: the launch may go. */
static bool admission_step(struct asking *asking)
{
	struct limits *limits = &asking->state->limits;
	struct launch *launch = asking->launch;
	uint32_t seen = word_acquire(asking->guest->gate);
	uint32_t turn_seen = limits->turn ? word_acquire(&limits->turn->seq) : 0;
	struct admission_inputs in;
	struct admission decision;

	limits_refresh(limits, asking->guest);
	admission_choose_slice(asking);
	/* Nobody is asked, so what follows need not ask either. */
	if (limits_none(limits, asking->guest)) {
		asking->bills = atomic_load(&asking->state->bills);
		asking->settled = true;
		return true;
	}
	in = admission_look(asking);
	decision = admission_decide(&in);
	if (decision.verdict == ADMISSION_STALL) {
		asking->stalled =
			stall_begin(asking->guest, asking->device, launch, decision.until_ns);
		if (asking->stalled)
			return false;
		decision = (struct admission){ADMISSION_WAIT_DEBT, in.now_ns + TUNING_LOOK_NS};
	}
	if (decision.verdict == ADMISSION_GO) {
		/* The look for room may have found work that is done, and owed for. */
		if (atomic_load(&asking->state->bills) != asking->bills)
			return false;
		asking->settled = !in.paid_ns && !in.awaited && !in.latched;
		if (in.awaited && !in.turn)
			window_try(asking->device, launch->now_ns);
		if (in.awaited)
			trace(asking->guest, TRACE_GAVE_WAY, admission_ledger_of(asking->device),
			      window_late_ns(asking->device, in.now_ns), asking->held_ns,
			      asking->full_ns ? in.now_ns - asking->full_ns : 0);
		if (in.awaited || asking->held_ns || (in.room_ns && !in.beside)) /* impatient */
			window_gave_way(asking->device, launch);
		if (asking->settled)
			admission_wait_for_edge(asking);
		return in.latched || demand_claim(asking->device, launch->now_ns) || in.awaited;
	}
	if (decision.verdict == ADMISSION_WAIT_ROOM)
		admission_wait_for_room(asking, decision.until_ns);
	else
		admission_wait_for_share(asking, &decision, seen, turn_seen);
	return false;
}

/*
 * Sets the terms on which later launches may follow without asking. Controllers that count tokens
 * are asked for each launch, which takes some; so are launches that go one at a time, and long
 * launches that need a place.
 */
static void admission_give_credit(const struct asking *asking)
{
	const struct limits *limits = &asking->state->limits;
	uint64_t now = asking->launch->now_ns, until = UINT64_MAX;
	uint64_t room = asking->window_ns ? asking->window_ns : 1000 * NS_PER_MS;

	if (!asking->settled || atomic_load(&limits->controller) != CONTROLLER_DEFICIT ||
	    admission_goes_singly(room) ||
	    (asking->window_ns && atomic_load(&asking->device->processes) > DEVICE_TIME_PLACES))
		return;
	if (limits->turn && !turn_silent(limits->turn, now, TUNING_SILENCE_NS))
		until = word_read(&limits->turn->open_until_ns);
	credit_give(asking->device, asking->launch, room, asking->bills, until);
}

/* For a launch that nobody let through before. */
static void admission_ask(struct guest *guest, struct launch_device *device, struct launch *launch)
{
	struct asking asking = {
		.guest = guest,
		.state = state_get(guest),
		.device = device,
		.launch = launch,
		.began_ns = launch->now_ns,
	};
	const struct limits *limits = &asking.state->limits;

	while (!admission_step(&asking))
		;
	admission_note_hold(&asking);
	admission_trace_launched(&asking);
	state_active(device, launch->now_ns);
	if (!asking.stalled) { /* with a debt the tenant leaves the device to others */
		demand_want(device, launch->now_ns, TUNING_LINGER_NS);
		demand_settle(device, launch->now_ns + TUNING_LINGER_NS);
	}
	launch->rival = !limits_alone(limits, launch->now_ns) || state_has_siblings(device);
	launch->yields = limits_turn_flags(limits, launch->now_ns) & TURN_FIRST;
	launch->held = asking.held_ns;
	launch->watched = admission_goes_singly(asking.window_ns);
	admission_give_credit(&asking);
}

static uint64_t *admission_counter(const struct launch *launch)
{
	struct device_time *time = launch->meter->time;

	return launch->kind == LAUNCH_GRAPH ? &time->graph_launches : &time->launches;
}

/* Not counted when it is back: a locked instruction waits until the driver's doorbell rang. */
static void admission_count(const struct launch *launch)
{
	if (launch->kind != LAUNCH_COPY)
		word_add(admission_counter(launch), 1);
}

static void admission_expect(struct launch_device *device, struct launch *launch)
{
	struct costs *costs = &device->window.costs;

	launch->expected_ns = cost_use(costs, launch->key, launch->now_ns, &launch->alone);
	launch->known = launch->expected_ns;
	if (launch->known)
		return;
	launch->expected_ns = max_u64(cost_expect(costs, launch->key), TUNING_UNKNOWN_NS);
	window_unforeseen(device, launch->now_ns);
}

CUresult admission_enter(struct guest *guest, struct launch *launch)
{
	struct launch_device *device;
	struct launch_state *state;
	bool lets;
	CUresult e;

	if (!(word_acquire(guest->gate) & POLICY_GATE_METERED) && !guest->metered)
		return CUDA_SUCCESS;
	e = attach_device(guest, &launch->context, &device);
	if (e || !device)
		return e;
	launch->stream = launch_stream(launch->stream, launch->per_thread);
	launch->stream_key = launch_stream_key(launch->stream);
	launch->key = cost_key(launch->key, launch->blocks);
	launch->now_ns = now_monotonic_ns();
	state = state_get(guest);
	lets = credit_lets(state, device, launch);
	if ((!lets || atomic_load(&guest->captures)) && meter_is_captured(launch->stream))
		return CUDA_SUCCESS;
	launch->meter = &device->meter;
	admission_count(launch);
	admission_expect(device, launch);
	lets = lets && credit_fits(device, launch);
	if (word_read(&device->meter.parks)) {
		meter_ask_park(&device->meter, launch->context, launch->stream);
		launch->latches = latch_may(state, device, launch);
	}
	if (lets && !launch->alone && credit_take(launch)) {
		launch->credited = true;
		return CUDA_SUCCESS;
	}
	if (!lets)
		admission_ask(guest, device, launch);
	if (!atomic_load_explicit(&device->burst_from_ns, memory_order_relaxed))
		atomic_store(&device->burst_from_ns, launch->now_ns);
	meter_begin(launch);
	if (launch->in)
		credit_open(device, launch);
	if (!lets || window_due_ns(&device->window) >=
			     atomic_load(&device->said_due_ns) + TUNING_NEAR_NS) {
		demand_publish(device, launch->now_ns);
		demand_wishes(device, launch->now_ns);
	}
	/* The driver may load its code for a while: somebody is to say that there is work. */
	if (!launch->known)
		monitor_work(guest);
	return CUDA_SUCCESS;
}

void admission_left(struct guest *guest, struct launch *launch, CUresult e)
{
	struct launch_device *device = launch_device_of(launch->meter);

	if (e && launch->kind != LAUNCH_COPY)
		word_sub(admission_counter(launch), 1);
	if (launch->credited)
		return;
	meter_end(launch, e);
	monitor_work(guest);
	if (launch->now_ns > atomic_load(&device->meter.collected_ns) +
				     (launch->rival ? TUNING_END_RIVAL_NS : TUNING_END_NS)) {
		collect_done(&device->meter);
		demand_publish(device, launch->now_ns);
	}
}

