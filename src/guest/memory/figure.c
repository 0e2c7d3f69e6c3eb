/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/figure.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/now.h"
#include "base/pidns.h"
#include "guest/core/object.h"
#include "guest/core/own_nvml.h"
#include "guest/memory/calls.h"
#include "guest/memory/driver_list.h"
#include "guest/memory/granule.h"
#include "guest/memory/holder.h"
#include "guest/memory/later.h"
#include "guest/memory/own_pid.h"
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
#define SLOTS	      1024 /* slot_count answers no more */

/* One look: too large for a stack that is not ours. */
struct look {
	uint64_t calls;	    /* of the device, before the driver was asked */
	uint32_t own;	    /* calls that the caller itself has under way */
	bool told;	    /* the categories were set by the figure */
	uint64_t allocated; /* by this process, and on its way, before that */
	struct driver_list list;
	uint64_t charged[SLOTS]; /* by each slot, before the driver was asked */
	nvmlProcessUtilizationSample_t sample[SAMPLES]; /* of utilisation: another question */
};

static struct look *figure_look_new(void)
{
	void *p = mmap(NULL, sizeof(struct look), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void figure_look_free(struct look *look)
{
	munmap(look, sizeof(*look));
}

static int figure_of(const struct look *look, uint32_t pid, uint64_t *ret_bytes)
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

/*
 * What the driver took for the tenant's other processes and these have not charged: an idle process
 * does not look. Each process's charges are read before and after the figure, and the larger sum
 * counts: so an allocation or a free under way is not taken for something hidden.
 */
static uint64_t figure_hidden_by_siblings(struct guest *guest, int ledger_device,
					  const struct look *look)
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
		if (figure > now && slot_alive(guest->ledger, i))
			hidden += figure - now;
	}
	return hidden;
}

void figure_begin(struct guest_device *device)
{
	atomic_store(&device->context_ns, now_ns(CLOCK_MONOTONIC_COARSE));
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
	struct slot_info info;

	for (int i = 0; i < slot_count(guest->ledger); i++)
		if (i != own && !slot_info(guest->ledger, i, &info) && slot_alive(guest->ledger, i))
			return true;
	return false;
}

bool figure_due(struct guest *guest, struct guest_device *device, uint64_t used, uint64_t limit)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC_COARSE);
	uint64_t last = atomic_load(&device->reconciled_ns);
	bool stale = atomic_load(&device->stale), due;
	uint64_t margin = figure_margin(guest, limit, stale);

	if (used > limit || margin > limit - used) {
		/* Of a process without a context the driver knows nothing, only of others. */
		if (!atomic_load(&device->contexts) && !figure_has_siblings(guest))
			return false;
		return stale || now > last + LOOK_NS;
	}
	if (last < atomic_load(&device->context_ns))
		last = atomic_load(&device->context_ns);
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

	return limit && used + FIGURE_CONTEXT_BYTES + figure_margin(guest, limit, stale) > limit;
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
	if (!once_begin(&guest->ahead))
		return;
	if (figure_has_siblings(guest))
		figure_expect_each(guest);
	once_end(&guest->ahead, 0);
}

void figure_look(struct guest *guest, struct guest_device *device)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC_COARSE);

	if (!(guest->policy.flags & POLICY_ACCOUNTING_DRIVER) &&
	    (atomic_load(&device->stale) || atomic_load(&device->unsure) ||
	     now > atomic_load(&device->reconciled_ns) + LOOK_NS))
		figure_reconcile(guest, device);
}

/*
 * Memory of one kind that this process imported and its exporter has let go of, at most `grown`
 * bytes. From then on it stands in the driver's figure of one of the importers, though it is
 * charged already, by its entry. Memory by handle, and of a pool, then stands in nobody's figure.
 */
static uint64_t figure_inherited_of_kind(struct guest *guest, struct guest_device *device,
					 enum object_kind kind, uint64_t grown)
{
	struct object object[OBJECT_BATCH];
	uint64_t bytes = 0, above = 0;
	int n;

	do {
		n = object_list(guest->objects, kind, above, object, OBJECT_BATCH);
		for (int i = 0; i < n; i++) {
			uint64_t size = round_up(object[i].size, GRANULE_BYTES);

			above = object[i].key;
			if (object[i].device != device->ordinal ||
			    !(object[i].flags & OBJECT_IMPORTED) || size > grown - bytes ||
			    shared_covered(guest->ledger, object[i].shared))
				continue;
			bytes += size;
		}
	} while (n == OBJECT_BATCH);
	return bytes;
}

/*
 * The driver does not say in which importer's figure it stands. It is taken for ours if our figure
 * has grown by as much.
 */
static uint64_t figure_inherited(struct guest *guest, struct guest_device *device, uint64_t grown)
{
	uint64_t bytes = figure_inherited_of_kind(guest, device, OBJECT_IPC, grown);

	return bytes + figure_inherited_of_kind(guest, device, OBJECT_EXTERNAL, grown - bytes);
}

/*
 * Splits the rest of the driver's figure, which is not charged by size, into contexts and code.
 * False: another thread has charged for either since the row was read. What it charged stands, and
 * the figure is older than that.
 */
static bool figure_split(struct guest *guest, struct guest_device *device,
			 const struct quota_row *row, uint64_t rest)
{
	struct slot *slot = atomic_load(&guest->slot);
	uint64_t contexts = (uint64_t)atomic_load(&device->contexts);
	uint64_t extra = atomic_load(&device->extra_bytes);
	uint64_t guess = atomic_load(&device->context_guess), to[CAT_N];
	enum category first, second;

	/* Before any code is loaded the rest is contexts alone: their size is learned now. */
	if (contexts && !atomic_load(&device->loaded) && !guess && rest > extra) {
		guess = round_up((rest - extra + contexts - 1) / contexts, GRANULE_BYTES);
		atomic_store(&device->context_guess, guess);
		ledger_learn_context(guest->ledger, device->ledger, guess);
	}
	contexts = contexts * (guess ? guess : FIGURE_CONTEXT_BYTES) + extra;
	if (contexts > rest)
		contexts = rest;
	/* Up before down, so that the sum is at no time too small. */
	first = contexts > row->used[CAT_CONTEXT] ? CAT_CONTEXT : CAT_MODULE;
	second = first == CAT_CONTEXT ? CAT_MODULE : CAT_CONTEXT;
	to[CAT_CONTEXT] = contexts;
	to[CAT_MODULE] = rest - contexts;
	if (!quota_exchange(slot, device->ledger, first, row->used[first], to[first]))
		return false;
	FAULT_POINT(GUEST_FIGURE_HALF);
	return quota_exchange(slot, device->ledger, second, row->used[second], to[second]);
}

/* The bytes that a process is charged for by size and that stand in the driver's figure. */
static uint64_t figure_allocated(struct guest_device *device, const struct quota_row *row)
{
	uint64_t sum = row->used[CAT_DATA] + row->used[CAT_POOL] + row->used[CAT_ARRAY] +
		       row->used[CAT_GRAPH];
	uint64_t unseen = atomic_load(&device->unseen_bytes);

	return unseen < sum ? sum - unseen : 0;
}

/* False: other threads allocated meanwhile, so that the figure and the row do not fit together. */
static bool figure_reconcile_once(struct guest *guest, struct guest_device *device,
				  struct look *look, bool last_try)
{
	struct slot *slot = atomic_load(&guest->slot);
	uint64_t figure, known;
	struct slot_info info;
	struct quota_row row;

	if (quota_process(guest->ledger, slot_index(slot), device->ledger, &row))
		return true;
	if (slot_info(guest->ledger, slot_index(slot), &info) ||
	    figure_of(look, info.driver_pid, &figure)) {
		if (atomic_load(&device->contexts) > 0)
			return !own_pid_find(guest, device);
		figure = 0; /* without a context the driver lists nobody */
	}
	known = figure_allocated(device, &row);
	quota_set_driver(slot, device->ledger, figure, now_boot_ns());
	/*
	 * The driver may have taken memory back by itself since then, which would now be found
	 * missing from the contexts. What is caught up with counts as a call, and then this look is
	 * done anew.
	 */
	holder_catch_up(guest, device);
	if (calls_under_way(look->calls) == look->own &&
	    look->calls == atomic_load(&device->calls) &&
	    !object_count(guest->objects, OBJECT_PARTING)) {
		uint64_t rest = figure > known ? figure - known : 0;
		uint64_t before = row.used[CAT_CONTEXT] + row.used[CAT_MODULE];

		if (rest > before)
			rest -= figure_inherited(guest, device, rest - before);
		if (figure_split(guest, device, &row, rest)) {
			atomic_store(&device->stale, false);
			atomic_store(&device->unsure, false);
			look->told = true;
			return true;
		}
	}
	if (!last_try)
		return false;
	/*
	 * Other threads allocate all the time, or streams free. So the figure may include bytes
	 * that are still pending here, or were charged until just now. Only what exceeds these is
	 * the driver's own: this look may raise the charge for code, and never lowers it.
	 */
	atomic_store(&device->unsure, true);
	known += row.pending;
	if (known < look->allocated)
		known = look->allocated;
	known += row.used[CAT_CONTEXT];
	if (figure > known && figure - known > row.used[CAT_MODULE])
		quota_exchange(slot, device->ledger, CAT_MODULE, row.used[CAT_MODULE],
			       figure - known);
	if (!atomic_load(&device->contexts)) /* the last one ended meanwhile, and all code with it */
		quota_set(slot, device->ledger, CAT_MODULE, 0);
	return true;
}

static bool figure_reconcile_within(struct guest *guest, struct guest_device *device, uint32_t own,
				    bool wait)
{
	struct look *look = figure_look_new();
	struct quota_row row;
	int tries = wait ? ALONE_TRIES : TRIES;
	bool done = !look, told;

	if (look)
		look->own = own;
	/* Also if the driver then does not answer. But it knows no process without a context. */
	if (atomic_load(&device->contexts) > 0)
		atomic_store(&device->reconciled_ns, now_ns(CLOCK_MONOTONIC_COARSE));
	holder_catch_up(guest, device);
	for (int try = 0; !done && try < tries; try++) {
		if (try && wait)
			nanosleep(&(struct timespec){.tv_nsec = ALONE_NAP_NS}, NULL);
		for (int i = 0; i < slot_count(guest->ledger); i++)
			look->charged[i] = figure_charged(guest, i, device->ledger);
		if (!quota_process(guest->ledger, slot_index(atomic_load(&guest->slot)),
				   device->ledger, &row))
			look->allocated = figure_allocated(device, &row) + row.pending;
		look->calls = atomic_load(&device->calls);
		done = driver_list_read(guest, device->uuid, device->ledger, &look->list) ||
		       figure_reconcile_once(guest, device, look, try == tries - 1);
		if (done)
			atomic_store(&device->siblings_bytes,
				     figure_hidden_by_siblings(guest, device->ledger, look));
	}
	told = look && look->told;
	if (look)
		figure_look_free(look);
	if (!quota_process(guest->ledger, slot_index(atomic_load(&guest->slot)), device->ledger,
			   &row) && row.used[CAT_MODULE])
		later_begin(guest, device, figure_reconcile);
	return told;
}

bool figure_reconcile(struct guest *guest, struct guest_device *device)
{
	return figure_reconcile_within(guest, device, 0, false);
}

bool figure_reconcile_inside(struct guest *guest, struct guest_device *device)
{
	return figure_reconcile_within(guest, device, 1, false);
}

bool figure_reconcile_alone(struct guest *guest, struct guest_device *device)
{
	bool told;

	calls_begin_alone(device);
	told = figure_reconcile_within(guest, device, 1, true);
	calls_end_alone(device);
	return told;
}

#define DEATH_NAP_NS  1000000
#define DEATH_WAIT_NS UINT64_C(1000000000) /* for all of them together */

void figure_await_dead(struct guest *guest, struct guest_device *device)
{
	uint64_t until = now_monotonic_ns() + DEATH_WAIT_NS;
	struct look *look = NULL;

	for (int i = 0; i < slot_count(guest->ledger); i++) {
		struct slot_info info;
		uint64_t figure;

		if (slot_info(guest->ledger, i, &info) ||
		    !figure_charged(guest, i, device->ledger) || slot_alive(guest->ledger, i))
			continue;
		if (!look && !(look = figure_look_new()))
			return;
		while (now_monotonic_ns() < until &&
		       !driver_list_read(guest, device->uuid, device->ledger, &look->list) &&
		       !figure_of(look, info.driver_pid, &figure) && figure)
			nanosleep(&(struct timespec){.tv_nsec = DEATH_NAP_NS}, NULL);
	}
	if (look)
		figure_look_free(look);
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
	if (!atomic_compare_exchange_strong(&guest->told_until_ns, &never, until))
		until = never;
	while (info.driver_pid == info.pid && now_monotonic_ns() < until) {
		if (own_pid_find(guest, device))
			return true;
		nanosleep(&(struct timespec){.tv_nsec = TOLD_NAP_NS}, NULL);
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
			return atomic_load(&guest->device[i].contexts) > 0 ? &guest->device[i]
									   : NULL;
	return NULL;
}

int figure_tenant(struct guest *guest, const uint8_t uuid[16], int ledger_device,
		  uint64_t *ret_bytes)
{
	struct slot *slot = atomic_load(&guest->slot);
	bool missing = figure_with_context(guest, ledger_device);
	struct look *look = figure_look_new();
	uint64_t sum = 0;
	int r = look ? driver_list_read(guest, uuid, ledger_device, &look->list) : -ENOMEM;

	for (int i = 0; !r && i < slot_count(guest->ledger); i++) {
		struct slot_info info;
		uint64_t figure;

		if (slot_info(guest->ledger, i, &info) ||
		    figure_of(look, info.driver_pid, &figure) ||
		    !slot_alive(guest->ledger, i))
			continue;
		sum += figure;
		if (!slot || slot_index(slot) != i)
			continue;
		missing = false;
		/* For `allot ps`. */
		quota_set_driver(slot, ledger_device, figure, now_boot_ns());
	}
	if (look)
		figure_look_free(look);
	if (r)
		return r;
	/* It knows us by another pid (a container), and nobody has told us by which. */
	if (missing)
		return -ESRCH;
	*ret_bytes = sum;
	return 0;
}

static bool figure_is_ours(struct guest *guest, uint32_t pid)
{
	struct slot_info info;

	for (int i = 0; i < slot_count(guest->ledger); i++)
		if (!slot_info(guest->ledger, i, &info) && info.driver_pid == pid)
			return true;
	return false;
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
	struct look *look = figure_look_new();
	bool any = false;

	if (look && !driver_list_read(guest, uuid, ledger_device, &look->list))
		for (int i = 0; i < look->list.n && !any; i++)
			any = figure_is_ours(guest, look->list.process[i].pid);
	if (look)
		figure_look_free(look);
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
	struct look *look = figure_look_new();
	unsigned int n = SAMPLES;
	nvmlReturn_t r = NVML_SUCCESS;
	nvmlUtilization_t rates;
	nvmlDevice_t device;
	const struct nvml_library *nvml = own_nvml_get(guest, uuid, ledger_device, &device);
	struct guest_device *used = figure_with_context(guest, ledger_device);
	int percent = -1;

	if (!nvml || !look) {
		if (look)
			figure_look_free(look);
		return -EIO;
	}
	guest_depth++;
	if (nvml->nvmlDeviceGetProcessUtilization(device, look->sample, &n, since_us) ==
	    NVML_SUCCESS)
		percent = figure_tenant_percent(guest, look->sample, n < SAMPLES ? n : SAMPLES);
	figure_look_free(look);
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

uint64_t figure_tenant_used(struct guest *guest, const uint8_t uuid[16], int ledger_device)
{
	uint64_t figure;

	if (!(guest->policy.flags & POLICY_ACCOUNTING_DRIVER))
		return quota_used_live(guest->ledger, ledger_device);
	if (figure_tenant(guest, uuid, ledger_device, &figure))
		return UINT64_MAX;
	return figure + quota_pending(guest->ledger, ledger_device);
}
