/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/demand.h"

#include "base/number.h"
#include "guest/launch/bell.h"
#include "sched/tuning.h"

/* Alone, and free to go on: the arbiter need not hear at once that the tenant does. */
static bool demand_has_turn(const struct limits *limits, uint64_t now_ns)
{
	return limits->turn && !limits_not_our_turn(limits, now_ns) &&
	       !turn_silent(limits->turn, now_ns, TUNING_SILENCE_NS) &&
	       limits_alone(limits, now_ns);
}

/* The arbiter looks at this, and wakes up when it was over and another may have the turn. */
void demand_want(struct launch_device *device, uint64_t now_ns, uint64_t for_ns)
{
	struct guest *guest = device->meter.guest;
	struct device_time *time = device->meter.time;
	uint64_t old = word_read(&time->demand_until_ns);

	if (limits_none(&state_get(guest)->limits, guest))
		return;
	if (old > now_ns + for_ns / 2 && old < now_ns + 1000 * NS_PER_MS)
		return;
	if (old >= now_ns + 1000 * NS_PER_MS) /* no demand lasts that long: damage */
		word_swap_if(&time->demand_until_ns, old, now_ns + for_ns);
	else
		word_raise_u64(&time->demand_until_ns, now_ns + for_ns);
	if (old < now_ns && word_read(&time->work_until_ns) < now_ns &&
	    !demand_has_turn(&state_get(guest)->limits, now_ns))
		bell_ring(guest);
}

/*
 * Ends the demand of a thread that waited and may go: from here on its work tells. Otherwise a
 * tenant that launches now and then would keep the device for as long as a wait may last. Other
 * threads of the tenant that still wait were woken by the same event, and want again.
 */
void demand_settle(struct launch_device *device, uint64_t until_ns)
{
	struct device_time *time = device->meter.time;
	uint64_t old = word_read(&time->demand_until_ns);

	if (old > until_ns)
		word_swap_if(&time->demand_until_ns, old, until_ns);
}

bool demand_wishes(struct launch_device *device, uint64_t now_ns)
{
	const struct limits *limits = &state_get(device->meter.guest)->limits;
	const struct meter *meter = &device->meter;

	if (!(limits_turn_flags(limits, now_ns) & TURN_FIRST))
		return false;
	if (meter_has_begun(meter) ||
	    now_ns > atomic_load(&meter->begin_ns) + TUNING_BEGIN_MOST_NS) {
		demand_settle(device, now_ns + (meter_works(meter) ? TUNING_LINGER_NS : 0));
		return false;
	}
	demand_want(device, now_ns, TUNING_DEMAND_NS);
	return true;
}

void demand_rest(const struct launch_device *device)
{
	if (limits_contended(&state_get(device->meter.guest)->limits, now_monotonic_ns()))
		word_write(&device->meter.time->rests_until_ns, window_due_ns(&device->window));
}

/* Writes an instant that others of the tenant write, too. *said is what this process last wrote. */
static void demand_tell(uint64_t *word, _Atomic uint64_t *said, uint64_t at_ns, uint64_t now_ns)
{
	uint64_t stands = word_read(word), before = atomic_load(said);

	if (at_ns < before + TUNING_NEAR_NS && before < at_ns + TUNING_NEAR_NS &&
	    stands >= before && stands <= now_ns + DEVICE_TIME_AHEAD_NS)
		return;
	/* Lower than before only if nobody else's work lasts longer; or over what is damaged. */
	if ((stands == before && at_ns < before) || stands > now_ns + DEVICE_TIME_AHEAD_NS)
		word_swap_if(word, stands, at_ns);
	else
		word_raise_u64(word, at_ns);
	atomic_store(said, at_ns);
}

/*
 * Until when there is work, whatever is expected: until somebody looks again, who may be late where
 * processors are few, and is never where the process was killed.
 */
static uint64_t demand_works_until_ns(const struct launch_device *device, uint64_t now_ns)
{
	if (meter_works(&device->meter))
		return now_ns + TUNING_WORKS_NS;
	/* A new launch has no event yet, and nobody waits for it yet. */
	if (word_read(&device->meter.flying_ns))
		return max_u64(now_ns, atomic_load(&device->claimed_ns));
	return now_ns;
}

/* A program that never waits works for longer and longer; one that does says so when it waited. */
static void demand_note_burst(struct launch_device *device, uint64_t now_ns, bool over)
{
	uint64_t *burst = &device->meter.time->burst_ns;
	uint64_t from = atomic_load(&device->burst_from_ns), took = now_ns - from;

	if (!from || now_ns < from)
		return;
	if (took > word_read(burst))
		word_write(burst, took);
	else if (over)
		word_write(burst, word_read(burst) - (word_read(burst) - took) / 8);
	if (over)
		atomic_store(&device->burst_from_ns, 0);
}

void demand_publish(struct launch_device *device, uint64_t now_ns)
{
	struct guest *guest = device->meter.guest;
	const struct limits *limits = &state_get(guest)->limits;
	struct device_time *time = device->meter.time;
	uint64_t due = window_due_ns(&device->window),
		 until = demand_works_until_ns(device, now_ns);
	bool worked = atomic_load(&device->said_until_ns) > now_ns + TUNING_NEAR_NS;

	if (stall_is_on(&device->stall)) { /* what waits on the device does not work */
		uint64_t before = atomic_load(&device->stall.before_ns);

		due = min_u64(due, before);
		until = min_u64(until, due);
	}
	demand_tell(&time->due_ns, &device->said_due_ns, due, now_ns);
	demand_tell(&time->work_until_ns, &device->said_until_ns, until, now_ns);
	demand_note_burst(device, now_ns, until <= now_ns);
	/*
	 * Ring: a rival that waits for the end would see it a tick later, the device being idle. At
	 * once if the turn is over, as then it is certain that one does.
	 */
	if (worked && until <= now_ns && limits_contended(limits, now_ns) &&
	    (limits_not_our_turn(limits, now_ns) ||
	     now_ns > atomic_load(&device->rung_ns) + TUNING_RING_NS)) {
		atomic_store(&device->rung_ns, now_ns);
		bell_ring(guest);
	}
}

/*
 * Beside others: says that there is work, and then looks once more whose turn it is. The arbiter
 * closes a tenant, and then looks once more whether it works, before it lets another in: of the
 * two, one sees the other.
 */
bool demand_claim(struct launch_device *device, uint64_t now_ns)
{
	struct guest *guest = device->meter.guest;
	const struct limits *limits = &state_get(guest)->limits;
	struct device_time *time = device->meter.time;
	uint64_t until = now_ns + TUNING_TICK_NS + TUNING_TICK_NS / 2;
	uint64_t old = word_read(&time->work_until_ns);

	atomic_store(&device->claimed_ns, until);
	if (!limits_contended(limits, now_ns))
		return true;
	word_raise_u64(&time->work_until_ns, until);
	atomic_store(&device->said_until_ns, until);
	/* A pause is over: the arbiter, which may wait for that, hears of it. */
	if (old < now_ns && word_read(&time->demand_until_ns) < now_ns)
		bell_ring(guest);
	if (!limits_not_our_turn(limits, now_ns))
		return true;
	atomic_store(&device->claimed_ns, 0); /* it does not launch, after all */
	demand_publish(device, now_ns);
	return false;
}

uint64_t demand_owes(struct launch_device *device, uint64_t now_ns, bool *ret_turn)
{
	struct guest *guest = device->meter.guest;
	struct launch_state *state = state_get(guest);
	uint64_t until, own;

	*ret_turn = false;
	limits_refresh(&state->limits, guest);
	if (limits_none(&state->limits, guest))
		return 0;
	until = limits_paid_ns(&state->limits, guest->ledger, device->meter.device->ledger, now_ns,
			       0, &own);
	if (until || !limits_not_our_turn(&state->limits, now_ns))
		return until;
	*ret_turn = true;
	demand_want(device, now_ns, TUNING_DEMAND_NS);
	return now_ns + TUNING_DEMAND_NS / 2;
}
