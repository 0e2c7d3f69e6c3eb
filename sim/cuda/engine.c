/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "sim/cuda/settings.h"
#include "sim/cuda/sim.h"
#include "sim/mutex.h"

/*
 * Measured on an H200: slices of about 2 ms, and two saturating contexts get 45.7 % each. Taking
 * the device from a context in the middle of its work costs the difference:
 * 2000 / (2 * (2000 + 188)) = 45.7 %. From one that ran out of work it takes 138 us, in which the
 * device stands still: there is less to save.
 */
#define SLICE_US 2000
#define SWITCH_US 188
#define DRY_SWITCH_US 138
#define MOST_US 1000000u
#define MOST_W	2000u
/* An owner that has not passed the device on this long after its slice may be dead ... */
#define DEAD_AFTER_NS 3000000u
/* ... and one that lives but does not get to it (stopped, starved) loses it then. */
#define STALLED_AFTER_NS 20000000u

static bool engine_seat_alive(struct sim_engine_shared *shared, uint32_t index)
{
	uint32_t taken = atomic_load(&shared->seats[index].taken);

	return taken && (taken - 1 == sim_region_row() || sim_region_row_alive(taken - 1));
}

static void engine_seat_free(struct sim_engine_shared *shared, uint32_t index)
{
	shared->seats[index].waits = 0;
	atomic_store(&shared->seats[index].taken, 0);
}

/*
 * After a death with the lock held: whatever it left half done, these three facts are made anew;
 * the slice's bounds may be any two numbers of the past, which ends the slice.
 */
static void engine_repair(struct sim_engine_shared *shared)
{
	shared->waiting = 0;
	for (uint32_t i = 0; i < shared->high; i++) {
		if (!atomic_load(&shared->seats[i].taken))
			continue;
		if (!engine_seat_alive(shared, i))
			engine_seat_free(shared, i);
		else if (shared->seats[i].waits)
			shared->waiting++;
	}
	if (shared->owner && !atomic_load(&shared->seats[shared->owner - 1].taken)) {
		shared->owner = 0;
		shared->idle_from_ns = now_monotonic_ns();
	}
}

static void engine_lock(struct sim_engine_shared *shared)
{
	if (sim_mutex_lock(&shared->lock) == EOWNERDEAD) {
		engine_repair(shared);
		sim_mutex_repaired(&shared->lock);
	}
}

/*
 * A seat is rung (NULL: none) after the lock is given up. A process that is stopped stops on its
 * way out of a system call; if it held the lock there, nobody else could go on.
 */
static void engine_unlock(struct sim_engine_shared *shared, struct sim_engine_seat *ring)
{
	sim_mutex_unlock(&shared->lock);
	if (ring)
		engine_ring(ring);
}

static uint64_t engine_slice_ns(const struct sim_engine_shared *shared)
{
	return (uint64_t)shared->slice_us * 1000;
}

/* The device stands still for so long on its way from one seat to another. */
static void engine_count_switch(struct sim_engine_shared *shared, uint32_t from, uint32_t to,
				uint64_t ns)
{
	uint32_t before = shared->seats[from].account, after = shared->seats[to].account;

	sim_device_time_grow(&shared->time[after].switch_ns, ns);
	if (before == after)
		sim_device_time_grow(&shared->time[after].own_switch_ns, ns);
}

static void engine_grant(struct sim_engine_shared *shared, uint32_t index, uint64_t from_ns)
{
	struct sim_engine_seat *seat = &shared->seats[index];

	if (seat->waits)
		shared->waiting--;
	seat->waits = 0;
	shared->owner = index + 1;
	shared->slice_from_ns = from_ns;
	shared->slice_to_ns = from_ns + engine_slice_ns(shared);
}

/* The next waiting seat after `index`, in turn; -1 if none. One that is dead misses its turn. */
static int64_t engine_next_waiting(const struct sim_engine_shared *shared, uint32_t index)
{
	for (uint32_t n = 1; shared->waiting && n <= shared->high; n++) {
		uint32_t i = (index + n) % shared->high;

		if (shared->seats[i].waits)
			return i;
	}
	return -1;
}

/*
 * The owner is at its end. The next seat in line runs from from_ns on, or from when it became ready
 * if that is later, and so much later again as the switch takes. Answers that seat, to be rung.
 */
static struct sim_engine_seat *engine_hand_over(struct sim_engine_shared *shared, uint64_t from_ns,
						uint32_t switch_us)
{
	uint32_t owner = shared->owner - 1;
	int64_t next = engine_next_waiting(shared, owner);

	if (next < 0) {
		shared->last = shared->owner;
		shared->owner = 0;
		shared->idle_from_ns = from_ns;
		return NULL;
	}
	if (shared->seats[next].ready_ns > from_ns)
		from_ns = shared->seats[next].ready_ns;
	engine_count_switch(shared, owner, (uint32_t)next, switch_us * UINT64_C(1000));
	engine_grant(shared, (uint32_t)next, from_ns + switch_us * UINT64_C(1000));
	return &shared->seats[next];
}

/*
 * A process that CRIU has restored has a clock of its own (a time namespace), which is behind ours; and
 * ours may be behind that of whoever wrote before. No time is further ahead of its writer's clock than a
 * slice and a switch: what is, is of another clock, and means now. Nobody waits until then.
 */
static void engine_meet_clock(struct sim_engine_shared *shared)
{
	uint64_t us = shared->slice_us + shared->switch_us + shared->dry_switch_us;
	uint64_t now = now_monotonic_ns(), most = now + 2000 * us;

	if (shared->idle_from_ns > most)
		shared->idle_from_ns = now;
	if (shared->slice_to_ns > most)
		shared->slice_from_ns = shared->slice_to_ns = now;
}

int engine_sit(struct engine_seat *seat, unsigned int device)
{
	struct sim_engine_shared *shared = sim_region_engine(device);
	unsigned int row = sim_region_row();
	int err = -EAGAIN;

	engine_lock(shared);
	if (!shared->slice_us) {
		shared->switch_us = sim_setting("ALLOT_SIM_SWITCH_US", MOST_US, SWITCH_US);
		shared->dry_switch_us = sim_setting("ALLOT_SIM_DRY_SWITCH_US", MOST_US,
						    DRY_SWITCH_US);
		shared->slice_us = sim_setting("ALLOT_SIM_SLICE_US", MOST_US, SLICE_US);
		if (!shared->slice_us)
			shared->slice_us = SLICE_US;
	}
	for (uint32_t i = 0; i < SIM_ENGINE_SEATS; i++) {
		if (i < shared->high && shared->owner != i + 1 &&
		    atomic_load(&shared->seats[i].taken) && !engine_seat_alive(shared, i)) {
			shared->waiting -= shared->seats[i].waits;
			engine_seat_free(shared, i);
		}
		if (atomic_load(&shared->seats[i].taken))
			continue;
		shared->seats[i].waits = 0;
		shared->seats[i].account = sim_region_account();
		atomic_store(&shared->seats[i].asleep, 0);
		atomic_store(&shared->seats[i].taken, row + 1);
		if (shared->high <= i)
			shared->high = i + 1;
		seat->row = row;
		seat->watts = sim_setting("ALLOT_SIM_WATTS", MOST_W, SIM_POWER_WORK_W);
		seat->index = i;
		seat->shared = shared;
		seat->seat = &shared->seats[i];
		err = 0;
		break;
	}
	engine_unlock(shared, NULL);
	return err;
}

void engine_leave(struct engine_seat *seat)
{
	struct sim_engine_shared *shared = seat->shared;
	struct sim_engine_seat *ring = NULL;

	engine_lock(shared);
	if (shared->owner == seat->index + 1)
		ring = engine_hand_over(shared, now_monotonic_ns(), 0);
	shared->waiting -= seat->seat->waits;
	engine_seat_free(shared, seat->index);
	engine_unlock(shared, ring);
	seat->seat = NULL;
}

/*
 * Another seat owns the device: wait in line, and see to it that the line moves. Answers the seat
 * that is to be rung, or NULL.
 */
static struct sim_engine_seat *engine_wait_in_line(struct engine_seat *seat, uint64_t now,
						   uint64_t ready_ns)
{
	struct sim_engine_shared *shared = seat->shared;
	struct sim_engine_seat *ring = NULL;
	uint64_t slice = engine_slice_ns(shared);

	if (!shared->waiting) {
		/* The owner was alone, so its slices went by uncounted: find the running one. */
		uint64_t from = shared->slice_from_ns;

		if (now >= from)
			shared->slice_to_ns = from + ((now - from) / slice + 1) * slice;
		ring = &shared->seats[shared->owner - 1];
	}
	if (!seat->seat->waits) {
		seat->seat->ready_ns = ready_ns;
		seat->seat->waits = 1;
		shared->waiting++;
	}
	if (now > shared->slice_to_ns + DEAD_AFTER_NS) {
		uint32_t owner = shared->owner - 1;
		bool alive = engine_seat_alive(shared, owner);

		if (alive && now <= shared->slice_to_ns + STALLED_AFTER_NS)
			return ring;
		ring = engine_hand_over(shared, now, 0);
		if (!alive)
			engine_seat_free(shared, owner);
	}
	return ring;
}

/* From when on a context has a device that was idle. */
static uint64_t engine_idle_from(struct sim_engine_shared *shared, uint32_t index,
				 uint64_t ready_ns)
{
	uint64_t from_ns = ready_ns > shared->idle_from_ns ? ready_ns : shared->idle_from_ns;
	uint64_t switch_ns = shared->dry_switch_us * UINT64_C(1000);

	if (!shared->last || shared->last == index + 1)
		return from_ns;
	engine_count_switch(shared, shared->last - 1, index, switch_ns);
	return from_ns + switch_ns;
}

void engine_turn(struct engine_seat *seat, uint64_t ready_ns, struct engine_turn *ret_turn)
{
	struct sim_engine_shared *shared = seat->shared;
	struct sim_engine_seat *ring = NULL;
	uint64_t now = now_monotonic_ns();

	engine_lock(shared);
	engine_meet_clock(shared);
	if (!shared->owner)
		engine_grant(shared, seat->index, engine_idle_from(shared, seat->index, ready_ns));
	else if (shared->owner != seat->index + 1)
		ring = engine_wait_in_line(seat, now, ready_ns);
	ret_turn->mine = shared->owner == seat->index + 1;
	ret_turn->from_ns = shared->slice_from_ns;
	ret_turn->to_ns = shared->waiting ? shared->slice_to_ns : UINT64_MAX;
	ret_turn->look_ns = shared->slice_to_ns + DEAD_AFTER_NS;
	engine_unlock(shared, ring);
	if (ret_turn->look_ns < now + 1000000)
		ret_turn->look_ns = now + 1000000;
}

void engine_pass(struct engine_seat *seat, uint64_t at_ns, bool more)
{
	struct sim_engine_shared *shared = seat->shared;
	struct sim_engine_seat *ring = NULL;

	engine_lock(shared);
	if (shared->owner == seat->index + 1) {
		if (!more) {
			ring = engine_hand_over(shared, at_ns, shared->dry_switch_us);
		} else if (engine_next_waiting(shared, seat->index) < 0) {
			/* No other context waits any more: the owner goes on, without a switch. */
			shared->slice_from_ns = at_ns;
			shared->slice_to_ns = at_ns + engine_slice_ns(shared);
		} else {
			ring = engine_hand_over(shared, at_ns, shared->switch_us);
			seat->seat->ready_ns = at_ns;
			seat->seat->waits = 1;
			shared->waiting++;
		}
	} else if (!more && seat->seat->waits) {
		seat->seat->waits = 0;
		shared->waiting--;
	}
	engine_unlock(shared, ring);
}

void engine_add_busy(struct engine_seat *seat, uint64_t from_ns, uint64_t to_ns, uint32_t kinds)
{
	struct sim_engine_shared *shared = seat->shared;
	uint32_t account = seat->seat->account;
	uint32_t ran = atomic_exchange_explicit(&shared->ran, account + 1, memory_order_relaxed);

	atomic_fetch_add_explicit(&shared->busy_ns, to_ns - from_ns, memory_order_relaxed);
	sim_device_time_add(&shared->time[account], from_ns, to_ns, kinds, ran == account + 1);
	sim_windows_add(&seat->shared->windows[seat->row], from_ns, to_ns);
	sim_power_add(&shared->power, from_ns, to_ns, seat->watts);
}

/*
 * Rings are counted before `asleep` is read and `asleep` is set before the count is read, all
 * sequentially consistent: either the sleeper sees the ring or the ringer sees the sleeper.
 */
void engine_ring(struct sim_engine_seat *seat)
{
	atomic_fetch_add(&seat->bell, 1);
	if (atomic_load(&seat->asleep))
		syscall(SYS_futex, &seat->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t engine_listen(struct engine_seat *seat)
{
	return atomic_load(&seat->seat->bell);
}

void engine_sleep(struct engine_seat *seat, uint32_t heard, uint64_t until_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};

	atomic_store(&seat->seat->asleep, 1);
	syscall(SYS_futex, &seat->seat->bell, FUTEX_WAIT_BITSET, heard,
		until_ns == UINT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
	atomic_store(&seat->seat->asleep, 0);
}
