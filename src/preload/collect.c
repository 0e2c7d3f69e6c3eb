/* SPDX-License-Identifier: Apache-2.0 */
/* The half of the meter that looks which marks are done, and bills what lies between them. */
#include <time.h>

#include "base/atomic.h"
#include "base/now.h"
#include "preload/gate.h"
#include "preload/meter_priv.h"
#include "preload/park.h"
#include "preload/place.h"

/* How far back it is looked how much the device did at once, at least. */
#define OVERLAP_NS UINT64_C(10000000)

/* For so long work that has not begun may be waiting for its turn among the tenant's processes. */
#define BEGIN_NS UINT64_C(20000000)

/* Later than this manifold says nothing of what comes behind: it waits for something. */
#define LATE_MOST 8

/* Work found done in one pass, by its end. */
#define SPANS 64

struct pass {
	struct guest *guest;
	struct meter_device *md;
	uint64_t last_ns;    /* the end of the last work found done ... */
	uint64_t begun_ns;   /* ... and what came after a pause was found to have begun then */
	bool peers; /* other processes of the tenant work, too, and no other tenant */
	/* Some stream works on what is not done yet, since then, until then by what is expected. */
	uint64_t running_ns, running_to_ns;
	uint64_t late_ns, late_expected_ns; /* what took longest beyond what was expected of it */
	uint32_t marks;			    /* done with */
	int n;
	struct span span[SPANS];
};

static uint64_t cover(struct meter_device *md, uint64_t from_ns, uint64_t to_ns, uint64_t *ret_from)
{
	uint64_t busy = compute_cover(md->compute, from_ns, to_ns, ret_from);

	if (busy)
		compute_add_busy(md->compute, to_ns, busy);
	return busy;
}

/* Of work that is done. What was deferred came right before it. */
static void bill(struct guest *guest, struct meter_device *md, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t from = to_ns, busy = cover(md, from_ns, to_ns, &from);
	uint64_t deferred = compute_take_deferred(md->compute);

	if (busy || deferred)
		gate_bill(guest, md, less(from, deferred), to_ns);
}

void meter_bill(struct guest *guest, struct meter_device *md, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t since = compute_running_ns(guest->ledger, md->device->ledger, to_ns, NULL);

	bill(guest, md, since < from_ns ? since : from_ns, to_ns);
}

/*
 * What this process's streams did at once counts once here, too, but other processes hide nothing:
 * that theirs was billed first says nothing of how much ours do at once.
 */
static void count_own(struct meter_device *md, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns < md->counted_ns)
		from_ns = md->counted_ns;
	if (to_ns <= from_ns)
		return;
	md->own_ns += to_ns - from_ns;
	md->counted_ns = to_ns;
}

/*
 * What still runs is covered as far as it came: short work of another process that is billed
 * meanwhile would hide all that came before it. But it is owed for only when something is done: a
 * kernel that waits for one of another rank would else keep that one out by running up a debt.
 */
static void cover_running(struct pass *pass, uint64_t now_ns)
{
	uint64_t from, busy, to = pass->running_to_ns < now_ns ? pass->running_to_ns : now_ns;
	struct meter_device *md = pass->md;
	uint64_t since = pass->running_ns;

	if (pass->running_ns < to) {
		count_own(md, pass->running_ns, to);
		if (pass->peers)
			since = compute_running_ns(pass->guest->ledger, md->device->ledger, to,
						   NULL);
		busy = cover(md, since < pass->running_ns ? since : pass->running_ns, to, &from);
		if (busy)
			compute_defer(md->compute, busy);
	}
}

static void sort(struct span *span, int n)
{
	for (int i = 1; i < n; i++) {
		struct span one = span[i];
		int k = i;

		for (; k > 0 && span[k - 1].to_ns > one.to_ns; k--)
			span[k] = span[k - 1];
		span[k] = one;
	}
}

/*
 * By their ends. What ends later, or still runs, may have begun earlier: whoever is billed before
 * it is billed as far back, or that beginning would be found covered. Work that waited is not: it
 * takes nobody else's waiting along.
 */
static void bill_all(struct pass *pass)
{
	struct meter_device *md = pass->md;
	uint64_t own = pass->running_ns;
	uint64_t others = compute_running_ns(pass->guest->ledger, md->device->ledger, pass->last_ns,
					     atomic_load(&pass->guest->slot));

	sort(pass->span, pass->n);
	for (int i = pass->n - 1; i >= 0; i--) {
		struct span *span = &pass->span[i];

		md->lane_ns += span->to_ns - span->from_ns;
		if (span->waited)
			continue;
		own = span->from_ns < own ? span->from_ns : own;
		span->from_ns = own;
	}
	for (int i = 0; i < pass->n; i++) {
		const struct span *span = &pass->span[i];
		bool first = !span->waited && others < span->from_ns;

		count_own(md, span->from_ns, span->to_ns);
		bill(pass->guest, md, first ? others : span->from_ns, span->to_ns);
	}
	pass->n = 0;
}

static void add(struct pass *pass, uint64_t from_ns, uint64_t to_ns, bool waited)
{
	if (to_ns <= from_ns)
		return;
	if (pass->n == SPANS)
		bill_all(pass);
	if (to_ns > pass->last_ns)
		pass->last_ns = to_ns;
	pass->span[pass->n++] = (struct span){from_ns, to_ns, waited};
}

/*
 * How much longer than expected it took, if that may be because it waited for launches that the
 * gate held on another device: a rank of a collective spins there until they are let go, and would
 * pay for our own pause. What is expected is a guess before it was measured: then it has to be far
 * later, and only the time in which they were held is left out. Were that billed, too, another
 * pause would pay for it, in which the other rank waits and is billed, and so on.
 */
static uint64_t waited(const struct pass *pass, const struct mark *mark, uint64_t from_ns,
		       uint64_t to_ns, bool done)
{
	uint64_t late = less(to_ns - from_ns, mark->expected_ns), held;

	if (late < METER_GAP_NS || (!mark->known && late / LATE_MOST < mark->expected_ns))
		return 0;
	held = compute_held(pass->guest->ledger, pass->md->device->ledger, from_ns, to_ns, done);
	return held && (mark->known || held > late) ? late : held;
}

/* When work on what a mark covers began, if it did not begin with the mark; 0: nobody knows. */
static uint64_t since_ns(const struct lane *lane, const struct mark *mark)
{
	return mark->began_ns ? mark->began_ns : lane->done_ns;
}

/* The mark at the head is done with: `done_ns` is when, 0 when nobody knows. */
static void pop(struct pass *pass, struct lane *lane, uint64_t done_ns)
{
	struct meter_device *md = pass->md;
	struct mark *mark = &lane->mark[lane->head % METER_MARKS];
	uint64_t expected = mark->expected_ns, since = since_ns(lane, mark), took, spun = 0;
	bool beside = atomic_load(&md->beside);

	/* Not in this order: of another stream that had the same handle, or by a clock moved on. */
	if (done_ns && done_ns < since)
		done_ns = since;
	took = done_ns - since;
	if (!done_ns) {
		add(pass, mark->recorded_ns, mark->recorded_ns + expected, false);
	} else if (!since) {
		add(pass, done_ns - expected, done_ns, false);
	} else if (!mark->start) {
		spun = waited(pass, mark, since, done_ns, true);
		add(pass, since + spun, done_ns, spun);
	} else {
		/* Launches that no mark followed: as long as expected, if there was time. */
		add(pass, since, since + (took < expected ? took : expected), false);
	}
	/* Until then the device worked for a peer, or turned from its context to ours. */
	if (mark->start && pass->peers && done_ns < mark->recorded_ns + BEGIN_NS)
		add(pass, mark->recorded_ns, done_ns, false);
	meter_lock(md);
	if (beside) /* waiting for other ranks says nothing of what launches take together */
		atomic_poke(&md->costs.mixed_permille, 0);
	/* By two clocks the briefest may take no time at all; unknown for ever is worse. */
	if (done_ns && since && !mark->start && mark->launches && (took || mark->began_ns)) {
		if (!spun) {
			cost_learn(&md->costs, mark->key, mark->launches, took ? took : 1,
				   mark->known && !beside ? expected : 0, meter_has_peers(md));
			atomic_raise_u64(&md->compute->longest_ns, took / mark->launches);
		}
		if (mark->recorded_ns >= atomic_load(&md->doubt_ns))
			meter_trust(md);
	}
	md->pending_ns = less(md->pending_ns, expected);
	lane->pending_ns = less(lane->pending_ns, expected);
	lane->done_ns = done_ns;
	if (done_ns)
		lane->end_ns = park_from(md, done_ns) + lane->pending_ns;
	if (mark->start) {
		atomic_fetch_sub(&md->starts, 1);
		pass->begun_ns = done_ns > pass->begun_ns ? done_ns : pass->begun_ns;
	}
	clock_give(&md->clock[lane->clock], mark->event);
	mark->event = NULL;
	atomic_store(&mark->state, MARK_FREE);
	lane->head++;
	meter_unlock(md);
	pass->marks++;
}

/* The mark at the head is not done: the stream works on what is before it. */
static void running(struct pass *pass, const struct lane *lane, const struct mark *mark)
{
	uint64_t since = since_ns(lane, mark), now = now_monotonic_ns(), took;

	took = less(now, since > mark->recorded_ns ? since : mark->recorded_ns);

	if (mark->start || !since) {
		/*
		 * It may have begun since. A peer that bills before we know would hide that, so it
		 * begins where we launched: the device worked for one of us from then on.
		 */
		if (pass->peers && mark->recorded_ns < pass->running_ns &&
		    now < mark->recorded_ns + BEGIN_NS)
			pass->running_ns = mark->recorded_ns;
		return;
	}
	if (!waited(pass, mark, since, now, false)) {
		if (since < pass->running_ns)
			pass->running_ns = since;
		if (since + mark->expected_ns > pass->running_to_ns)
			pass->running_to_ns = since + mark->expected_ns;
	}
	if (took > mark->expected_ns + METER_GAP_NS &&
	    took - mark->expected_ns > pass->late_ns - pass->late_expected_ns) {
		pass->late_ns = took;
		pass->late_expected_ns = mark->expected_ns;
	}
}

static void look_at(struct pass *pass, struct lane *lane)
{
	struct clock *clock = &pass->md->clock[lane->clock];
	CUcontext current = NULL;
	bool pushed;

	DRIVER(cuCtxGetCurrent, (&current));
	pushed = current != lane->context && !DRIVER(cuCtxPushCurrent_v2, (lane->context));
	while (lane->head != atomic_peek(&lane->tail)) {
		struct mark *mark = &lane->mark[lane->head % METER_MARKS];
		uint32_t state = atomic_load_explicit(&mark->state, memory_order_acquire);
		uint64_t done = 0;

		if (state == MARK_RECORDING)
			break;
		if (state == MARK_RECORDED &&
		    clock_read(pass->md, clock, mark, &done) == CUDA_ERROR_NOT_READY) {
			running(pass, lane, mark);
			break;
		}
		pop(pass, lane, done);
	}
	if (pushed)
		DRIVER(cuCtxPopCurrent_v2, (&current));
}

/* How much the device did at once, over the last few launches. */
static void learn_overlap(struct meter_device *md)
{
	uint64_t enough = UINT64_C(16) * md->costs.mean_ns;
	uint64_t permille = md->lane_ns ? md->own_ns * 1000 / md->lane_ns : 1000;

	permille = permille < 1000 ? permille : 1000;
	if (permille < 1000 / METER_LANES)
		permille = 1000 / METER_LANES;
	md->overlap_permille = (uint32_t)permille;
	if (md->lane_ns < (enough > OVERLAP_NS ? enough : OVERLAP_NS))
		return;
	md->lane_ns /= 2;
	md->own_ns /= 2;
}

/*
 * With the lock. Work that is late may be done any moment, or go on for long; the rest is expected
 * to be late in proportion, unless it is another tenant that makes it late, or perhaps another
 * device of this one that it waits for. Where another process of the tenant may have the device,
 * what is late is still to come, as is all of a stream that has not begun.
 */
static void expect(const struct pass *pass)
{
	struct meter_device *md = pass->md;
	uint64_t rest = meter_pending_ns(md), late = pass->late_ns, known = pass->late_expected_ns;
	uint64_t last = pass->last_ns > pass->begun_ns ? pass->last_ns : pass->begun_ns;
	uint64_t now = park_from(md, now_monotonic_ns());

	last = last ? park_from(md, last) : 0;
	if (late && meter_has_peers(md)) {
		atomic_store(&md->end_ns, now + rest);
	} else if (late) {
		rest = less(rest, known);
		if (known && !gate_contended(pass->guest, now) &&
		    !compute_beside(pass->guest->ledger, md->device->ledger, now))
			rest *= late / known < LATE_MOST ? late / known + 1 : LATE_MOST;
		atomic_store(&md->end_ns, now + late / 64 + rest);
	} else if (last) {
		atomic_store(&md->end_ns, last + rest);
	} else if (atomic_load(&md->starts) && atomic_load(&md->end_ns) < now + rest) {
		atomic_store(&md->end_ns, now + rest);
	}
}

static void say_running(const struct pass *pass, uint64_t now_ns)
{
	struct meter_device *md = pass->md;
	bool runs = pass->running_ns != UINT64_MAX;

	md->running = runs;
	md->seen = (struct span){.from_ns = runs ? pass->running_ns : now_ns, .to_ns = now_ns};
	compute_set_running(atomic_load(&pass->guest->slot), md->device->ledger,
			    runs ? pass->running_ns : 0, runs ? atomic_load(&md->end_ns) : 0);
}

void meter_collect(struct guest *guest, struct meter_device *md)
{
	struct pass pass = {
		.guest = guest,
		.md = md,
		.peers = meter_has_peers(md) && !gate_contended(guest, now_monotonic_ns()),
		.running_ns = UINT64_MAX,
	};
	struct capture_mode mode;
	uint64_t now;

	if (!atomic_load(&md->marks) || atomic_exchange(&md->collecting, 1))
		return;
	now = now_monotonic_ns();
	mode = capture_relax();
	for (int i = 0; i < METER_LANES && md->lane[i].context; i++)
		if (md->lane[i].head != atomic_peek(&md->lane[i].tail) &&
		    !atomic_peek(&md->lane[i].parting))
			look_at(&pass, &md->lane[i]);
	capture_restore(mode);
	bill_all(&pass);
	/* Not before: who finds nothing in flight looks at the account next. */
	atomic_fetch_sub(&md->marks, pass.marks);
	cover_running(&pass, now);
	meter_lock(md);
	learn_overlap(md);
	expect(&pass);
	if (!atomic_load(&md->marks))
		place_give(md);
	meter_unlock(md);
	say_running(&pass, now);
	atomic_store(&md->collected_ns, now_monotonic_ns());
	atomic_store(&md->collecting, 0);
}

static void bill_spans(struct guest *guest, struct meter_device *md, const struct span *span, int n)
{
	struct pass pass = {.guest = guest, .md = md, .running_ns = UINT64_MAX};

	for (int i = 0; i < n; i++)
		add(&pass, span[i].from_ns, span[i].to_ns, false);
	bill_all(&pass);
}

/* Since when a lane works on what its marks do not show yet; it has some. */
static uint64_t lane_since(const struct lane *lane)
{
	const struct mark *mark = &lane->mark[lane->head % METER_MARKS];
	uint64_t since = since_ns(lane, mark);

	return mark->start || !since ? mark->recorded_ns : since;
}

/*
 * No call of the driver here. What was seen to work goes on the account up to when it was seen, and
 * all of it up to when it was expected to be done: the last look was some time ago, and a program
 * that ends when its only kernel is done would else owe for none.
 */
void meter_end_all(struct guest *guest, struct meter_device *md)
{
	struct span span[METER_LANES + 1];
	uint64_t now = now_monotonic_ns();
	int n = 0;

	if (atomic_exchange(&md->collecting, 1))
		return;
	span[n++] = md->seen;
	md->seen = (struct span){0};
	meter_lock(md);
	for (int i = 0; i < METER_LANES && md->lane[i].context; i++) {
		const struct lane *lane = &md->lane[i];

		if (lane->head != lane->tail)
			span[n++] = (struct span){
				.from_ns = lane_since(lane),
				.to_ns = lane->end_ns < now ? lane->end_ns : now,
			};
		else if (lane->loose.launches)
			span[n++] = lane_loose(lane, now);
	}
	meter_unlock(md);
	bill_spans(guest, md, span, n);
	atomic_store(&md->collecting, 0);
}

void meter_settle(struct guest *guest, struct meter_device *md, uint64_t now_ns)
{
	struct span span[METER_LANES];
	int n = 0;

	if (atomic_exchange(&md->collecting, 1))
		return;
	meter_lock(md);
	for (int i = 0; i < METER_LANES && md->lane[i].context; i++) {
		struct lane *lane = &md->lane[i];

		if (!lane->loose.launches || lane->head != lane->tail ||
		    now_ns < lane->end_ns + METER_GAP_NS)
			continue;
		span[n++] = lane_loose(lane, now_ns);
		lane_forget(md, lane);
	}
	meter_unlock(md);
	bill_spans(guest, md, span, n);
	atomic_store(&md->collecting, 0);
}

/* Whoever collects is inside a query for a moment. */
static void claim(struct meter_device *md)
{
	while (atomic_exchange(&md->collecting, 1))
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void meter_part(struct guest *guest, CUcontext context)
{
	gate_part(guest, context);
	for (int d = 0; context && d < guest->ndevices; d++) {
		struct meter_device *md = gate_device_made(guest, d);

		if (!md)
			continue;
		park_part(md, context, true);
		meter_collect(guest, md); /* what is done by now is known exactly */
		claim(md);
		meter_lock(md);
		for (int i = 0; i < METER_LANES; i++)
			if (md->lane[i].context == context)
				md->lane[i].parting++;
		meter_unlock(md);
		atomic_store(&md->collecting, 0);
	}
}

/* With the lock: the events died with their context. The lane stays, as the key of nothing. */
static struct span forget(struct meter_device *md, struct lane *lane, uint64_t now_ns)
{
	struct span span = lane_loose(lane, now_ns);

	if (lane->head != lane->tail)
		span = (struct span){.from_ns = lane_since(lane), .to_ns = now_ns};
	for (; lane->head != lane->tail; lane->head++)
		if (lane->mark[lane->head % METER_MARKS].start)
			atomic_fetch_sub(&md->starts, 1);
	lane_forget(md, lane);
	lane->key = 0;
	return span;
}

static void forget_all(struct guest *guest, struct meter_device *md, CUcontext context)
{
	struct span span[METER_LANES];
	uint64_t now = now_monotonic_ns();
	uint32_t marks = 0;
	int n = 0;

	claim(md);
	meter_lock(md);
	for (int i = 0; i < METER_LANES; i++) {
		struct lane *lane = &md->lane[i];

		if (lane->context != context || !lane->key)
			continue;
		marks += lane->tail - lane->head;
		span[n++] = forget(md, lane, now);
	}
	for (int i = 0; i < METER_CLOCKS; i++)
		if (md->clock[i].context == context)
			md->clock[i] = (struct clock){.context = NULL};
	meter_unlock(md);
	bill_spans(guest, md, span, n);
	atomic_fetch_sub(&md->marks, marks); /* not before, as in meter_collect */
	atomic_store(&md->collecting, 0);
}

void meter_parted(struct guest *guest, CUcontext context, bool gone)
{
	gate_part(guest, context); /* another thread may have launched in it meanwhile */
	for (int d = 0; context && d < guest->ndevices; d++) {
		struct meter_device *md = gate_device_made(guest, d);

		if (!md)
			continue;
		if (gone)
			forget_all(guest, md, context);
		else
			park_part(md, context, false);
		meter_lock(md);
		for (int i = 0; i < METER_LANES; i++)
			if (md->lane[i].context == context && md->lane[i].parting)
				md->lane[i].parting--;
		meter_unlock(md);
	}
}
