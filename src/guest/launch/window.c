/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/window.h"

#include "base/now.h"
#include "base/number.h"
#include "guest/meter/collect.h"
#include "guest/meter/meter.h"
#include "sched/tuning.h"

static uint64_t window_together(const struct window *window, uint64_t ns)
{
	return ns * atomic_load_explicit(&window->overlap_permille, memory_order_relaxed) / 1000;
}

static void window_set_due(struct window *window, uint64_t due_ns)
{
	atomic_store_explicit(&window->due_ns, due_ns, memory_order_relaxed);
}

void window_init(struct window *window)
{
	atomic_store(&window->overlap_permille, 1000);
}

/*
 * When launches that take `took_ns` together end, if they came evenly: directly after each other
 * and earlier work, or, if their distance was longer than their time, after the last one.
 */
static uint64_t window_end_of(uint64_t due_ns, uint64_t first_ns, uint64_t last_ns,
			      uint64_t took_ns, uint32_t n)
{
	uint64_t begin = max_u64(due_ns, first_ns), alone = last_ns + took_ns / n;

	return begin + took_ns > alone ? begin + took_ns : alone;
}

void window_launched(struct meter *meter, struct stream *stream, const struct burst *burst,
		     uint64_t first_ns, uint64_t last_ns)
{
	struct launch_device *device = launch_device_of(meter);
	struct window *window = &device->window;
	uint64_t ns = burst->expected_ns, due = window_due_ns(window);

	window->place.used = window->place.taken;
	if (stream->parked)
		return;
	if (stream->flying_ns <= ns) {
		window->idle_stream = stream;
		window->idle_ns = first_ns;
	}
	/* Launches that no event covers are done, too. */
	if (!meter_works(meter) && first_ns > due + TUNING_GAP_NS)
		meter->flying_ns = stream->flying_ns = ns;
	first_ns = stall_end_ns(&device->stall, first_ns);
	last_ns = stall_end_ns(&device->stall, last_ns);
	stream->due_ns = window_end_of(stream->due_ns, first_ns, last_ns, ns, burst->launches);
	window_set_due(window, window_end_of(due, first_ns, last_ns, window_together(window, ns),
					     burst->launches));
}

void window_released(struct meter *meter, struct stream *stream, uint64_t at_ns)
{
	stream->due_ns = stall_end_ns(&launch_device_of(meter)->stall, at_ns) + stream->flying_ns;
}

void window_unforeseen(struct launch_device *device, uint64_t now_ns)
{
	word_raise_u64(&device->meter.time->unforeseen_until_ns, now_ns + TUNING_UNFORESEEN_FOR_NS);
}

/* A length that is redrawn is too short now and too long then: either says so. */
static bool window_is_off(uint64_t took_ns, uint64_t expected_ns)
{
	return max_u64(took_ns, expected_ns) >
	       2 * min_u64(took_ns, expected_ns) + TUNING_UNFORESEEN_NS;
}

static uint64_t window_gave_ready_ns(const struct launch_device *device)
{
	return atomic_load(&state_get(device->meter.guest)->gave_ready_ns);
}

/* How soon after a held launch went work is done that has waited for it. */
static uint64_t window_handed_within_ns(const struct launch_device *device, uint64_t now_ns)
{
	const struct limits *limits = &state_get(device->meter.guest)->limits;

	return state_has_siblings(device) || !limits_alone(limits, now_ns) ? TUNING_HANDED_BESIDE_NS
									   : TUNING_HANDED_NS;
}

/*
 * With the lock. True if work waited for a held launch: the launch was let go while it worked, and
 * it was done soon after. Work that took no longer than expected would have been done then anyway,
 * and no work waits for a launch that itself waits in its stream. If those counted, a tenant that
 * was late once, by chance, would let all of its launches go from then on, in others' turns. If
 * another process of the tenant may have the device, neither is known.
 */
static bool window_was_handed(struct launch_device *device, const struct stream *stream,
			      const struct burst *burst, uint64_t began_ns, uint64_t done_ns,
			      uint64_t gave_ns)
{
	uint64_t ready = window_gave_ready_ns(device);
	uint64_t within = window_handed_within_ns(device, done_ns);

	if (state_has_siblings(device))
		return done_ns - gave_ns < within;
	if (done_ns - began_ns < burst->expected_ns + TUNING_AWAITED_SOON_NS / 2 ||
	    stream == device->window.gave_stream)
		return false;
	return ready > began_ns && done_ns < ready + within;
}

/*
 * With the lock. Work that is done right behind other work that waited for a held launch says
 * nothing against it; neither does that launch itself, however long it takes.
 */
static void window_note_handed(struct launch_device *device, const struct stream *stream,
			       const struct burst *burst, uint64_t began_ns, uint64_t done_ns,
			       uint64_t gave_ns)
{
	_Atomic uint64_t *until = &device->window.handed_until_ns;
	uint64_t before = sat_sub_u64(atomic_load(until), TUNING_HANDED_FOR_NS);

	if (!device->window.said_late_ns)
		return;
	if (window_was_handed(device, stream, burst, began_ns, done_ns, gave_ns))
		atomic_store(until, done_ns + TUNING_HANDED_FOR_NS);
	else if (done_ns > before + window_handed_within_ns(device, done_ns) &&
		 (state_has_siblings(device) || stream != device->window.gave_stream))
		atomic_store(until, 0);
}

/*
 * With the lock. True if work that took unforeseen long was done as soon as another stream, which was
 * idle, had a launch: it may have waited for that one.
 */
static bool window_may_have_waited(const struct launch_device *device, const struct stream *stream,
				   const struct burst *burst, uint64_t began_ns, uint64_t done_ns)
{
	const struct window *window = &device->window;

	return stream != window->idle_stream && window->idle_ns > began_ns &&
	       done_ns > window->idle_ns && done_ns < window->idle_ns + TUNING_HANDED_NS &&
	       done_ns - began_ns > burst->expected_ns &&
	       window_is_off(done_ns - began_ns, burst->expected_ns);
}

/* With the lock: held launches of the tenant were last let go at `gave_ns`. */
static void window_learn(struct meter *meter, const struct stream *stream,
			 const struct burst *burst, uint64_t began_ns, uint64_t done_ns,
			 uint64_t gave_ns)
{
	struct launch_device *device = launch_device_of(meter);
	const struct limits *limits = &state_get(meter->guest)->limits;
	/* Others of the tenant, or one who goes before it, may have had the device in between. */
	bool waits = state_has_siblings(device) ||
		     limits_turn_flags(limits, done_ns) & TURN_URGED || burst->waits;
	bool off;

	/* It may have waited for a launch that we held: what it took until then says nothing. */
	if (gave_ns > began_ns) {
		if (gave_ns >= done_ns)
			return;
		/* The rest of it may have waited for the next held launch. */
		waits |= atomic_load(&device->beside);
		window_note_handed(device, stream, burst, began_ns, done_ns, gave_ns);
		began_ns = gave_ns;
		if (done_ns - gave_ns <= burst->expected_ns)
			return;
	}
	if (window_may_have_waited(device, stream, burst, began_ns, done_ns)) {
		if (!burst->known)
			return;
		waits = true;
	}
	off = window_is_off(done_ns - began_ns, burst->expected_ns);
	if (off && !burst->waits)
		window_unforeseen(device, done_ns);
	cost_learn(&device->window.costs, burst->key, burst->launches, done_ns - began_ns, done_ns,
		   waits);
	if (!burst->key)
		cost_bound(&device->window.costs, burst->longest.key, done_ns - began_ns);
	/* It may have waited for a launch of another process, which was held. */
	if (!waits || !off)
		device_time_note_unit(meter->guest->ledger, meter->device->ledger, done_ns,
				      (done_ns - began_ns) / burst->launches);
}

/*
 * With the lock: a launch for another device that was let go meanwhile may have ended it, or it
 * takes longer now. The next of its kind is measured by itself: nobody is let go while that is not
 * late.
 */
static void window_doubt(struct launch_device *device, const struct burst *burst, uint64_t took_ns)
{
	if (atomic_load(&device->beside) && window_is_off(took_ns, burst->expected_ns))
		cost_doubt(&device->window.costs, burst->key ? burst->key : burst->longest.key);
}

void window_done(struct meter *meter, struct stream *stream, const struct burst *burst,
		 uint64_t began_ns, uint64_t done_ns)
{
	struct launch_device *device = launch_device_of(meter);
	uint64_t gave = device_time_gave_way_ns(meter->guest->ledger, done_ns);

	stream->due_ns = stall_end_ns(&device->stall, done_ns) + stream->flying_ns;
	if (!burst->launches)
		return;
	window_learn(meter, stream, burst, began_ns, done_ns, gave);
	if (gave > began_ns)
		window_doubt(device, burst, done_ns - began_ns);
}

uint64_t window_spun(struct meter *meter, const struct burst *burst, uint64_t began_ns,
		     uint64_t done_ns)
{
	struct launch_device *device = launch_device_of(meter);
	const struct limits *limits = &state_get(meter->guest)->limits;
	uint64_t late = sat_sub_u64(done_ns - began_ns, burst->expected_ns), held = 0;
	int own = meter->device->ledger;

	if (!atomic_load(&device->beside))
		return 0;
	for (int i = 0; i < (int)atomic_load(&limits->ndevices); i++) {
		uint64_t here;

		if (i == own || limits_share(limits, i) != limits_share(limits, own))
			continue;
		here = device_time_held(device_time_of(meter->guest->ledger, i), began_ns, done_ns);
		held = max_u64(here, held);
	}
	/* A rank that was let go, and whose thread woke up late, is waited for that long, too. */
	if (held && burst->known && late > held)
		return late < held + TUNING_WAKE_MOST_NS ? late : held + TUNING_WAKE_MOST_NS;
	return held;
}

/* How much the device does at once, over the last few launches. */
static void window_learn_overlap(struct window *window, const struct meter_look *look)
{
	uint64_t enough = UINT64_C(16) * cost_mean(&window->costs);
	uint64_t permille;

	window->streams_ns += look->streams_ns;
	window->together_ns += look->together_ns;
	if (!window->streams_ns)
		return;
	permille = window->together_ns * 1000 / window->streams_ns;
	atomic_store_explicit(&window->overlap_permille,
			      (uint32_t)clamp_i64((int64_t)permille, 20, 1000),
			      memory_order_relaxed);
	if (window->streams_ns < max_u64(enough, TUNING_OVERLAP_NS))
		return;
	window->streams_ns /= 2;
	window->together_ns /= 2;
}

/*
 * With the lock: what had the place is done. It may be in flight where no event says so, and what
 * is done is to be billed before another process takes the place.
 */
static void window_leave_place(struct meter *meter, struct window *window)
{
	if (!window->place.taken || !window->place.used || meter->flying_ns || meter_works(meter))
		return;
	device_time_give_place(meter->time, window->place.index, window->place.until_ns);
	window->place.taken = false;
	window->place.had = true;
}

bool window_hands_over(const struct launch_device *device, uint64_t now_ns)
{
	return atomic_load(&device->window.handed_until_ns) > now_ns;
}

void window_try(struct launch_device *device, uint64_t now_ns)
{
	if (now_ns > atomic_load(&device->window.tried_ns) + TUNING_TRY_NS)
		atomic_store(&device->window.tried_ns, now_ns);
}

bool window_may_try(const struct launch_device *device, uint64_t now_ns)
{
	uint64_t tried = atomic_load(&device->window.tried_ns);

	return now_ns > tried + TUNING_TRY_NS || now_ns < tried + TUNING_TRY_FOR_NS;
}

void window_see_try(struct launch_device *device, uint64_t late_ns, uint64_t now_ns)
{
	uint64_t tried = atomic_load(&device->window.tried_ns);

	if (!state_has_siblings(device) && window_gave_ready_ns(device) < tried)
		return;
	if (now_ns - late_ns > tried &&
	    now_ns < tried + TUNING_TRY_FOR_NS + TUNING_HANDED_BESIDE_NS + TUNING_AWAITED_FOR_NS)
		atomic_store(&device->window.handed_until_ns, now_ns + TUNING_HANDED_FOR_NS);
}

uint64_t window_awaited_look_ns(const struct launch_device *device, uint64_t now_ns)
{
	return window_hands_over(device, now_ns) ? TUNING_AWAITED_SOON_NS : TUNING_AWAITED_LOOK_NS;
}

/*
 * Returns true if the tenant has finished nothing for longer than its next work should take: the
 * work may wait for a held launch. Other processes of the tenant may have the device meanwhile.
 */
static bool window_is_stuck(const struct launch_device *device, const struct meter_look *look)
{
	const struct device_time *time = device->meter.time;
	uint64_t next = window_together(&device->window, look->next_ns), most;

	if (state_has_siblings(device))
		next += device_time_unit_ns(device->meter.guest->ledger,
					    device->meter.device->ledger);
	most = TUNING_AWAITED_NS + next + next / 2;
	if (window_hands_over(device, look->now_ns))
		most = TUNING_AWAITED_SOON_NS + next / 8;
	return look->late_ns > most && look->now_ns > word_read(&time->worked_ns) + most;
}

/*
 * Returns since when this process's work takes longer than it should, if each other process of the
 * tenant has as much in turns: it may wait for a held launch of this process. A launch of another
 * process is not let go for it, so nobody has to wait until all of them have finished nothing for
 * long. 0: it does not.
 */
static uint64_t window_stuck_since_ns(const struct launch_device *device,
				      const struct meter_look *look)
{
	uint64_t n = atomic_load(&device->processes);
	uint64_t next = window_together(&device->window, look->next_ns);
	uint64_t most = TUNING_AWAITED_NS + n * (next + next / 2) + (n - 1) * TUNING_WINDOW_NS;

	if (n < 2 || look->late_ns <= most)
		return 0;
	return look->now_ns - (look->late_ns - most);
}

/* With the lock. The word counts for a while only, since the process may be killed. */
static void window_say_late(struct launch_device *device, bool late, uint64_t now_ns)
{
	struct window *window = &device->window;

	if (late) {
		window->said_late_ns = now_ns + TUNING_AWAITED_FOR_NS;
		device_time_say_late(device->meter.time, now_ns, window->said_late_ns);
	} else if (window->said_late_ns) {
		device_time_say_not_late(device->meter.time, window->said_late_ns);
		window->said_late_ns = 0;
	}
}

/*
 * Work in time is done when it was expected to be; late work may be done at any moment, or take
 * long. If another process of the tenant may have the device, all of it is still to come.
 */
void window_looked(struct meter *meter, const struct meter_look *look)
{
	struct launch_device *device = launch_device_of(meter);
	struct window *window = &device->window;
	uint64_t now = stall_end_ns(&device->stall, look->now_ns), rest;

	window_learn_overlap(window, look);
	rest = window_together(window, meter->flying_ns);
	/*
	 * The end of late work is published as now. The arbiter may read it a moment before that and take the
	 * work for done, unless it knows that the length was not foreseen.
	 */
	if (look->late_ns > look->late_expected_ns &&
	    window_is_off(look->late_ns, look->late_expected_ns))
		window_unforeseen(device, look->now_ns);
	window_say_late(device, window_is_stuck(device, look), look->now_ns);
	atomic_store(&window->stuck_since_ns, window_stuck_since_ns(device, look));
	atomic_store_explicit(&window->late_ns, sat_sub_u64(look->late_ns, look->late_expected_ns),
			      memory_order_relaxed);
	if (look->late_ns && !state_has_siblings(device)) {
		uint64_t did = look->late_ns < look->late_expected_ns ? look->late_ns
								      : look->late_expected_ns;

		window_set_due(window, now + sat_sub_u64(rest, did));
	} else if (look->late_ns) {
		window_set_due(window, now + rest);
	} else if (look->done_ns) {
		window_set_due(window, stall_end_ns(&device->stall, look->done_ns) + rest);
	} else if (!meter_has_begun(meter) && window_due_ns(window) < now + rest) {
		window_set_due(window, now + rest);
	} else if (!meter->flying_ns && window_due_ns(window) > now) {
		window_set_due(window, now); /* what was in flight is parked by now */
	}
	window_leave_place(meter, window);
}

uint64_t window_late_ns(const struct launch_device *device, uint64_t now_ns)
{
	uint64_t late = device_time_late_ns(device->meter.guest->ledger, now_ns);
	uint64_t since = atomic_load(&device->window.stuck_since_ns);

	/* With nothing in flight nobody looks, and so nobody takes the word back. */
	return since && meter_is_pending(&device->meter) ? max_u64(late, sat_sub_u64(now_ns, since) + 1) : late;
}

uint64_t window_pending_ns(struct launch_device *device)
{
	return window_together(&device->window, word_read(&device->meter.flying_ns));
}

uint64_t window_look_ns(const struct launch_device *device, uint64_t now_ns)
{
	uint64_t late = atomic_load(&device->window.late_ns) / TUNING_LATE_PART;

	return now_ns +
	       (uint64_t)clamp_i64((int64_t)late, TUNING_LATE_LEAST_NS, TUNING_LATE_MOST_NS);
}

/* With the lock: whether the launch's own stream is idle, and few enough others are not. */
static bool window_may_spread(struct launch_device *device, const struct launch *launch)
{
	unsigned int overlap = atomic_load(&device->window.overlap_permille);
	unsigned int busy = 0, most = (1000 + overlap / 2) / overlap + 1;

	for (uint32_t i = 0; i < device->meter.nstreams; i++) {
		const struct stream *stream = &device->meter.stream[i];

		if (stream->parked || (!stream_has_events(stream) &&
				       (!stream->flying_ns || stream->due_ns <= launch->now_ns)))
			continue;
		if (stream->context == launch->context && stream->key == launch->stream_key)
			return false;
		busy++;
	}
	return busy < most;
}

/*
 * By all we know it is done. Is it? A program that launches as fast as the device works is always
 * near that, and need not be asked: it may have more than that in flight.
 */
uint64_t window_room_ns(struct launch_device *device, const struct launch *launch, uint64_t most_ns,
			bool spread)
{
	struct meter *meter = &device->meter;
	uint64_t now = stall_end_ns(&device->stall, launch->now_ns);
	uint64_t near = spread && most_ns > TUNING_GAP_NS ? TUNING_GAP_NS : 0;
	uint64_t due = window_due_ns(&device->window);
	bool room;

	if (due + near <= now && meter_is_pending(meter)) {
		collect_done(meter);
		due = window_due_ns(&device->window);
		if (due <= now && meter_works(meter))
			return window_look_ns(device, now);
	}
	if (due <= now + most_ns)
		return 0;
	if (!spread)
		return due - most_ns;
	meter_lock(meter);
	room = window_may_spread(device, launch);
	meter_unlock(meter);
	return room ? 0 : due - most_ns;
}

/* Where it is not known when that is, one would come on top of the other. */
uint64_t window_early_ns(const struct launch_device *device, const struct launch *launch)
{
	return word_read(&device->meter.time->unforeseen_until_ns) < launch->now_ns
		       ? TUNING_EARLY_NS
		       : 1;
}

bool window_fits(struct launch_device *device, const struct launch *launch)
{
	struct meter *meter = &device->meter;
	uint64_t own = launch->now_ns, latest = 0;

	meter_lock(meter);
	for (uint32_t i = 0; i < meter->nstreams; i++) {
		const struct stream *stream = &meter->stream[i];

		if (!stream->flying_ns || stream->parked)
			continue;
		if (stream->context == launch->context && stream->key == launch->stream_key)
			own = max_u64(stream->due_ns, own);
		else if (stream->due_ns > latest)
			latest = stream->due_ns;
	}
	meter_unlock(meter);
	return launch->known && own + launch->expected_ns <= latest + launch->expected_ns / 16;
}

bool window_is_idle(struct launch_device *device, const struct launch *launch)
{
	const struct stream *stream;
	bool idle;

	meter_lock(&device->meter);
	stream = meter_stream_of(&device->meter, launch->context, launch->stream_key);
	idle = !stream || !stream->flying_ns || stream->parked;
	meter_unlock(&device->meter);
	return idle;
}

/* With the lock: whether the device has begun all that stands in the stream, as far as is known. */
static bool window_is_through(const struct stream *stream, uint64_t now_ns)
{
	if (stream->again || (stream->flying_ns && stream->due_ns > now_ns))
		return false;
	for (uint32_t i = stream->head; i != stream->tail; i++)
		if (stream->event[i % STREAM_EVENTS].begin)
			return false;
	return true;
}

void window_gave_way(struct launch_device *device, const struct launch *launch)
{
	struct meter *meter = &device->meter;
	const struct stream *stream;
	bool ready;

	meter_lock(meter);
	stream = meter_stream_of(meter, launch->context, launch->stream_key);
	ready = !stream || window_is_through(stream, launch->now_ns);
	if (ready)
		device->window.gave_stream = stream;
	meter_unlock(meter);
	word_write(&meter->time->gave_way_ns, launch->now_ns);
	if (ready)
		atomic_store(&state_get(meter->guest)->gave_ready_ns, launch->now_ns);
}

bool window_pauses_badly(const struct launch_device *device)
{
	uint64_t mean = cost_mean(&device->window.costs);

	return (mean && mean < TUNING_SHORT_NS) ||
	       atomic_load(&device->window.overlap_permille) < TUNING_SPREAD_PERMILLE;
}

/*
 * With the lock. After it had a place a process asks once in vain: all of them wake up at once, and
 * the others go first.
 */
static bool window_take(struct launch_device *device, uint64_t now_ns, uint64_t until_ns)
{
	struct window *window = &device->window;
	int index;

	if (window->place.taken && window->place.until_ns > now_ns)
		return true;
	window->place.taken = false;
	if (window->place.had) {
		window->place.had = false;
		return false;
	}
	index = device_time_take_place(device->meter.time, now_ns, until_ns);
	if (index < 0)
		return false;
	window->place.taken = true;
	window->place.used = false;
	window->place.index = index;
	window->place.until_ns = until_ns;
	return true;
}

bool window_take_place(struct launch_device *device, uint64_t now_ns, uint64_t until_ns)
{
	bool taken;

	meter_lock(&device->meter);
	taken = window_take(device, now_ns, until_ns);
	meter_unlock(&device->meter);
	return taken;
}
