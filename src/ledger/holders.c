/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/holders.h"

#include "base/number.h"

bool holders_has(const struct ledger_shared *entry, unsigned int index)
{
	return word_check(&entry->holders[index / 64]) >> (index % 64) & 1;
}

/* The first holder, or -1; `alive` and `except` as for holders_any. */
static int holders_first(const struct ledger_shared *entry, const uint64_t *alive, int except)
{
	for (int w = 0; w < SHARED_HOLDER_WORDS; w++) {
		uint64_t word = word_check(&entry->holders[w]);

		if (alive)
			word &= alive[w];
		if (except / 64 == w && except >= 0)
			word &= ~(UINT64_C(1) << (except % 64));
		if (word)
			return w * 64 + __builtin_ctzll(word);
	}
	return -1;
}

bool holders_any(const struct ledger_shared *entry, const uint64_t *alive, int except)
{
	return holders_first(entry, alive, except) >= 0;
}

bool holders_covered(struct ledger *ledger, const struct ledger_shared *entry,
		     const uint64_t *alive)
{
	uint32_t owner = word_read(&entry->owner);

	if (!(word_check(&entry->flags) & SHARED_COVERED) || owner >= LEDGER_SLOTS)
		return false;
	if (alive && !(alive[owner / 64] >> (owner % 64) & 1))
		return false;
	return word_check(&ledger->map->slots[owner].state) >> 8 ==
	       word_read(&entry->owner_generation);
}

uint64_t holders_shed(const struct ledger_shared *entry)
{
	uint64_t bytes = word_read(&entry->bytes), shed = word_check(&entry->shed_bytes);

	if (!(word_check(&entry->flags) & SHARED_SHED))
		return 0;
	return min_u64(shed, bytes);
}

/* Bytes that the owner's row does not carry are charged only while another process holds them. */
static uint64_t holders_charged(struct ledger *ledger, const struct ledger_shared *entry,
				const uint64_t *alive)
{
	if (!holders_covered(ledger, entry, alive))
		return word_read(&entry->bytes);
	if (!(word_check(&entry->flags) & SHARED_SHED) ||
	    !holders_any(entry, alive, (int)word_read(&entry->owner)))
		return 0;
	return holders_shed(entry);
}

/*
 * Returns the holder that is charged: if the owner's row does not carry the bytes any more, another
 * holder.
 */
static int holders_charge_of(struct ledger *ledger, const struct ledger_shared *entry,
			     const uint64_t *alive)
{
	return holders_first(entry, alive,
			     holders_covered(ledger, entry, alive) ? (int)word_read(&entry->owner)
								   : -1);
}

uint64_t holders_sum(struct ledger *ledger, int device, const uint64_t *alive, uint64_t *each)
{
	unsigned int high = map_shared_high(ledger);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < high; i++) {
		const struct ledger_shared *entry = &ledger->map->shared[i];
		uint64_t bytes;
		int slot;

		if (!holders_any(entry, alive, -1) ||
		    word_read(&entry->device) != (uint32_t)device)
			continue;
		bytes = holders_charged(ledger, entry, alive);
		sum = bytes < QUOTA_ABSURD_BYTES ? sat_add_u64(sum, bytes) : UINT64_MAX;
		/* A holder that lets go meanwhile is nobody's. */
		if (each && bytes && (slot = holders_charge_of(ledger, entry, alive)) >= 0)
			each[slot] = sat_add_u64(each[slot], bytes);
	}
	return sum;
}

void holders_forget(struct ledger *ledger, unsigned int index)
{
	unsigned int high = map_shared_high(ledger);

	for (unsigned int i = 0; i < high; i++) {
		struct ledger_shared *entry = &ledger->map->shared[i];

		if (holders_has(entry, index))
			word_clear_bits(&entry->holders[index / 64], UINT64_C(1) << (index % 64));
	}
}
