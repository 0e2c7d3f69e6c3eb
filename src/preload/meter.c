/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/meter.h"

#include "base/atomic.h"
#include "base/now.h"
#include "preload/gate.h"
#include "preload/keeper.h"
#include "preload/meter_priv.h"
#include "preload/park.h"

/*
 * A mark after so much work, or so long, or so many launches: a timing event costs the caller
 * 0.8 to 2.7 us, reading it as much again, and the device a gap of about 1 us. Where others wait
 * for the device its end is to be known soon; alone it is enough to bill before a slice is over,
 * and a program that its own launches keep waiting has them about as fast as without us.
 */
#define MARK_WORK_NS   250000
#define MARK_EVERY_NS  1000000
#define MARK_LAUNCHES  64
#define ALONE_WORK_NS  1000000
#define ALONE_EVERY_NS 2000000
#define ALONE_LAUNCHES 256
#define SINGLE_WORK_NS 2000000 /* in one stream, the end of which is soon known anyway */
/*
 * A program that keeps the device busy, so that the gate has to hold it, needs fewer: a mark and
 * what it takes to read it cost the processor 6 us where it slept in between. One of several of a
 * tenant has not so much in flight.
 */
#define STEADY_WORK_NS 2000000
#define STEADY_NS      10000000
/* So much may be in flight uncounted where nobody else waits for the device; else METER_NEAR_NS. */
#define BURST_ALONE_NS 200000
/* Work that takes longer than expected is looked at again so much later. */
#define LATE_NS 50000

/* After a pause of the program's own of so long nothing is taken for granted. */
#define PAUSE_NS 100000000

/* For so long a process counts as one of its tenant's that launch; it says so each so often. */
#define ACTIVE_EVERY_NS 5000000
#define ACTIVE_NS	(METER_LOOK_NS + 2 * ACTIVE_EVERY_NS)
#define COUNT_EVERY_NS	1000000

/* Streams of which so much of their time is each one's own hardly overlap. */
#define SPREAD_PERMILLE 750

/* Each thread's own: its address names the thread. */
static _Thread_local char thread_key __attribute__((tls_model("initial-exec")));

static CUstream stream_of(const struct unit *unit)
{
	if (unit->stream)
		return unit->stream;
	return unit->per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* With the lock: a mark to be recorded for the loose launches, or -1. */
static int mark_reserve(struct meter_device *md, struct lane *lane, const struct unit *unit)
{
	uint64_t now_ns = unit->now_ns;
	struct mark *mark = &lane->mark[lane->tail % METER_MARKS];
	CUevent event;

	if (lane->mute || lane->tail - lane->head >= METER_MARKS)
		return -1;
	event = clock_take(&md->clock[lane->clock]);
	if (!event)
		return -1;
	mark->event = event;
	mark->start = lane->gap;
	mark->began_ns = lane->began_ns;
	mark->launches = lane->loose.launches;
	mark->known = lane->loose.known;
	mark->key = lane->loose.key;
	mark->expected_ns = lane->loose.expected_ns;
	mark->recorded_ns = now_ns - unit->ahead_ns;
	atomic_store(&mark->state, MARK_RECORDING);
	lane->loose.launches = 0;
	lane->loose.expected_ns = 0;
	if (mark->start) {
		atomic_store(&md->started_ns, now_ns);
		atomic_fetch_add(&md->starts, 1);
	}
	lane->gap = false;
	lane->began_ns = 0;
	lane->marked_ns = now_ns;
	atomic_fetch_add(&md->marks, 1);
	return (int)(lane->tail++ % METER_MARKS);
}

/* Without the lock. A mark that is reserved is recorded, or void when its launch was not `ok`. */
static void mark_record(struct lane *lane, int index, bool ok)
{
	struct mark *mark = &lane->mark[index];
	CUresult e = CUDA_ERROR_UNKNOWN;

	if (ok) {
		struct capture_mode mode = capture_relax();

		e = DRIVER(cuEventRecord, (mark->event, lane->stream));
		capture_restore(mode);
		/* Some streams are not ours to mark: a green context's, another device's. */
		if (e)
			lane->mute = true;
	}
	atomic_store_explicit(&mark->state, e ? MARK_VOID : MARK_RECORDED, memory_order_release);
}

CUresult meter_unit(struct guest *guest, struct unit *unit)
{
	struct guest_device *device;

	unit->stream = stream_of(unit);
	unit->device = NULL;
	unit->context = NULL;
	if (DRIVER(cuCtxGetCurrent, (&unit->context)) || !unit->context)
		return CUDA_SUCCESS;
	unit->lane_key = unit->stream == CU_STREAM_PER_THREAD ? (uint64_t)(uintptr_t)&thread_key :
								(uint64_t)(uintptr_t)unit->stream;
	unit->device = gate_device_of(guest, unit->context);
	if (unit->device)
		return CUDA_SUCCESS;
	device = guest_current_device(guest);
	if (!device)
		return CUDA_SUCCESS;
	unit->device = gate_device(guest, device, unit->context);
	return unit->device ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool meter_captured(const struct unit *unit)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	/* An error: another stream captures, and this launch will fail. */
	return DRIVER(cuStreamIsCapturing, (unit->stream, &status)) ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* With the lock: whether the end of a launch that was counted is to be marked. */
static bool mark_due(const struct meter_device *md, const struct lane *lane, uint64_t now_ns,
		     bool rare)
{
	uint64_t work = lane->loose.expected_ns, since = now_ns - lane->marked_ns;
	/* Several streams pause together only as far as each one's end is known. */
	bool single = md->pending_ns == lane->pending_ns;
	bool steady = single && now_ns < atomic_load_explicit(&md->full_ns, memory_order_relaxed) +
						 STEADY_NS;

	if (steady && work < STEADY_WORK_NS)
		return since > STEADY_NS;
	/* Of ranks it is to be known when they began to wait for each other. */
	if (rare && single && !atomic_load_explicit(&md->beside, memory_order_relaxed))
		return work >= SINGLE_WORK_NS || lane->loose.launches >= ALONE_LAUNCHES ||
		       since > 2 * ALONE_EVERY_NS;
	if (rare)
		return work >= ALONE_WORK_NS || lane->loose.launches >= ALONE_LAUNCHES ||
		       since > ALONE_EVERY_NS;
	return work >= MARK_WORK_NS || lane->loose.launches >= MARK_LAUNCHES ||
	       since > MARK_EVERY_NS;
}

/*
 * With the lock: whether work begins on an idle stream where no event is to be recorded. Ranks that
 * NCCL has not connected yet pay for one that comes before the first launch of some functions (of
 * cuBLAS or cuDNN, on an H200): their kernels are further apart from then on, for good. When such a
 * launch was asked for is as good a beginning: its code is loaded first. Beside other processes'
 * work it may begin much later.
 */
static bool begins_unmarked(const struct meter_device *md, const struct lane *lane,
			    const struct unit *unit)
{
	return !unit->known && unit->rare && !unit->parks && !unit->ahead_ns && lane_idle(lane) &&
	       lane->clock >= 0 && md->clock[lane->clock].used;
}

/*
 * With the lock: what may follow a launch without it, as far as there is room, and the arbiter does
 * not care to know.
 */
static uint64_t burst_most_ns(const struct meter_device *md, const struct lane *lane,
			      const struct unit *unit)
{
	uint64_t most = unit->rare ? BURST_ALONE_NS : METER_NEAR_NS;
	uint64_t room = less(unit->now_ns + atomic_peek(&md->pass.room_ns), meter_end_ns(md));

	if (lane->mute || unit->ahead_ns)
		return 0;
	return room < most ? room : most;
}

static uint64_t *launches_of(const struct unit *unit)
{
	struct compute *compute = unit->device->compute;

	return unit->graph ? &compute->graph_launches : &compute->launches;
}

/* With the lock: a stream takes the lane over. Answers what no mark will tell of the last one. */
static struct span lane_hand_over(struct meter_device *md, struct lane *lane,
				  const struct unit *unit, int clock)
{
	struct span rest = lane_loose(lane, unit->now_ns);

	lane_forget(md, lane);
	lane->context = unit->context;
	lane->key = unit->lane_key;
	lane->stream = unit->stream;
	lane->clock = clock;
	lane->mute = clock < 0;
	lane->parting = 0;
	lane->end_ns = lane->done_ns = lane->marked_ns = 0;
	lane->parked = 0;
	lane->deaf = false;
	return rest;
}

/* What takes the lock. Apart, so that the way of a launch without it is short. */
static __attribute__((noinline)) void begin(struct guest *guest, struct unit *unit)
{
	struct meter_device *md = unit->device;
	CUcontext context = unit->context;
	uint64_t now = unit->now_ns, key = unit->lane_key;
	struct span rest = {0}; /* what was launched in the lane and no mark will tell of */
	struct lane *lane;
	bool fresh, new;
	int clock = -1, before = -1;

	meter_lock(md);
	if (!unit->known && unit->rare) { /* see begins_unmarked: is its stream idle? */
		meter_unlock(md);
		meter_collect(guest, md);
		meter_lock(md);
	}
	unit->lane = lane_find(md, context, key, &new);
	if (new) {
		meter_unlock(md);
		clock = clock_find(md, context);
		meter_lock(md);
		unit->lane = lane_find(md, context, key, &new);
	}
	if (unit->lane < 0) {
		meter_unlock(md);
		return;
	}
	lane = &md->lane[unit->lane];
	if (new)
		rest = lane_hand_over(md, lane, unit, clock);
	if (!atomic_load(&md->marks) && now > atomic_load(&md->end_ns) + METER_GAP_NS)
		md->pending_ns = 0; /* what no mark covers is done, too */
	fresh = now > lane->end_ns + METER_GAP_NS || lane->held != atomic_load(&md->held) ||
		unit->parks;
	lane->gap = lane->gap || fresh;
	if (fresh && unit->asked_ns > atomic_load(&md->end_ns) + PAUSE_NS) {
		atomic_store(&md->doubt_ns, now - unit->ahead_ns);
		unit->alone = true;
	}
	if (lane->mute)
		meter_trust(md); /* it will never be measured */
	lane->held = atomic_load(&md->held);
	if (fresh && begins_unmarked(md, lane, unit)) {
		if (lane->loose.launches)
			rest = lane_loose(lane, now);
		lane_forget(md, lane);
		lane->gap = false;
		lane->began_ns = now;
	} else if (fresh || (unit->alone && lane->loose.launches)) {
		before = mark_reserve(md, lane, unit);
	}
	lane_count(md, lane,
		   &(struct tally){
			   .launches = 1,
			   .known = unit->known,
			   .key = unit->key,
			   .expected_ns = unit->expected_ns,
			   .first_ns = now,
			   .last_ns = now,
		   });
	if (unit->alone || unit->marked || mark_due(md, lane, now, unit->rare))
		unit->mark = mark_reserve(md, lane, unit);
	if (before >= 0 || unit->mark >= 0) {
		unit->first = !md->clock[lane->clock].used;
		md->clock[lane->clock].used = true;
	}
	/* Who was asked just before has woken the keeper, and collected if that was due. */
	unit->quiet = !unit->asked && unit->mark < 0 && !lane->mute;
	burst_begin(md, unit, burst_most_ns(md, lane, unit));
	meter_unlock(md);
	if (!atomic_load_explicit(&md->running, memory_order_relaxed) &&
	    !atomic_exchange(&md->running, true))
		compute_set_running(atomic_load(&guest->slot), md->device->ledger, now,
				    now + unit->expected_ns);
	if (before >= 0)
		mark_record(lane, before, true);
	if (rest.to_ns > rest.from_ns)
		meter_bill(guest, md, rest.from_ns, rest.to_ns);
}

void meter_begin(struct guest *guest, struct unit *unit)
{
	struct meter_device *md = unit->device;

	unit->mark = -1;
	/* Not when it is launched: a locked instruction waits until the driver's doorbell rang. */
	__atomic_fetch_add(launches_of(unit), 1, __ATOMIC_RELAXED);
	unit->expected_ns = cost_use(&md->costs, unit->key, &unit->known, &unit->alone);
	unit->quiet = !unit->asked && unit->known && !unit->alone && burst_join(md, unit);
	if (!unit->quiet)
		begin(guest, unit);
}

void meter_catch_up(struct meter_device *md)
{
	meter_lock(md);
	meter_unlock(md);
}

void meter_pause(struct unit *unit)
{
	struct meter_device *md = unit->device;
	int mark = -1, i;
	bool new;

	meter_lock(md);
	i = lane_find(md, unit->context, unit->lane_key, &new);
	if (i >= 0 && !new && md->lane[i].loose.launches)
		mark = mark_reserve(md, &md->lane[i], unit);
	meter_unlock(md);
	if (mark >= 0)
		mark_record(&md->lane[i], mark, true);
}

/* A launch that the driver refused, after all. */
static void uncount(struct meter_device *md, struct lane *lane, const struct unit *unit)
{
	uint64_t expected = unit->expected_ns;

	meter_lock(md);
	if (unit->mark < 0 && lane->loose.launches) {
		lane->loose.launches--;
		lane->loose.expected_ns = less(lane->loose.expected_ns, expected);
		lane->pending_ns = less(lane->pending_ns, expected);
		md->pending_ns = less(md->pending_ns, expected);
	}
	lane->end_ns = less(lane->end_ns, expected);
	meter_unlock(md);
}

void meter_end(struct guest *guest, struct unit *unit, bool ok)
{
	struct meter_device *md = unit->device;
	struct lane *lane = unit->lane < 0 ? NULL : &md->lane[unit->lane];

	if (!ok) {
		__atomic_fetch_sub(launches_of(unit), 1, __ATOMIC_RELAXED);
		if (lane)
			uncount(md, lane, unit);
	}
	if (unit->mark >= 0)
		mark_record(lane, unit->mark, ok);
	else if (ok && (!lane || lane->mute))
		meter_bill(guest, md, unit->now_ns, unit->now_ns + unit->expected_ns);
	keeper_work(guest);
	if (unit->first)
		keeper_look(guest);
	if (unit->now_ns > atomic_load_explicit(&md->collected_ns, memory_order_relaxed) +
				   (unit->rare ? ALONE_WORK_NS : MARK_WORK_NS))
		meter_collect(guest, md);
}

void meter_active(struct guest *guest, const struct unit *unit)
{
	struct meter_device *md = unit->device;
	uint64_t until = unit->now_ns + ACTIVE_NS;

	if (until < atomic_peek(&md->active_until_ns) + ACTIVE_EVERY_NS)
		return;
	atomic_poke(&md->active_until_ns, until);
	compute_set_active(atomic_load(&guest->slot), md->device->ledger, until);
}

unsigned int meter_processes(struct guest *guest, struct meter_device *md, uint64_t now_ns)
{
	if (now_ns >= atomic_peek(&md->processes_ns) + COUNT_EVERY_NS) {
		atomic_poke(&md->processes, compute_active(guest->ledger, md->device->ledger,
							   now_ns));
		atomic_poke(&md->processes_ns, now_ns);
	}
	return atomic_peek(&md->processes);
}

/*
 * Work that is late holds what comes behind it, because it may be longer than expected. To the
 * arbiter it is what is expected of it, from now: it may be late because another tenant works.
 */
void meter_publish(struct meter_device *md, uint64_t now_ns)
{
	uint64_t *word = &md->compute->work_until_ns, stands = atomic_peek(word);
	uint64_t end = meter_end_ns(md), due = now_ns + meter_pending_ns(md),
		 said = atomic_peek(&md->published_ns);

	end = end < due ? end : due;
	if (park_is_on(md)) { /* what waits on the device does not work */
		uint64_t before = atomic_load(&md->park.before_ns);

		end = end < before ? end : before;
	}
	if (end < said + METER_NEAR_NS && said < end + METER_NEAR_NS && stands >= said &&
	    stands <= now_ns + COMPUTE_AHEAD_NS)
		return;
	/* Lower than before only if nobody else's work lasts longer; or over what is damaged. */
	if ((stands == said && end < said) || stands > now_ns + COMPUTE_AHEAD_NS)
		atomic_swap_if_u64(word, stands, end);
	else
		atomic_raise_u64(word, end);
	atomic_poke(&md->published_ns, end);
}

/* With the lock: whether the launch's own stream is idle, and few enough others are not. */
static bool may_spread(struct meter_device *md, const struct unit *unit)
{
	unsigned int overlap = md->overlap_permille ? md->overlap_permille : 1;
	unsigned int busy = 0, most = (1000 + overlap / 2) / overlap + 1;

	for (int i = 0; i < METER_LANES && md->lane[i].context; i++) {
		const struct lane *lane = &md->lane[i];

		if (lane_idle(lane) && (!lane->pending_ns || lane->end_ns <= unit->now_ns))
			continue;
		if (lane->context == unit->context && lane->key == unit->lane_key)
			return false;
		busy++;
	}
	return busy < most;
}

bool meter_pauses_badly(struct meter_device *md, uint64_t short_ns)
{
	bool brief, spread;

	meter_lock(md);
	brief = md->costs.mean_ns && md->costs.mean_ns < short_ns;
	spread = md->overlap_permille < SPREAD_PERMILLE;
	meter_unlock(md);
	return brief || spread;
}

uint64_t meter_expect(struct unit *unit)
{
	struct meter_device *md = unit->device;
	uint64_t took;
	bool known;

	meter_lock(md);
	took = cost_expect(&md->costs, unit->key, &known);
	meter_unlock(md);
	return known ? took : 0;
}

bool meter_fits(struct unit *unit)
{
	struct meter_device *md = unit->device;
	uint64_t last = 0, own = unit->now_ns, took;
	bool known;

	meter_lock(md);
	took = cost_expect(&md->costs, unit->key, &known);
	for (int i = 0; i < METER_LANES && md->lane[i].context; i++) {
		const struct lane *lane = &md->lane[i];

		if (lane->context == unit->context && lane->key == unit->lane_key)
			own = lane->end_ns > own ? lane->end_ns : own;
		else if (lane->end_ns > last)
			last = lane->end_ns;
	}
	meter_unlock(md);
	return known && own + took <= last + took / 16;
}

uint64_t meter_room(struct guest *guest, struct unit *unit, uint64_t bound_ns, bool spread)
{
	struct meter_device *md = unit->device;
	uint64_t now = unit->now_ns, end = atomic_load(&md->end_ns);
	uint64_t near = spread && bound_ns > METER_GAP_NS ? METER_GAP_NS : 0;
	bool room;

	/*
	 * By all we know it is done. Is it? A program that launches as fast as the device works is
	 * always near that, and need not be asked: it may have more than that in flight.
	 */
	if (end + near <= now && atomic_load(&md->marks)) {
		meter_collect(guest, md);
		end = atomic_load(&md->end_ns);
		if (end <= now && atomic_load(&md->marks))
			return now + LATE_NS;
	}
	if (end <= now + bound_ns)
		return 0;
	if (!spread)
		return end - bound_ns;
	meter_lock(md);
	room = may_spread(md, unit);
	meter_unlock(md);
	return room ? 0 : end - bound_ns;
}
