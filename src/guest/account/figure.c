/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/figure.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "base/pidns.h"
#include "guest/account/calls.h"
#include "guest/account/context.h"
#include "guest/account/driver_list.h"
#include "guest/account/granule.h"
#include "guest/account/holder.h"
#include "guest/account/later.h"
#include "guest/account/own_pid.h"
#include "guest/account/state.h"
#include "guest/core/object.h"
#include "guest/core/own_nvml.h"
#include "ledger/quota.h"
#include "ledger/shared.h"

#define MIB	  (UINT64_C(1) << 20)
#define LOOK_NS	  UINT64_C(5000000)    /* at most every 5 ms while near the limit */
#define GLANCE_NS UINT64_C(1000000000) /* and every second in any case */
/*
 * What another process of the tenant may hold and not have charged; only how early we look depends
 * on it.
 */
#define SIBLING_BYTES (256 * MIB)
/* Of a look, where others are in the way; and of one that they wait for, but streams go on. */
#define TRIES	     4
#define ALONE_TRIES  100
#define ALONE_NAP_NS 100000
#define SAMPLES	      512

/* One look: too large for a stack that is not ours. */
struct figure_look {
	uint64_t calls;	    /* of the device, before the driver was asked */
	uint32_t own;	    /* calls that the caller itself has under way */
	struct driver_list list;
	uint64_t charged[QUOTA_SLOTS]; /* by each slot, before the driver was asked */
	nvmlProcessUtilizationSample_t sample[SAMPLES]; /* of utilisation: another question */
};

/* One is kept: making it and touching its pages takes longer than most looks. Nothing of it is zero. */
static struct figure_look *figure_look_new(struct guest *guest)
{
	struct figure_look *look = atomic_exchange(&guest->account->look, NULL);

	return look ? look : pages_map(sizeof(struct figure_look));
}

static void figure_look_free(struct guest *guest, struct figure_look *look)
{
	look = atomic_exchange(&guest->account->look, look);
	if (look)
		munmap(look, sizeof(*look));
}

static int figure_of(const struct figure_look *look, uint32_t pid, uint64_t *ret_bytes)
{
	for (int i = 0; i < look->list.n; i++) {
		/* NVML says "not available" as all ones. */
		if (look->list.process[i].pid == pid &&
		    look->list.process[i].usedGpuMemory < QUOTA_ABSURD_BYTES) {
			*ret_bytes = look->list.process[i].usedGpuMemory;
			return 0;
		}
	}
	return -ESRCH;
}

/* Everything that a slot is charged for, on its way or shared included. */
static uint64_t figure_charged(struct guest *guest, int slot, int ledger_device)
{
	uint64_t sum = shared_held(guest->ledger, slot, ledger_device);
	struct quota_row row;

	if (quota_process(guest->ledger, slot, ledger_device, &row))
		return 0;
	sum += row.pending;
	for (int c = 0; c < CAT_N; c++)
		sum += row.used[c] < QUOTA_ABSURD_BYTES ? row.used[c] : 0;
	return sum;
}

static void figure_note_charged(struct guest *guest, int ledger_device, struct figure_look *look)
{
	for (int i = 0; i < slot_count(guest->ledger); i++)
		look->charged[i] = figure_charged(guest, i, ledger_device);
}

/*
 * What the driver took for the tenant's other processes and these have not charged: an idle process
 * does not look. Each process's charges are read before and after the figure, and the larger sum
 * counts: so an allocation or a free under way is not taken for something hidden. Where `each` is
 * not NULL, what a process hides is added to its word of that.
 */
static uint64_t figure_hidden_by_siblings(struct guest *guest, int ledger_device,
					  const struct figure_look *look, uint64_t *each)
{
	int own = slot_index(atomic_load(&guest->slot));
	uint64_t hidden = 0;

	for (int i = 0; i < slot_count(guest->ledger); i++) {
		uint64_t figure, now;
		struct slot_info info;

		if (i == own || slot_info(guest->ledger, i, &info) ||
		    figure_of(look, info.driver_pid, &figure))
			continue;
		now = figure_charged(guest, i, ledger_device);
		if (now < look->charged[i])
			now = look->charged[i];
		if (figure <= now || !slot_alive(guest->ledger, i))
			continue;
		hidden += figure - now;
		if (each)
			each[i] = sat_add_u64(each[i], figure - now);
	}
	return hidden;
}

void figure_begin(struct guest_device *device)
{
	atomic_store(&device->account->context_ns, now_ns(CLOCK_MONOTONIC_COARSE));
}

/*
 * A process that is nearer to the limit than this looks before it takes more. A context or a large
 * library fits in between twice. New code may also need a deeper stack, which the driver backs at a
 * launch for every thread of the device.
 */
static uint64_t figure_margin(struct guest *guest, uint64_t limit, bool stale)
{
	uint64_t siblings = (uint64_t)slot_count(guest->ledger) * SIBLING_BYTES;

	return limit / 8 + (stale ? 5 : 1) * 1024 * MIB + siblings;
}

/* Does another process of the tenant live? Of a dead one the driver has nothing to tell. */
static bool figure_has_siblings(struct guest *guest)
{
	struct slot *slot = atomic_load(&guest->slot);
	int own = slot ? slot_index(slot) : -1;
	int cancel = cancel_hold(); /* a slot's lock is asked by a file that is opened */
	struct slot_info info;
	bool has = false;

	for (int i = 0; !has && i < slot_count(guest->ledger); i++)
		has = i != own && !slot_info(guest->ledger, i, &info) && slot_alive(guest->ledger, i);
	cancel_release(cancel);
	return has;
}

bool figure_due(struct guest *guest, struct guest_device *device, uint64_t used, uint64_t limit)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC_COARSE);
	uint64_t last = atomic_load(&device->account->reconciled_ns);
	bool stale = atomic_load(&device->account->stale), due;
	uint64_t margin = figure_margin(guest, limit, stale);

	if (used > limit || margin > limit - used) {
		/* Of a process without a context the driver knows nothing, only of others. */
		if (!atomic_load(&device->account->contexts) && !figure_has_siblings(guest))
			return false;
		return stale || now > last + LOOK_NS;
	}
	if (last < atomic_load(&device->account->context_ns))
		last = atomic_load(&device->account->context_ns);
	due = last && now > last + GLANCE_NS;
	/* So far from the limit no admission depends on a look: nobody waits for NVML. */
	if (due && !own_nvml_settled(guest, device->ledger)) {
		own_nvml_begin(guest, device->ledger);
		return false;
	}
	return due;
}

bool figure_due_now(struct guest *guest, struct guest_device *device)
{
	return figure_due(guest, device, quota_used(guest->ledger, device->ledger),
			  guest_limit(guest, device));
}

static bool figure_is_near_with(struct guest *guest, int ledger_device, uint64_t limit, bool stale)
{
	uint64_t used = quota_used(guest->ledger, ledger_device);

	return limit && used + CONTEXT_UNSEEN_BYTES + figure_margin(guest, limit, stale) > limit;
}

/* Its code comes next. */
bool figure_will_be_near(struct guest *guest, struct guest_device *device)
{
	return figure_is_near_with(guest, device->ledger, guest_limit(guest, device), true);
}

void figure_expect(struct guest *guest, struct guest_device *device)
{
	if (figure_will_be_near(guest, device))
		own_nvml_begin(guest, device->ledger);
}

static void figure_expect_each(struct guest *guest)
{
	for (int i = 0; i < GUEST_DEVICES; i++) {
		_Atomic uint64_t limit = 0, generation = 0;
		struct ledger_device_info info;

		if (ledger_device_info(guest->ledger, i, &info))
			return;
		/*
		 * Before this call the process takes the rows for empty: they may not be on disk.
		 */
		if (ledger_allocate(guest->ledger, i))
			continue;
		if (figure_is_near_with(guest, i,
					guest_limit_cached(guest, info.uuid, info.total_bytes,
							   &limit, &generation),
					false))
			own_nvml_begin(guest, i);
	}
}

void figure_expect_any(struct guest *guest)
{
	if (!once_begin(&guest->account->ahead))
		return;
	if (figure_has_siblings(guest))
		figure_expect_each(guest);
	once_end(&guest->account->ahead, 0);
}

void figure_look(struct guest *guest, struct guest_device *device)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC_COARSE);

	if (!guest_by_driver(guest) &&
	    (atomic_load(&device->account->stale) || atomic_load(&device->account->unsure) ||
	     now > atomic_load(&device->account->reconciled_ns) + LOOK_NS))
		figure_reconcile(guest, device);
}

/* Bytes of imported memory that stand in this process's figure, though its entry is charged. */
struct inherited {
	uint64_t alone, shared; /* no other process has it open; others have */
};

/*
 * Memory that this process imported and its exporter has let go of. From then on it stands in the
 * driver's figure of one of the importers. The driver does not say in which: in ours if nobody else
 * has it. Memory by handle, and of pools, then stands in nobody's figure. So does what a swappable
 * tenant imports of itself, which has no entry (importer.h).
 */
static void figure_add_inherited(struct guest *guest, struct guest_device *device,
				 enum object_kind kind, uint64_t grown, struct inherited *sum)
{
	struct slot *slot = atomic_load(&guest->slot);
	struct object *object;

	OBJECT_EACH (object, guest->objects, kind) {
		uint64_t size = round_up(object->size, GRANULE_BYTES);

		if (object->device != device->ordinal || !(object->flags & OBJECT_IMPORTED) ||
		    !(object->flags & OBJECT_SHARED) || object->flags & OBJECT_ENDED ||
		    shared_covered(guest->ledger, object->shared))
			continue;
		if (shared_is_alone(slot, object->shared))
			sum->alone += size;
		else if (sum->shared + size <= grown)
			sum->shared += size;
	}
}

static struct inherited figure_sum_inherited(struct guest *guest, struct guest_device *device,
					     uint64_t grown)
{
	struct inherited sum = {0};

	figure_add_inherited(guest, device, OBJECT_IPC, grown, &sum);
	figure_add_inherited(guest, device, OBJECT_EXTERNAL, grown, &sum);
	return sum;
}

/*
 * Of `rest` bytes, of which contexts have `least`. What others have open, too, is taken for ours if
 * our figure has grown by as much since it was `before`. An exporter that has just ended counts as
 * one until its slot is cleared.
 */
static uint64_t figure_inherited(struct guest *guest, struct guest_device *device, uint64_t rest,
				 uint64_t least, uint64_t before)
{
	struct inherited sum;
	uint64_t alone;

	if (!object_count(guest->objects, OBJECT_IPC) &&
	    !object_count(guest->objects, OBJECT_EXTERNAL))
		return 0;
	quota_reclaim(guest->ledger);
	sum = figure_sum_inherited(guest, device, 0);
	alone = sum.alone <= rest - least ? sum.alone : 0; /* else it is not in the figure yet */
	if (rest - alone > before)
		sum = figure_sum_inherited(guest, device, rest - alone - before);
	return alone + sum.shared;
}

/* Of `rest` bytes that are not charged by size: those of contexts, as far as their size is known. */
static uint64_t figure_contexts(struct guest *guest, struct guest_device *device, uint64_t rest)
{
	uint64_t bytes = (uint64_t)atomic_load(&device->account->contexts) * context_size(guest, device) +
			 atomic_load(&device->account->stack_bytes);

	return bytes < rest ? bytes : rest;
}

/*
 * Splits the rest of the driver's figure, which is not charged by size, into contexts and code, and
 * adds what the driver has promised to take. False: another thread has charged for either since the
 * row was read. What it charged stands, and the figure is older than that.
 */
static bool figure_split(struct guest *guest, struct guest_device *device,
			 const struct quota_row *row, uint64_t rest)
{
	struct slot *slot = atomic_load(&guest->slot);
	uint64_t contexts = context_size(guest, device) ? figure_contexts(guest, device, rest)
							: rest;
	uint64_t to[CAT_N];
	enum category first, second;

	to[CAT_MODULE] = rest - contexts;
	to[CAT_CONTEXT] = contexts + atomic_load(&device->account->promised_bytes);
	/* Up before down, so that the sum is at no time too small. */
	first = to[CAT_CONTEXT] > row->used[CAT_CONTEXT] ? CAT_CONTEXT : CAT_MODULE;
	second = first == CAT_CONTEXT ? CAT_MODULE : CAT_CONTEXT;
	if (!quota_exchange(slot, device->ledger, first, row->used[first], to[first]))
		return false;
	FAULT_POINT(GUEST_FIGURE_HALF);
	if (!quota_exchange(slot, device->ledger, second, row->used[second], to[second]))
		return false;
	quota_note_used(slot, device->ledger);
	return true;
}

/*
 * Is what is left of the figure contexts alone? Nothing was ever loaded into them, and the driver is
 * not still taking back what was freed a moment ago.
 */
static bool figure_is_pure(struct guest *guest, struct guest_device *device)
{
	uint64_t released = atomic_load(&device->account->released_ns);

	return !atomic_load(&guest->account->others) && !atomic_load(&device->account->loaded) &&
	       (!released || now_ns(CLOCK_MONOTONIC_COARSE) > released + LATER_NS);
}

/* The bytes that a process is charged for by size. */
static uint64_t figure_sized(const struct quota_row *row)
{
	return row->used[CAT_DATA] + row->used[CAT_POOL] + row->used[CAT_ARRAY] + row->used[CAT_GRAPH];
}

/* The part of these bytes that stands in the driver's figure. */
static uint64_t figure_allocated(struct guest_device *device, const struct quota_row *row)
{
	uint64_t sum = figure_sized(row);
	uint64_t unseen = atomic_load(&device->account->unseen_bytes);

	return unseen < sum ? sum - unseen : 0;
}

/* One look: the driver's answer, and the process's charges before and after it. */
struct moment {
	uint64_t figure;
	struct quota_row before, after; /* of this process */
	bool quiet; /* no other thread changed what is held */
};

/* No call of another thread has begun since before the driver was asked, and none is under way. */
static bool figure_is_undisturbed(struct guest_device *device, const struct figure_look *look)
{
	return calls_under_way(look->calls) == look->own &&
	       look->calls == atomic_load(&device->account->calls);
}

/* -ESRCH: the driver does not list this process, though it has a context. */
static int figure_ask(struct guest *guest, struct guest_device *device, struct figure_look *look,
		      struct moment *ret)
{
	struct slot *slot = atomic_load(&guest->slot);
	struct slot_info info;

	holder_catch_up(guest, device);
	figure_note_charged(guest, device->ledger, look);
	look->calls = atomic_load(&device->account->calls);
	if (quota_process(guest->ledger, slot_index(slot), device->ledger, &ret->before) ||
	    driver_list_read(guest, device->uuid, device->ledger, &look->list))
		return -EIO;
	if (slot_info(guest->ledger, slot_index(slot), &info) ||
	    figure_of(look, info.driver_pid, &ret->figure)) {
		if (atomic_load(&device->account->contexts) > 0)
			return own_pid_find(guest, device) ? -EAGAIN : -ESRCH;
		ret->figure = 0; /* without a context the driver lists nobody */
	}
	quota_set_driver(slot, device->ledger, ret->figure, now_boot_ns());
	/*
	 * Memory that the driver has taken back by itself since then would be found missing from the
	 * contexts. If this takes anything off, the charges are not of one moment.
	 */
	holder_catch_up(guest, device);
	quota_process(guest->ledger, slot_index(slot), device->ledger, &ret->after);
	ret->quiet = figure_is_undisturbed(device, look) &&
		     figure_allocated(device, &ret->before) ==
			     figure_allocated(device, &ret->after);
	return 0;
}

/* False: other threads charged for contexts or code meanwhile, or changed what is held. */
static bool figure_settle(struct guest *guest, struct guest_device *device,
			  const struct figure_look *look, const struct moment *moment)
{
	uint64_t known = figure_allocated(device, &moment->after);
	uint64_t doubt = holder_doubtful(guest, device), rest;
	const uint64_t *used = moment->after.used;
	uint64_t stacks = atomic_load(&device->account->stack_bytes);
	bool guessed;

	/* Memory that a stream may have freed before the driver answered counts twice until known. */
	known = known > doubt ? known - doubt : 0;
	rest = moment->figure > known ? moment->figure - known : 0;
	rest -= figure_inherited(guest, device, rest, figure_contexts(guest, device, rest),
				 used[CAT_CONTEXT] + used[CAT_MODULE]);
	/* The driver's answer lacks imports and frees that began after the question. */
	if (!figure_is_undisturbed(device, look))
		return false;
	context_measure(guest, device, rest > stacks ? rest - stacks : 0,
			!doubt && figure_is_pure(guest, device));
	guessed = atomic_exchange(&device->account->guessed, false);
	if (!figure_split(guest, device, &moment->after, rest)) {
		if (guessed) {
			atomic_store(&device->account->guessed, true);
			figure_note_guess(guest); /* another thread may have found none meanwhile */
		}
		return false;
	}
	if (guessed)
		figure_note_guess(guest);
	atomic_store(&device->account->stale, false);
	atomic_store(&device->account->unsure, doubt);
	return true;
}

/*
 * Other threads allocate all the time, or streams free. So the figure may include bytes that are
 * still pending here, or were charged until just now. Only what exceeds these is the driver's own:
 * this look may raise the charge for code, and never lowers it.
 */
static void figure_raise(struct guest *guest, struct guest_device *device,
			 const struct moment *moment)
{
	struct slot *slot = atomic_load(&guest->slot);
	const struct quota_row *row = &moment->after;
	uint64_t known = figure_allocated(device, row) + row->pending;
	uint64_t before = figure_allocated(device, &moment->before) + moment->before.pending;
	/* Code that was unloaded meanwhile is in the figure, and was charged. */
	uint64_t code = max_u64(row->used[CAT_MODULE], moment->before.used[CAT_MODULE]);

	atomic_store(&device->account->unsure, true);
	if (known < before)
		known = before;
	known += row->used[CAT_CONTEXT];
	if (moment->figure > known && moment->figure - known > code &&
	    quota_exchange(slot, device->ledger, CAT_MODULE, row->used[CAT_MODULE],
			   moment->figure - known))
		quota_note_used(slot, device->ledger);
	if (!atomic_load(&device->account->contexts)) /* the last one ended meanwhile, and all code with it */
		quota_set(slot, device->ledger, CAT_MODULE, 0);
}

/* Returns true if the categories were set by the figure. */
static bool figure_try(struct guest *guest, struct guest_device *device, struct figure_look *look,
		       int tries, bool wait)
{
	for (int try = 0; try < tries; try++) {
		struct moment moment;
		int r;

		if (try && wait)
			nap_ns(ALONE_NAP_NS);
		r = figure_ask(guest, device, look, &moment);
		if (r == -EAGAIN)
			continue;
		if (r)
			return false;
		atomic_store(&device->account->siblings_bytes,
			     figure_hidden_by_siblings(guest, device->ledger, look, NULL));
		if (moment.quiet && figure_settle(guest, device, look, &moment))
			return true;
		if (try == tries - 1)
			figure_raise(guest, device, &moment);
	}
	return false;
}

/* `own`: calls that the caller has under way there, but for one in which it goes alone. */
static bool figure_reconcile_within(struct guest *guest, struct guest_device *device, uint32_t own,
				    bool wait)
{
	struct slot *slot = atomic_load(&guest->slot);
	uint64_t step = calls_step, began = now_ns(CLOCK_MONOTONIC_COARSE);
	struct quota_row row;
	struct figure_look *look;
	int cancel;
	bool told;

	/* The ledger keeps nothing then that the figure has. */
	if (guest_by_driver(guest))
		return false;
	look = figure_look_new(guest);
	if (!look)
		return false;
	cancel = cancel_hold();
	look->own = own + (calls_alone == device);
	calls_step = CALLS_HOUSEKEEPING;
	told = figure_try(guest, device, look, wait ? ALONE_TRIES : TRIES, wait);
	calls_step = step;
	figure_look_free(guest, look);
	/*
	 * Not before it is over, so that no other thread is admitted by charges that are just being
	 * looked at. Also if the driver did not answer. But it knows no process without a context.
	 */
	if (atomic_load(&device->account->contexts) > 0)
		atomic_store(&device->account->reconciled_ns, began);
	/* Memory that the driver still takes back is charged as code, or as contexts of unknown size. */
	if (!quota_process(guest->ledger, slot_index(slot), device->ledger, &row) &&
	    (row.used[CAT_MODULE] || !context_size(guest, device)))
		later_begin(guest, device, figure_reconcile);
	cancel_release(cancel);
	return told;
}

bool figure_reconcile_inside(struct guest *guest, struct guest_device *device)
{
	return figure_reconcile_within(guest, device, 1, false);
}

bool figure_reconcile_alone(struct guest *guest, struct guest_device *device)
{
	int cancel = cancel_hold();
	bool told;

	calls_begin_alone(device);
	told = figure_reconcile_within(guest, device, 0, true);
	calls_end_alone(device);
	cancel_release(cancel);
	return told;
}

/* The driver's figure for this process. -EIO: it does not tell; -ESRCH: it does not list the process. */
static int figure_ask_own(struct guest *guest, const uint8_t uuid[16], int ledger_device,
			  struct figure_look *look, uint64_t *ret_bytes)
{
	struct slot_info info;

	if (driver_list_read(guest, uuid, ledger_device, &look->list) ||
	    slot_info(guest->ledger, slot_index(guest->claimed), &info))
		return -EIO;
	return figure_of(look, info.driver_pid, ret_bytes);
}

static bool figure_try_others(struct guest *guest, const uint8_t uuid[16], int ledger_device,
			      struct figure_look *look)
{
	int slot = slot_index(guest->claimed), r;
	struct quota_row before, after;
	uint64_t figure = 0;

	if (quota_process(guest->ledger, slot, ledger_device, &before))
		return false;
	r = figure_ask_own(guest, uuid, ledger_device, look, &figure);
	/* The driver does not list a process that holds nothing. */
	if ((r && (r != -ESRCH || figure_sized(&before))) ||
	    quota_process(guest->ledger, slot, ledger_device, &after) || before.pending || after.pending ||
	    figure_sized(&before) != figure_sized(&after))
		return false;
	quota_set_driver(guest->claimed, ledger_device, figure, now_boot_ns());
	if (!quota_exchange(guest->claimed, ledger_device, CAT_CONTEXT, after.used[CAT_CONTEXT],
			    sat_sub_u64(figure, figure_sized(&after))))
		return false;
	quota_note_used(guest->claimed, ledger_device);
	return true;
}

bool figure_reconcile_others(struct guest *guest, const uint8_t uuid[16], int ledger_device)
{
	struct figure_look *look;
	bool told = false;
	int cancel;

	if (guest_by_driver(guest))
		return false;
	look = figure_look_new(guest);
	if (!look)
		return false;
	cancel = cancel_hold();
	for (int try = 0; !told && try < TRIES; try++)
		told = figure_try_others(guest, uuid, ledger_device, look);
	figure_look_free(guest, look);
	cancel_release(cancel);
	return told;
}

/*
 * Bytes that others have pending may be in the figure, or not yet. So a look with others in the way
 * does not find how much a guess is short. Far from the limit no thread is kept waiting for that.
 */
bool figure_reconcile(struct guest *guest, struct guest_device *device)
{
	return figure_reconcile_within(guest, device, 0, false) ||
	       (!calls_depth && atomic_load(&device->account->guessed) &&
		atomic_load(&device->account->unsure) && figure_will_be_near(guest, device) &&
		figure_reconcile_alone(guest, device));
}

/* The charges of other processes for contexts that are guesses. */
static uint64_t figure_guessed(struct guest *guest, int ledger_device)
{
	struct slot *slot = atomic_load(&guest->slot);
	int own = slot ? slot_index(slot) : -1;
	uint64_t sum = 0;

	for (int i = 0; i < slot_count(guest->ledger); i++) {
		struct slot_info info;
		struct quota_row row;

		if (i != own && quota_guesses(guest->ledger, i) && !slot_info(guest->ledger, i, &info) &&
		    !quota_process(guest->ledger, i, ledger_device, &row) &&
		    row.used[CAT_CONTEXT] < QUOTA_ABSURD_BYTES && slot_alive(guest->ledger, i))
			sum = sat_add_u64(sum, row.used[CAT_CONTEXT]);
	}
	return sum;
}

#define GUESS_NAP_NS  5000000
#define GUESS_WAIT_NS UINT64_C(2500000000) /* two looks of later.h's first, on a slow machine */

/* True when the sum of guesses has changed; false when they are not in the way, or stay. */
static bool figure_watch_guesses(struct guest *guest, struct guest_device *device, uint64_t bytes,
				 uint64_t limit, uint64_t until)
{
	uint64_t first = figure_guessed(guest, device->ledger), guessed = first;

	while (guessed && guessed == first) {
		uint64_t used = quota_used(guest->ledger, device->ledger);

		if (bytes > limit || sat_sub_u64(used, guessed) > limit - bytes)
			return false;
		if (now_monotonic_ns() > until) {
			atomic_store(&guest->account->guesses_stay, true);
			return false;
		}
		nap_ns(GUESS_NAP_NS);
		guessed = figure_guessed(guest, device->ledger);
	}
	return first;
}

bool figure_await_guesses(struct guest *guest, struct guest_device *device, uint64_t bytes,
			  uint64_t limit, uint64_t *until)
{
	int cancel;
	bool changed;

	if (guest_by_driver(guest) || atomic_load(&guest->account->guesses_stay))
		return false;
	*until = *until ? *until : now_monotonic_ns() + GUESS_WAIT_NS;
	cancel = cancel_hold(); /* a slot's lock is asked by a file that is opened */
	changed = figure_watch_guesses(guest, device, bytes, limit, *until);
	cancel_release(cancel);
	return changed && now_monotonic_ns() <= *until;
}

void figure_note_guess(struct guest *guest)
{
	struct slot *slot = atomic_load(&guest->slot);
	bool any, again;

	/* A context that another thread makes meanwhile is not forgotten. */
	do {
		any = later_is_guessed(guest);
		quota_say_guess(slot, any);
		again = later_is_guessed(guest);
	} while (again != any);
}

bool figure_lists_own(struct guest *guest, const uint8_t uuid[16], int ledger_device)
{
	struct figure_look *look = figure_look_new(guest);
	uint64_t figure;
	bool listed = look && !figure_ask_own(guest, uuid, ledger_device, look, &figure);

	if (look)
		figure_look_free(guest, look);
	return listed;
}

#define DEATH_NAP_NS  1000000
#define DEATH_WAIT_NS UINT64_C(1000000000) /* for all of them together */

void figure_await_dead(struct guest *guest, struct guest_device *device)
{
	uint64_t until = now_monotonic_ns() + DEATH_WAIT_NS;
	struct figure_look *look = NULL;

	for (int i = 0; i < slot_count(guest->ledger); i++) {
		struct slot_info info;
		uint64_t figure;

		if (slot_info(guest->ledger, i, &info) ||
		    !(guest_by_driver(guest) || figure_charged(guest, i, device->ledger)) ||
		    slot_alive(guest->ledger, i))
			continue;
		if (!look && !(look = figure_look_new(guest)))
			return;
		while (now_monotonic_ns() < until &&
		       (slot_ending(guest->ledger, i) ||
			(!driver_list_read(guest, device->uuid, device->ledger, &look->list) &&
			 !figure_of(look, info.driver_pid, &figure) && figure)))
			nap_ns(DEATH_NAP_NS);
	}
	if (look)
		figure_look_free(guest, look);
}

#define TOLD_NAP_NS  5000000
#define TOLD_WAIT_NS UINT64_C(2500000000) /* two looks of the daemon's, and a half */

bool figure_await_told(struct guest *guest, struct guest_device *device)
{
	struct slot *slot = atomic_load(&guest->slot);
	uint64_t never = 0, until = now_monotonic_ns() + TOLD_WAIT_NS;
	struct slot_info info;

	if (!slot || slot_info(guest->ledger, slot_index(slot), &info) || !info.pidns ||
	    info.pidns == PIDNS_FIRST)
		return false;
	if (!atomic_compare_exchange_strong(&guest->account->told_until_ns, &never, until))
		until = never;
	while (info.driver_pid == info.pid && now_monotonic_ns() < until) {
		if (own_pid_find(guest, device))
			return true;
		nap_ns(TOLD_NAP_NS);
		if (slot_info(guest->ledger, slot_index(slot), &info))
			return false;
	}
	return info.driver_pid != info.pid;
}

/* The device, if this process has a context there, so that the driver must know it; else NULL. */
static struct guest_device *figure_with_context(struct guest *guest, int ledger_device)
{
	for (int i = 0; i < guest->ndevices && atomic_load(&guest->slot); i++)
		if (guest->device[i].ledger == ledger_device)
			return atomic_load(&guest->device[i].account->contexts) > 0 ? &guest->device[i]
									   : NULL;
	return NULL;
}

/* figure_tenant, which adds a process's figure to its word of `each` where that is not NULL. */
static int figure_add_processes(struct guest *guest, const uint8_t uuid[16], int ledger_device,
				uint64_t *each, uint64_t *ret_bytes)
{
	struct slot *slot = atomic_load(&guest->slot);
	bool missing = figure_with_context(guest, ledger_device);
	struct figure_look *look = figure_look_new(guest);
	uint64_t sum = 0;
	int r = look ? driver_list_read(guest, uuid, ledger_device, &look->list) : -ENOMEM;

	for (int i = 0; !r && i < slot_count(guest->ledger); i++) {
		struct slot_info info;
		uint64_t figure;

		if (slot_info(guest->ledger, i, &info) ||
		    figure_of(look, info.driver_pid, &figure))
			continue;
		sum += figure; /* also of one on its way out, until its slot is cleared */
		if (each)
			each[i] = sat_add_u64(each[i], figure);
		if (!slot || slot_index(slot) != i)
			continue;
		missing = false;
		/* For `allot ps`. */
		quota_set_driver(slot, ledger_device, figure, now_boot_ns());
	}
	if (look)
		figure_look_free(guest, look);
	if (r)
		return r;
	/* It knows us by another pid (a container), and nobody has told us by which. */
	if (missing)
		return -ESRCH;
	*ret_bytes = sum;
	return 0;
}

int figure_tenant(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		  uint64_t *ret_bytes)
{
	return figure_add_processes(guest, uuid, ledger_device, NULL, ret_bytes);
}

static bool figure_is_ours(struct guest *guest, uint32_t pid)
{
	struct slot_info info;

	for (int i = 0; i < slot_count(guest->ledger); i++)
		if (!slot_info(guest->ledger, i, &info) && info.driver_pid == pid)
			return true;
	return false;
}

void figure_measure_first(struct guest *guest, struct guest_device *device)
{
	struct figure_look *look = figure_look_new(guest);
	uint64_t figure;

	if (look && !atomic_load(&guest->account->others) &&
	    !figure_ask_own(guest, device->uuid, device->ledger, look, &figure))
		context_measure(guest, device, figure,
				atomic_load(&device->account->contexts) == 1 &&
					figure_is_pure(guest, device));
	if (look)
		figure_look_free(guest, look);
}

/* There may be several samples of one process: its newest counts. Answers -1 when none is ours. */
static int figure_tenant_percent(struct guest *guest, const nvmlProcessUtilizationSample_t *sample,
				 unsigned int n)
{
	int percent = -1;

	for (unsigned int i = 0; i < n; i++) {
		bool newest = figure_is_ours(guest, sample[i].pid);

		for (unsigned int k = 0; newest && k < n; k++)
			newest = sample[k].pid != sample[i].pid ||
				 sample[k].timeStamp <= sample[i].timeStamp;
		if (newest)
			percent = (percent < 0 ? 0 : percent) +
				  (sample[i].smUtil <= 100 ? (int)sample[i].smUtil : 0);
	}
	return percent > 100 ? 100 : percent;
}

/* Does NVML list a process of the tenant, so that none that it samples is an idle tenant? */
static bool figure_lists_tenant(struct guest *guest, const uint8_t uuid[16], int ledger_device)
{
	struct figure_look *look = figure_look_new(guest);
	bool any = false;

	if (look && !driver_list_read(guest, uuid, ledger_device, &look->list))
		for (int i = 0; i < look->list.n && !any; i++)
			any = figure_is_ours(guest, look->list.process[i].pid);
	if (look)
		figure_look_free(guest, look);
	return any;
}

/*
 * NVML answers the mean since the time that it is given, of up to 14 s: so late a figure would
 * steer into the ditch. It has a new sample every 200 ms; two of them are in this time.
 */
#define RECENT_NS UINT64_C(400000000)

int figure_utilisation(struct guest *guest, const uint8_t uuid[16], int ledger_device)
{
	unsigned long long since_us = (now_ns(CLOCK_REALTIME) - RECENT_NS) / 1000;
	struct figure_look *look = figure_look_new(guest);
	unsigned int n = SAMPLES;
	nvmlReturn_t r = NVML_SUCCESS;
	nvmlUtilization_t rates;
	nvmlDevice_t device;
	const struct nvml_library *nvml = own_nvml_get(guest, uuid, ledger_device, &device);
	struct guest_device *used = figure_with_context(guest, ledger_device);
	int percent = -1;

	if (!nvml || !look) {
		if (look)
			figure_look_free(guest, look);
		return -EIO;
	}
	guest_depth++;
	if (nvml->nvmlDeviceGetProcessUtilization(device, look->sample, &n, since_us) ==
	    NVML_SUCCESS)
		percent = figure_tenant_percent(guest, look->sample, n < SAMPLES ? n : SAMPLES);
	figure_look_free(guest, look);
	/* A process that did nothing in that time has no sample. */
	if (percent < 0 && figure_lists_tenant(guest, uuid, ledger_device))
		percent = 0;
	/* What is found now is known the next time. */
	if (percent < 0 && used)
		own_pid_find(guest, used);
	if (percent < 0) {
		r = nvml->nvmlDeviceGetUtilizationRates(device, &rates);
		percent = (int)rates.gpu;
	}
	guest_depth--;
	return r == NVML_SUCCESS ? percent : -EIO;
}

/* What the others hide as of now, where the last look found that they hide something. */
static void figure_add_siblings(struct guest *guest, const uint8_t uuid[16], int ledger_device,
				uint64_t *each)
{
	struct figure_look *look = NULL;
	uint64_t hidden = 0;

	for (int i = 0; i < guest->ndevices && atomic_load(&guest->slot); i++)
		if (guest->device[i].ledger == ledger_device)
			hidden = atomic_load(&guest->device[i].account->siblings_bytes);
	if (!hidden || !(look = figure_look_new(guest)))
		return;
	figure_note_charged(guest, ledger_device, look);
	if (!driver_list_read(guest, uuid, ledger_device, &look->list))
		figure_hidden_by_siblings(guest, ledger_device, look, each);
	figure_look_free(guest, look);
}

int figure_tenant_each(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		       uint64_t *each)
{
	uint64_t sum;

	/* Before the figure: an allocation leaves the ledger only after the driver has it. */
	quota_used_live_each(guest->ledger, ledger_device, each);
	if (guest_by_driver(guest))
		return figure_add_processes(guest, uuid, ledger_device, each, &sum);
	figure_add_siblings(guest, uuid, ledger_device, each);
	return 0;
}
