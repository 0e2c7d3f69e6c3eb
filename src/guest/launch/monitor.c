/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/monitor.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/number.h"
#include "guest/core/trace.h"
#include "guest/launch/bell.h"
#include "guest/launch/demand.h"
#include "guest/launch/latch.h"
#include "guest/launch/stall.h"
#include "guest/launch/steer.h"
#include "guest/meter/collect.h"
#include "guest/meter/leave.h"
#include "guest/process/thread.h"
#include "ledger/tenant.h"
#include "roles/arbiter_host.h"
#include "sched/tuning.h"

/* How soon to look again for what may happen any moment, and has not happened since then. */
static uint64_t monitor_begin_tick(uint64_t since_ns, uint64_t now)
{
	uint64_t tick = (now - since_ns) / TUNING_BEGIN_PART;

	return min_u64(max_u64(tick, TUNING_BEGIN_NS), TUNING_TICK_NS);
}

struct monitor_look {
	bool busy;	  /* work is in flight */
	uint64_t tick_ns; /* how soon to look again */
};

/*
 * Sooner where nobody but the monitor looks (`rung`: it was called to). Threads that launch, or are
 * held, collect for themselves.
 */
static struct monitor_look monitor_look_at_devices(struct guest *guest, uint64_t now, bool rung)
{
	struct launch_state *state = state_get(guest);
	bool held = atomic_load(&state->waiting), left = rung;
	bool alone = limits_alone(&state->limits, now);
	struct monitor_look look = {false, 0};

	for (int i = 0; i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);
		struct meter *meter = &device->meter;

		if (!device)
			continue;
		left |= !held && atomic_load(&meter->collected_ns) == device->monitor_ns;
		if (left || !alone || now > atomic_load(&meter->collected_ns) + TUNING_RECENT_NS)
			collect_done(meter);
		device->monitor_ns = atomic_load(&meter->collected_ns);
		demand_publish(device, now);
		latch_look(device, now);
		if (demand_wishes(device, now))
			look.tick_ns = monitor_begin_tick(atomic_load(&meter->begin_ns), now);
		else if (atomic_load(&meter->latched) && !look.tick_ns)
			look.tick_ns =
				monitor_begin_tick(atomic_load(&meter->latched_ns), now);
		look.busy |= meter_is_pending(meter) ||
			     window_due_ns(&device->window) + TUNING_GAP_NS > now;
	}
	if (look.tick_ns)
		return look;
	if (limits_contended(&state->limits, now))
		look.tick_ns = TUNING_TICK_NS;
	else
		look.tick_ns = look.busy && (left || !alone) ? TUNING_TICK_ALONE_NS
							     : TUNING_TICK_REST_NS;
	return look;
}

/*
 * Work from before the pause may not be billed yet, and a limit may have changed. But other
 * processes of the tenant that came since would take what is paid each time before this one does.
 */
static uint64_t monitor_end_stall(struct launch_device *device, uint64_t now_ns)
{
	uint64_t until = atomic_load(&device->stall.until_ns);
	bool turn;

	if (until > now_ns)
		return until < now_ns + TUNING_LOOK_NS ? until : now_ns + TUNING_LOOK_NS;
	collect_done(&device->meter);
	until = demand_owes(device, now_monotonic_ns(), &turn);
	if (!until || (!turn && state_processes(device, now_ns) > 1)) {
		stall_end(device);
		return UINT64_MAX;
	}
	if (turn)
		until = now_ns + TUNING_TICK_NS;
	atomic_store(&device->stall.until_ns, until);
	return until;
}

/* Ends the stalls that are over. Answers when to look again; UINT64_MAX. */
static uint64_t monitor_end_stalls(struct guest *guest, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);
		uint64_t at = device && stall_is_on(&device->stall)
				      ? monitor_end_stall(device, now_ns)
				      : UINT64_MAX;

		next = min_u64(at, next);
	}
	return next;
}

/* Takes the role where nobody seems to have it. Answers whether it is held, and when to look again. */
static bool monitor_elect(struct guest *guest, struct arbiter_host *host, uint64_t now,
			  uint64_t *ret_next_ns)
{
	const struct turn *turn = state_get(guest)->limits.turn;
	uint64_t overdue = arbiter_host_due_ns(host) + TUNING_OVERDUE_NS;
	bool silent = !turn || turn_silent(turn, now, TUNING_ELECT_NS);

	*ret_next_ns = now + TUNING_ELECT_NS / 2;
	if (!silent && now < overdue) {
		*ret_next_ns = min_u64(*ret_next_ns, overdue);
		return false;
	}
	if (arbiter_host_take(host, now))
		return true;
	arbiter_host_ring(host); /* a daemon has it, and sleeps while nobody works */
	*ret_next_ns = now + TUNING_OVERDUE_NS;
	return false;
}

/* The role, if it is ours or free. Answers when to look again. */
static uint64_t monitor_arbitrate(struct guest *guest, struct arbiter_host *host, uint64_t now,
				  uint64_t worked)
{
	uint64_t next;

	if (!arbiter_host_held(host)) {
		if (now >= worked + TUNING_ELECT_NS)
			return UINT64_MAX;
		if (!monitor_elect(guest, host, now, &next))
			return next;
	}
	if (arbiter_host_is_claimed(host)) {
		arbiter_host_drop(host);
		return now + TUNING_ELECT_NS;
	}
	next = arbiter_host_step(host, now);
	if (!arbiter_host_busy(host) || now <= worked + TUNING_ROLE_NS)
		return next;
	arbiter_host_drop(host);
	return UINT64_MAX;
}

static bool monitor_any_works(struct guest *guest)
{
	for (int i = 0; i < guest->ndevices; i++) {
		const struct launch_device *device = state_device(guest, i);

		if (device && meter_is_pending(&device->meter))
			return true;
	}
	return false;
}

/* Does what is due now. Returns true if work is in flight, and when to look again. */
static bool monitor_look_once(struct guest *guest, struct arbiter_host *host, bool rung,
			      uint64_t *worked_ns, uint64_t *ret_next_ns)
{
	struct launch_state *state = state_get(guest);
	uint64_t stalled = monitor_end_stalls(guest, now_monotonic_ns()), now = now_monotonic_ns();
	struct monitor_look look = monitor_look_at_devices(guest, now, rung);
	uint64_t next;

	steer_all(guest, now);
	atomic_store(&state->monitor.working, 0);
	/* A held thread needs an arbiter, so its process takes part in the election. */
	if (look.busy || atomic_load(&state->waiting))
		*worked_ns = now;
	next = host ? monitor_arbitrate(guest, host, now, *worked_ns) : UINT64_MAX;
	look.busy |= limits_alone(&state->limits, now) && now < *worked_ns + TUNING_TICK_LINGER_NS;
	if (look.busy && next > now + look.tick_ns)
		next = now + look.tick_ns;
	*ret_next_ns = min_u64(stalled, next);
	return look.busy;
}

static void *monitor_watch(void *arg)
{
	struct guest *guest = arg;
	struct monitor *monitor = &state_get(guest)->monitor;
	struct arbiter_host *host = NULL;
	uint64_t worked = now_monotonic_ns(), next;
	uint32_t heard = 0;

	/* For people who look at a program's threads. */
	prctl(PR_SET_NAME, "allot-monitor");
	/* Of this thread alone: the usual 50 us are a percent of a turn. */
	prctl(PR_SET_TIMERSLACK, 1000);
	/* In a container there is no file that other tenants have, too. */
	if (!tenant_is_open_to_all(guest->dir) && !arbiter_host_open(guest->dir, &host))
		atomic_store(&monitor->host, host);
	while (!atomic_load(&monitor->stop)) {
		uint32_t seen = atomic_load(&monitor->bell);
		bool busy;

		if (host)
			arbiter_host_listen(host);
		atomic_store(&monitor->working, 1);
		if (atomic_load(&monitor->stop))
			break;
		trace_follow(guest);
		busy = monitor_look_once(guest, host, seen != heard, &worked, &next);
		heard = seen;
		atomic_store(&monitor->next_ns, next);
		atomic_store(&monitor->asleep, !busy);
		if (!busy && monitor_any_works(guest)) /* begun since: nobody would ring */
			continue;
		if (host && arbiter_host_held(host))
			arbiter_host_sleep(host, next);
		else
			futex_wait_until(&monitor->bell, seen, next);
		atomic_store(&monitor->asleep, 0);
		atomic_store(&monitor->next_ns, 0);
	}
	atomic_store(&monitor->working, 0);
	return NULL;
}

/* The driver is about to shut down: from here on nobody calls it behind the program's back. */
static void monitor_stop(void)
{
	struct guest *guest = guest_made();
	struct launch_state *state = guest ? state_get(guest) : NULL;

	if (!state || atomic_load(&state->monitor.started) != 1)
		return;
	atomic_store(&state->monitor.stop, 1);
	bell_wake(&state->monitor);
	for (int i = 0; i < 1000 && atomic_load(&state->monitor.working); i++)
		usleep(100);
	for (int i = 0; i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);

		if (device) {
			stall_end(device);
			latch_open_all(device);
			leave_process(&device->meter);
		}
	}
}

static void monitor_start(struct guest *guest, struct monitor *monitor)
{
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong(&monitor->started, &expected, 1))
		return;
	if (thread_start(monitor_watch, guest))
		atomic_store(&monitor->started, 2);
	else
		atexit(monitor_stop);
}

void monitor_work(struct guest *guest)
{
	struct monitor *monitor = &state_get(guest)->monitor;

	if (__builtin_expect(!atomic_load_explicit(&monitor->started, memory_order_relaxed), 0))
		monitor_start(guest, monitor);
	/* After the event was counted: either the monitor sees that or we see it asleep. */
	if (__builtin_expect(atomic_load(&monitor->asleep), 0) &&
	    atomic_exchange(&monitor->asleep, 0))
		bell_look(guest);
}
