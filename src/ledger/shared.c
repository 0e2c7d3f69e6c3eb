/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are added under the tenant's lock, and only there does a free entry (no holder) become
 * a used one; holder bits are cleared without it. Readers look at the holders first.
 */
#include <errno.h>

#include "base/fault.h"
#include "base/number.h"
#include "ledger/holders.h"
#include "ledger/quota_priv.h"
#include "ledger/shared.h"
#include "ledger/slot_priv.h"

_Static_assert(sizeof(struct shared_slots) == SHARED_HOLDER_WORDS * sizeof(uint64_t),
	       "all slots have a bit");

void shared_find_alive(struct ledger *ledger, struct shared_slots *ret)
{
	*ret = (struct shared_slots){{0}};
	for (int i = 0; map_shared_high(ledger) && i < slot_count(ledger); i++)
		if (slot_alive(ledger, i))
			ret->word[i / 64] |= UINT64_C(1) << (i % 64);
}

uint64_t shared_used(struct ledger *ledger, int device, const struct shared_slots *alive)
{
	return map_shared_high(ledger) ? holders_sum(ledger, device, alive ? alive->word : NULL, NULL)
				       : 0;
}

static uint64_t shared_sum_held(struct ledger *ledger, int slot_index, int device, bool carried)
{
	unsigned int high = map_shared_high(ledger);
	uint64_t sum = 0;

	if ((unsigned int)slot_index >= LEDGER_SLOTS)
		return 0;
	for (unsigned int i = 0; i < high; i++) {
		const struct ledger_shared *entry = &ledger->map->shared[i];

		if (holders_has(entry, (unsigned int)slot_index) &&
		    word_read(&entry->device) == (uint32_t)device &&
		    (carried || word_read(&entry->owner) != (uint32_t)slot_index ||
		     !holders_covered(ledger, entry, NULL)))
			sum = sat_add_u64(sum, word_read(&entry->bytes));
	}
	return sum;
}

uint64_t shared_held(struct ledger *ledger, int slot_index, int device)
{
	return shared_sum_held(ledger, slot_index, device, true);
}

uint64_t shared_joined(struct ledger *ledger, int slot_index, int device)
{
	return shared_sum_held(ledger, slot_index, device, false);
}

bool shared_joins(struct ledger *ledger)
{
	for (int slot = 0; slot < slot_count(ledger); slot++)
		for (int d = 0; map_ready(ledger, d); d++)
			if (shared_joined(ledger, slot, d) && slot_alive(ledger, slot))
				return true;
	return false;
}

static struct ledger_shared *shared_find(struct ledger *ledger, struct shared_key key)
{
	unsigned int high = map_shared_high(ledger);

	for (unsigned int i = 0; i < high; i++) {
		struct ledger_shared *entry = &ledger->map->shared[i];

		if (word_read(&entry->key[0]) == key.word[0] &&
		    word_read(&entry->key[1]) == key.word[1] && holders_any(entry, NULL, -1))
			return entry;
	}
	return NULL;
}

static struct ledger_shared *shared_find_free(struct ledger *ledger)
{
	unsigned int high = map_shared_high(ledger);

	for (uint32_t i = 0; i < LEDGER_SHARED; i++) {
		struct ledger_shared *entry = &ledger->map->shared[i];

		if (i < high && holders_any(entry, NULL, -1))
			continue;
		/*
		 * No entry was ever here, so holders above the mark are forged. They are not to
		 * count.
		 */
		for (int w = 0; i >= high && w < SHARED_HOLDER_WORDS; w++)
			word_write(&entry->holders[w], 0);
		/*
		 * Before the entry counts: processes that scan from now on must come as far as this
		 * entry.
		 */
		word_raise_u32(&ledger->map->header.shared_high, i + 1);
		return entry;
	}
	return NULL;
}

static void shared_hold(struct slot *slot, struct ledger_shared *entry)
{
	unsigned int index = (unsigned int)slot->index;

	word_set_bits(&entry->holders[index / 64], UINT64_C(1) << (index % 64));
	FAULT_POINT(SHARED_HELD);
}

static void shared_let_go(struct slot *slot, struct ledger_shared *entry)
{
	unsigned int index = (unsigned int)slot->index;

	word_clear_bits(&entry->holders[index / 64], UINT64_C(1) << (index % 64));
}

static bool shared_is_owner(struct slot *slot, const struct ledger_shared *entry)
{
	return word_read(&entry->owner) == (uint32_t)slot->index &&
	       word_read(&entry->owner_generation) == slot->generation;
}

/*
 * With the tenant's lock. False: the last other holder is gone, and the key names a new object.
 * When the first other holder joins, the owner's row carries all of it.
 */
static bool shared_join_entry(struct slot *slot, struct ledger_shared *entry)
{
	uint32_t owner = word_read(&entry->owner);

	if (owner < LEDGER_SLOTS && !holders_any(entry, NULL, (int)owner))
		word_clear_bits(&entry->flags, (uint32_t)SHARED_SHED);
	shared_hold(slot, entry);
	if (holders_any(entry, NULL, slot->index))
		return true;
	shared_let_go(slot, entry);
	return false;
}

static int shared_add_new(struct slot *slot, struct shared_key key, int device, uint64_t bytes,
			  enum category category, unsigned int flags)
{
	struct ledger_shared *entry = shared_find_free(slot->ledger);

	if (!entry)
		return -ENOSPC;
	/* Nobody holds it, so nobody looks at it: plain order is enough until the bit is set. */
	word_write(&entry->key[0], key.word[0]);
	word_write(&entry->key[1], key.word[1]);
	word_write(&entry->bytes, bytes);
	word_write(&entry->device, (uint32_t)device);
	word_write(&entry->category, (uint32_t)category);
	word_write(&entry->flags, flags & SHARED_COVERED);
	word_write(&entry->owner, (uint32_t)slot->index);
	word_write(&entry->owner_generation, slot->generation);
	FAULT_POINT(SHARED_FILLED);
	shared_hold(slot, entry);
	return 0;
}

/*
 * The bytes are pending from before the entry is read until it holds them, so they are counted once
 * or twice throughout, and a kill leaves them in a slot that is dead.
 */
static int shared_add_locked(struct slot *slot, struct shared_key key, int device, uint64_t bytes,
			     enum category category, unsigned int flags, uint64_t limit)
{
	struct ledger_shared *entry = shared_find(slot->ledger, key);
	int r;

	if (entry) {
		if (holders_has(entry, (unsigned int)slot->index))
			return -EEXIST;
		if (shared_join_entry(slot, entry))
			return 0;
	}
	if (flags & SHARED_COVERED)
		return shared_add_new(slot, key, device, bytes, category, flags);
	r = quota_settle(slot, device, bytes, limit);
	if (r < 0)
		return r;
	FAULT_POINT(SHARED_PUBLISHED);
	r = shared_add_new(slot, key, device, bytes, category, flags);
	quota_cancel(slot, device, bytes);
	quota_note_used(slot, device);
	return r;
}

int shared_add(struct slot *slot, struct shared_key key, int device, uint64_t bytes,
	       enum category category, unsigned int flags, uint64_t limit)
{
	int token, r;

	if (slot->index < 0 || !map_ready(slot->ledger, device) || (unsigned int)category >= CAT_N)
		return -EINVAL;
	if (bytes > QUOTA_RESERVE_MAX)
		return -EDQUOT;
	token = quota_lock(slot->ledger);
	if (token < 0)
		return token;
	slot_reclaim_dead(slot->ledger, token);
	r = shared_add_locked(slot, key, device, bytes, category, flags, limit);
	quota_unlock(token);
	FAULT_POINT(SHARED_ADDED);
	return r;
}

/* Even: guests' tables by one half of a key have no place for 0, and no key has an even half. */
#define AGE UINT64_C(0x9e3779b97f4a7c14)

struct shared_key shared_aged(struct shared_key key)
{
	return (struct shared_key){{key.word[0] + AGE, key.word[1] + AGE}};
}

static struct ledger_shared *shared_find_own(struct slot *slot, struct shared_key key)
{
	struct ledger_shared *entry = shared_find(slot->ledger, key);

	return entry && holders_has(entry, (unsigned int)slot->index) ? entry : NULL;
}

int shared_rename(struct slot *slot, struct shared_key from, struct shared_key to)
{
	struct ledger_shared *entry;
	int token, r = 0;

	if (slot->index < 0)
		return -EINVAL;
	token = quota_lock(slot->ledger);
	if (token < 0)
		return token;
	entry = shared_find_own(slot, from);
	if (entry) {
		word_write(&entry->key[0], to.word[0]);
		FAULT_POINT(SHARED_RENAMED);
		word_write(&entry->key[1], to.word[1]);
	} else if (!shared_find_own(slot, to)) {
		r = -ENOENT;
	}
	quota_unlock(token);
	return r;
}

int shared_join(struct slot *slot, struct shared_key key)
{
	struct ledger_shared *entry;
	int token, r = -ENOENT;

	if (slot->index < 0)
		return -EINVAL;
	token = quota_lock(slot->ledger);
	if (token < 0)
		return token;
	slot_reclaim_dead(slot->ledger, token);
	entry = shared_find(slot->ledger, key);
	if (entry && !shared_is_owner(slot, entry)) {
		if (holders_has(entry, (unsigned int)slot->index))
			r = -EEXIST;
		else if (shared_join_entry(slot, entry))
			r = 0;
	}
	quota_unlock(token);
	return r;
}

static struct ledger_shared *shared_find_owned(struct slot *slot, struct shared_key key)
{
	struct ledger_shared *entry = shared_find_own(slot, key);

	return entry && shared_is_owner(slot, entry) ? entry : NULL;
}

int shared_raise(struct slot *slot, struct shared_key key, uint64_t part, uint64_t most)
{
	struct ledger_shared *entry;
	uint64_t shed, carried;
	int token;

	if (slot->index < 0 || part > QUOTA_RESERVE_MAX || most > QUOTA_RESERVE_MAX)
		return -EINVAL;
	token = quota_lock(slot->ledger);
	if (token < 0)
		return token;
	slot_reclaim_dead(slot->ledger, token);
	entry = shared_find_owned(slot, key);
	if (entry) {
		if (!holders_any(entry, NULL, slot->index))
			word_clear_bits(&entry->flags, (uint32_t)SHARED_SHED);
		shed = holders_shed(entry);
		carried = word_read(&entry->bytes) - shed;
		if (carried < most)
			word_publish(&entry->bytes,
				     shed + (part < most - carried ? carried + part : most));
	}
	quota_unlock(token);
	FAULT_POINT(SHARED_RAISED);
	return entry ? 0 : -ENOENT;
}

/*
 * The bytes are in the entry and still in the row until the caller takes them out of the row:
 * counted twice. A kill leaves them in the entry, which is then charged with all that its holders
 * can have.
 */
static void shared_shed_entry(struct slot *slot, struct ledger_shared *entry, uint64_t fallen,
			      uint64_t rest)
{
	uint64_t bytes = word_read(&entry->bytes), shed = holders_shed(entry);

	if (!holders_any(entry, NULL, slot->index)) {
		if (bytes > rest)
			word_publish(&entry->bytes, rest);
		return;
	}
	word_publish(&entry->shed_bytes, fallen < bytes - shed ? shed + fallen : bytes);
	word_set_bits(&entry->flags, (uint32_t)SHARED_SHED);
}

void shared_shed(struct slot *slot, struct shared_key key, uint64_t fallen, uint64_t rest)
{
	struct ledger_shared *entry;
	int token;

	if (slot->index < 0)
		return;
	/* Without the lock nobody is reclaimed, and a holder that is dead counts as any. */
	token = quota_lock(slot->ledger);
	if (token >= 0)
		slot_reclaim_dead(slot->ledger, token);
	entry = shared_find_owned(slot, key);
	if (entry)
		shared_shed_entry(slot, entry, fallen, rest);
	if (token >= 0)
		quota_unlock(token);
	FAULT_POINT(SHARED_SHED_ROW);
}

static void shared_uncover_entry(struct slot *slot, struct ledger_shared *entry)
{
	if (shared_is_owner(slot, entry))
		word_clear_bits(&entry->flags, (uint32_t)SHARED_COVERED);
}

void shared_uncover(struct slot *slot, struct shared_key key)
{
	struct ledger_shared *entry = shared_find(slot->ledger, key);

	if (entry && slot->index >= 0)
		shared_uncover_entry(slot, entry);
}

int shared_device(struct ledger *ledger, struct shared_key key)
{
	struct ledger_shared *entry = shared_find(ledger, key);

	return entry ? (int)word_read(&entry->device) : -1;
}

bool shared_known(struct ledger *ledger, struct shared_key key)
{
	return shared_find(ledger, key);
}

uint64_t shared_bytes(struct ledger *ledger, struct shared_key key)
{
	const struct ledger_shared *entry = shared_find(ledger, key);
	uint64_t bytes = entry ? word_read(&entry->bytes) : 0;

	return bytes <= QUOTA_RESERVE_MAX ? bytes : 0;
}

bool shared_covered(struct ledger *ledger, struct shared_key key)
{
	const struct ledger_shared *entry = shared_find(ledger, key);

	return entry && holders_covered(ledger, entry, NULL);
}

bool shared_is_alone(struct slot *slot, struct shared_key key)
{
	const struct ledger_shared *entry = shared_find_own(slot, key);

	return entry && !holders_any(entry, NULL, slot->index);
}

int shared_drop(struct slot *slot, struct shared_key key)
{
	struct ledger *ledger = slot->ledger;
	unsigned int high = map_shared_high(ledger);

	for (unsigned int i = 0; i < high && slot->index >= 0; i++) {
		struct ledger_shared *entry = &ledger->map->shared[i];

		if (!holders_has(entry, (unsigned int)slot->index) ||
		    word_read(&entry->key[0]) != key.word[0] ||
		    word_read(&entry->key[1]) != key.word[1])
			continue;
		shared_uncover_entry(slot, entry);
		FAULT_POINT(SHARED_UNCOVERED);
		shared_let_go(slot, entry);
		FAULT_POINT(SHARED_DROPPED);
		return 0;
	}
	return -ENOENT;
}
