/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/host_memory.h"
#include "base/now.h"
#include "base/number.h"
#include "ledger/holders.h"
#include "ledger/quota_priv.h"
#include "ledger/shared_file.h"
#include "ledger/slot_priv.h"

/* How long the second try waits for siblings that are between publishing and deciding. */
#define SETTLE_NAP_MIN_US 20
#define SETTLE_NAP_MAX_US 200
#define SETTLE_ROUNDS     10

/* And a call that may take nothing, for others of the kind: their threads may have to wait, too. */
#define DOUBT_WAIT_NS UINT64_C(1000000000)

static const char *const category_names[CAT_N] = {
	[CAT_CONTEXT] = "context", [CAT_MODULE] = "module", [CAT_DATA] = "data",
	[CAT_POOL] = "pool",       [CAT_ARRAY] = "array",   [CAT_GRAPH] = "graph",
	[CAT_IMPORTED] = "imported",
};

const char *category_name(enum category category)
{
	return (unsigned int)category < CAT_N ? category_names[category] : "?";
}

struct sum {
	uint64_t total;
	uint64_t pending;
};

static struct ledger_row *quota_row_of(struct slot *slot, int device)
{
	return &slot->ledger->map->rows[device][slot->index];
}

static bool quota_device_ok(struct slot *slot, int device)
{
	return slot->index >= 0 && map_ready(slot->ledger, device);
}

/*
 * Pending first, then the categories: quota_commit adds to the category before it lowers pending,
 * so bytes on their way are seen once or twice, never not at all.
 */
static inline void quota_add_row(struct sum *sum, const struct ledger_row *row)
{
	uint64_t pending = word_check(&row->pending);
	uint64_t total = pending, any = pending;

	for (int c = 0; c < CAT_N; c++) {
		uint64_t bytes = word_check(&row->used[c]);

		total += bytes;
		any |= bytes;
	}
	if (__builtin_expect(any >= QUOTA_ABSURD_BYTES, 0)) {
		sum->total = UINT64_MAX;
		return;
	}
	sum->total = sat_add_u64(sum->total, total);
	sum->pending = sat_add_u64(sum->pending, pending);
}

/* Rows before shared objects: bytes only ever move from a row to an object (shared.c). */
static inline struct sum quota_sum_all(struct ledger *ledger, int device)
{
	const struct ledger_row *rows = ledger->map->rows[device];
	unsigned int high = map_slot_high(ledger);
	int own = map_own_slot(ledger);
	struct sum sum = { 0 };

	/* A forged mark must at least not hide our own row. */
	if ((int)high <= own)
		high = (unsigned int)own + 1;
	for (unsigned int i = 0; i < high; i++)
		quota_add_row(&sum, &rows[i]);
	if (map_shared_high(ledger))
		sum.total = sat_add_u64(sum.total, holders_sum(ledger, device, NULL, NULL));
	return sum;
}

/*
 * For people, who look afterwards: no decision depends on it. Pending bytes do not count: they may
 * be an upper bound, or be refused by the driver. The commit notes them. The word hardly ever
 * changes, so reading it costs a cache hit.
 */
static void quota_note_peak(struct slot *slot, int device)
{
	uint64_t *peak = &slot->ledger->map->devices[device].peak_bytes;
	struct sum sum = quota_sum_all(slot->ledger, device);
	uint64_t bytes = sat_sub_u64(sum.total, sum.pending);

	if (bytes < QUOTA_ABSURD_BYTES && bytes > word_read(peak))
		word_raise_u64(peak, bytes);
}

/* So that an absurd sum, which saturates, is above every limit. */
static uint64_t quota_sane_limit(uint64_t limit)
{
	return min_u64(limit, QUOTA_ABSURD_BYTES);
}

int quota_reserve_sum(struct slot *slot, int device, uint64_t bytes, uint64_t limit,
		      uint64_t *ret_used)
{
	uint64_t *pending;

	if (!quota_device_ok(slot, device))
		return -EINVAL;
	limit = quota_sane_limit(limit);
	*ret_used = bytes;
	if (bytes > limit || bytes > QUOTA_RESERVE_MAX)
		return -EDQUOT;
	pending = &quota_row_of(slot, device)->pending;
	word_publish_add(pending, bytes);
	FAULT_POINT(RESERVE_PUBLISHED);
	*ret_used = quota_sum_all(slot->ledger, device).total;
	if (*ret_used <= limit) {
		FAULT_POINT(RESERVE_ADMITTED);
		return 0;
	}
	word_sub_floor(pending, bytes);
	FAULT_POINT(RESERVE_RETRACTED);
	return -EDQUOT;
}

void quota_note_used(struct slot *slot, int device)
{
	if (quota_device_ok(slot, device))
		quota_note_peak(slot, device);
}

int quota_reserve(struct slot *slot, int device, uint64_t bytes, uint64_t limit)
{
	uint64_t used;

	return quota_reserve_sum(slot, device, bytes, limit, &used);
}

/*
 * Others' pending bytes may be about to go (a fast try that will be refused), or be counted twice
 * (a commit under way), so only a refusal that stands without them is final. Bytes that stay
 * pending belong to a driver call under way and count after all.
 */
int quota_settle(struct slot *slot, int device, uint64_t bytes, uint64_t limit)
{
	uint64_t *pending = &quota_row_of(slot, device)->pending;
	unsigned int us = SETTLE_NAP_MIN_US;

	limit = quota_sane_limit(limit);
	word_publish_add(pending, bytes);
	FAULT_POINT(SLOW_PUBLISHED);
	for (int round = 0;; round++) {
		struct sum sum = quota_sum_all(slot->ledger, device);

		if (sum.total <= limit)
			return 0;
		if (round == SETTLE_ROUNDS || sum.pending <= bytes ||
		    sum.total - (sum.pending - bytes) > limit)
			break;
		shared_file_nap(&us, SETTLE_NAP_MAX_US);
	}
	word_sub_floor(pending, bytes);
	return -EDQUOT;
}

/*
 * Retract before sleeping. Otherwise two waiting callers would each keep counting the other's bytes
 * and neither could be admitted.
 */
int quota_reserve_doubtful(struct slot *slot, int device, uint64_t bytes, uint64_t limit)
{
	uint64_t until = now_monotonic_ns() + DOUBT_WAIT_NS, *pending;
	unsigned int us = SETTLE_NAP_MIN_US;
	struct sum sum;

	if (!quota_device_ok(slot, device))
		return -EINVAL;
	limit = quota_sane_limit(limit);
	if (bytes > QUOTA_RESERVE_MAX)
		return -EDQUOT;
	pending = &quota_row_of(slot, device)->pending;
	for (;;) {
		word_publish_add(pending, bytes);
		FAULT_POINT(RESERVE_PUBLISHED);
		sum = quota_sum_all(slot->ledger, device);
		if (sum.total <= limit + bytes)
			return 0;
		word_sub_floor(pending, bytes);
		FAULT_POINT(RESERVE_RETRACTED);
		if (sum.total - sum.pending > limit || now_monotonic_ns() > until)
			return -EDQUOT;
		shared_file_nap(&us, SETTLE_NAP_MAX_US);
	}
}

bool quota_over(struct slot *slot, int device, uint64_t limit)
{
	return quota_device_ok(slot, device) && quota_settle(slot, device, 0, limit);
}

int quota_reserve_slow(struct slot *slot, int device, uint64_t bytes, uint64_t limit)
{
	int r, token;

	if (!quota_device_ok(slot, device))
		return -EINVAL;
	r = -EDQUOT;
	if (bytes <= limit && bytes <= QUOTA_RESERVE_MAX) {
		token = quota_lock(slot->ledger);
		FAULT_POINT(SLOW_LOCKED);
		if (token >= 0)
			slot_reclaim_dead(slot->ledger, token);
		FAULT_POINT(SLOW_RECLAIMED);
		r = quota_settle(slot, device, bytes, limit);
		FAULT_POINT(SLOW_SETTLED);
		if (token >= 0)
			quota_unlock(token);
	}
	if (r == -EDQUOT)
		quota_count_refusal(slot, device);
	return r;
}

void quota_commit(struct slot *slot, int device, uint64_t reserved, enum category category,
		  uint64_t actual)
{
	struct ledger_row *row;

	if (!quota_device_ok(slot, device) || (unsigned int)category >= CAT_N)
		return;
	row = quota_row_of(slot, device);
	word_publish_add(&row->used[category], actual);
	FAULT_POINT(COMMIT_ADDED);
	word_sub_floor(&row->pending, reserved);
	quota_note_peak(slot, device);
	FAULT_POINT(COMMIT_DONE);
}

void quota_cancel(struct slot *slot, int device, uint64_t reserved)
{
	if (!quota_device_ok(slot, device))
		return;
	word_sub_floor(&quota_row_of(slot, device)->pending, reserved);
	FAULT_POINT(CANCELLED);
}

void quota_release(struct slot *slot, int device, enum category category, uint64_t bytes)
{
	if (!quota_device_ok(slot, device) || (unsigned int)category >= CAT_N)
		return;
	word_sub_floor(&quota_row_of(slot, device)->used[category], bytes);
	FAULT_POINT(RELEASED);
}

void quota_charge(struct slot *slot, int device, enum category category, uint64_t bytes)
{
	if (!quota_device_ok(slot, device) || (unsigned int)category >= CAT_N)
		return;
	word_publish_add(&quota_row_of(slot, device)->used[category], bytes);
	quota_note_peak(slot, device);
}

void quota_set(struct slot *slot, int device, enum category category, uint64_t bytes)
{
	if (quota_device_ok(slot, device) && (unsigned int)category < CAT_N)
		word_release(&quota_row_of(slot, device)->used[category], bytes);
}

bool quota_exchange(struct slot *slot, int device, enum category category, uint64_t from,
		    uint64_t to)
{
	return quota_device_ok(slot, device) && (unsigned int)category < CAT_N &&
	       word_swap_if(&quota_row_of(slot, device)->used[category], from, to);
}

void quota_publish(struct slot *slot, int device, uint64_t bytes)
{
	if (quota_device_ok(slot, device))
		word_publish_add(&quota_row_of(slot, device)->pending, bytes);
}

void quota_count_refusal(struct slot *slot, int device)
{
	if (quota_device_ok(slot, device))
		word_publish_add(&slot->ledger->map->devices[device].refusals, 1);
}

void quota_set_driver(struct slot *slot, int device, uint64_t bytes, uint64_t now_ns)
{
	struct ledger_info *info;

	if (!quota_device_ok(slot, device))
		return;
	info = &slot->ledger->map->info[device][slot->index];
	word_write(&info->driver_bytes, bytes);
	word_release(&info->driver_ns, now_ns);
}

void quota_say_guess(struct slot *slot, bool guesses)
{
	uint64_t *word = &slot->ledger->map->header.guesses[slot->index / 64];
	uint64_t bit = UINT64_C(1) << (slot->index % 64);

	if (guesses)
		word_set_bits(word, bit);
	else
		word_clear_bits(word, bit);
}

bool quota_guesses(struct ledger *ledger, int slot_index)
{
	return word_check(&ledger->map->header.guesses[slot_index / 64]) >> (slot_index % 64) & 1;
}

void quota_host_add(struct slot *slot, int device, uint64_t bytes)
{
	if (quota_device_ok(slot, device))
		word_publish_add(&slot->ledger->map->info[device][slot->index].host_bytes, bytes);
}

void quota_host_sub(struct slot *slot, int device, uint64_t bytes)
{
	if (quota_device_ok(slot, device))
		word_sub_floor(&slot->ledger->map->info[device][slot->index].host_bytes, bytes);
}

uint64_t quota_used(struct ledger *ledger, int device)
{
	return map_ready(ledger, device) ? quota_sum_all(ledger, device).total : 0;
}

uint64_t quota_host_limit(struct ledger *ledger, int host, uint64_t said_bytes,
			  enum host_category category)
{
	struct sum sum = {0};
	uint64_t room;

	if (said_bytes)
		return said_bytes;
	if (category == HOST_USERPTR)
		return UINT64_MAX;
	/* The room, with what is pending in it, comes on top of the bytes that the tenant has. */
	if (map_ready(ledger, host))
		sum = quota_sum_all(ledger, host);
	if (!host_memory_tell_room(&room))
		room = UINT64_MAX;
	return sat_add_u64(sat_sub_u64(sum.total, sum.pending),
			   min_u64(room, host_memory_cgroup_room()));
}

uint64_t quota_pending(struct ledger *ledger, int device)
{
	return map_ready(ledger, device) ? quota_sum_all(ledger, device).pending : 0;
}

_Static_assert(QUOTA_SLOTS == LEDGER_SLOTS, "a word for each slot");

uint64_t quota_used_live(struct ledger *ledger, int device)
{
	return quota_used_live_each(ledger, device, NULL);
}

uint64_t quota_used_live_each(struct ledger *ledger, int device, uint64_t *each)
{
	uint64_t alive[SHARED_HOLDER_WORDS] = { 0 };
	unsigned int high = map_slot_high(ledger);
	CLEANUP_CLOSE int own = -EBADF;
	struct sum sum = { 0 };
	bool asked = false;
	int fd = -EBADF;

	if (each)
		memset(each, 0, QUOTA_SLOTS * sizeof(*each));
	if (!map_ready(ledger, device))
		return 0;
	for (unsigned int i = 0; i < high; i++) {
		struct sum one = { 0 };

		quota_add_row(&one, &ledger->map->rows[device][i]);
		if (!one.total && !map_shared_high(ledger))
			continue;
		/* Opening the file costs more than all else here; alone, nobody is asked about. */
		if (!asked && (int)i != map_own_slot(ledger)) {
			fd = map_fd(ledger, &own);
			asked = true;
		}
		if (fd >= 0 && !slot_alive_fd(ledger, fd, (int)i))
			continue;
		alive[i / 64] |= UINT64_C(1) << (i % 64);
		sum.total = sat_add_u64(sum.total, one.total);
		if (each)
			each[i] = one.total;
	}
	if (map_shared_high(ledger))
		sum.total = sat_add_u64(sum.total, holders_sum(ledger, device, alive, each));
	return sum.total;
}

int quota_process(struct ledger *ledger, int slot_index, int device, struct quota_row *ret)
{
	const struct ledger_row *row;
	const struct ledger_info *info;
	struct quota_row copy;

	if ((unsigned int)slot_index >= LEDGER_SLOTS || !map_ready(ledger, device))
		return -EINVAL;
	row = &ledger->map->rows[device][slot_index];
	info = &ledger->map->info[device][slot_index];
	copy.pending = word_check(&row->pending);
	for (int c = 0; c < CAT_N; c++)
		copy.used[c] = word_check(&row->used[c]);
	copy.driver_ns = word_acquire(&info->driver_ns);
	copy.driver_bytes = word_read(&info->driver_bytes);
	copy.host_bytes = word_read(&info->host_bytes);
	*ret = copy;
	return 0;
}

/*
 * A thread that was cancelled with the lock would keep it, by its descriptor, until the process ends.
 * So it cannot be cancelled from the lock to its end; here is whether it could before.
 */
static _Thread_local int quota_could_cancel __attribute__((tls_model("initial-exec")));

/* A description of its own for each holder, so that threads of one process exclude each other. */
static int quota_lock_here(struct ledger *ledger)
{
	CLEANUP_CLOSE int own = -EBADF;
	int fd = map_fd(ledger, &own), r;

	if (fd < 0)
		return fd;
	if (own < 0)
		return -EINVAL;
	r = shared_file_lock_wait(own, LEDGER_LOCK_QUOTA, 1);
	return r < 0 ? r : TAKE_FD(own);
}

int quota_lock(struct ledger *ledger)
{
	int cancel = cancel_hold(), token = quota_lock_here(ledger);

	if (token < 0)
		cancel_release(cancel);
	else
		quota_could_cancel = cancel;
	return token;
}

/* Explicitly: a child that another thread forked meanwhile may share the description. */
void quota_unlock(int token)
{
	shared_file_unlock(token, LEDGER_LOCK_QUOTA, 1);
	close(token);
	cancel_release(quota_could_cancel);
}

int quota_reclaim(struct ledger *ledger)
{
	CLEANUP_CLOSE int own = -EBADF;
	int fd;

	if (ledger->is_copy)
		return -EINVAL;
	fd = map_fd(ledger, &own);
	return fd < 0 ? fd : slot_reclaim_dead(ledger, fd);
}
