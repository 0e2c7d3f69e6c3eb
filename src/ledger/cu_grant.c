/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/cu_grant.h"

#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/word.h"
#include "ledger/ledger.h"
#include "ledger/map.h"
#include "ledger/slot.h"

#define WORDS (sizeof(struct cu_grant) / sizeof(uint64_t))
_Static_assert(sizeof(struct cu_grant) == 152, "layout");

/* A writer takes some nanoseconds, and a torn one stays torn. */
#define TRIES 3

/* Below the generation of the slot's claim. */
#define QUEUES_BITS 24
#define QUEUES_MASK ((UINT64_C(1) << QUEUES_BITS) - 1)

/* Never 0, so that zeroes are none. */
static uint64_t cu_grant_sum_of(const uint64_t words[WORDS])
{
	uint64_t h = HASH_SEED;

	for (size_t i = 0; i < WORDS; i++)
		h = hash_word(h, words[i] ^ words[i] >> 29);
	return h | 1;
}

int cu_grant_read(const struct device_time *time, struct cu_grant *ret)
{
	const uint64_t *from = (const uint64_t *)&time->cu_grant;
	uint64_t words[WORDS];

	for (int try = 0; try < TRIES; try++) {
		uint64_t sum = word_acquire(&time->cu_grant_sum);

		for (size_t i = 0; i < WORDS; i++)
			words[i] = word_read(&from[i]);
		if (sum && sum == cu_grant_sum_of(words)) {
			memcpy(ret, words, sizeof(*ret));
			return ret->made_ns ? 0 : -ENODATA;
		}
	}
	return -ENODATA;
}

void cu_grant_write(struct device_time *time, const struct cu_grant *grant)
{
	uint64_t *to = (uint64_t *)&time->cu_grant, words[WORDS];

	memcpy(words, grant, sizeof(words));
	/* A reader that sees one of the new words sees that the old sum is gone. */
	word_publish(&time->cu_grant_sum, 0);
	for (size_t i = 0; i < WORDS; i++) {
		word_release(&to[i], words[i]);
		if (i == WORDS / 2)
			FAULT_POINT(CU_TORN);
	}
	word_release(&time->cu_grant_sum, cu_grant_sum_of(words));
	FAULT_POINT(CU_WRITTEN);
}

void cu_grant_set_queues(struct slot *slot, int device, uint32_t n)
{
	struct ledger *ledger = slot->ledger;

	if (map_ready(ledger, device))
		word_publish(&ledger->map->info[device][slot->index].queues,
			     slot->generation << QUEUES_BITS | n);
}

/* A number of an earlier process in that slot carries another generation, and does not count. */
static bool cu_grant_has_queues(struct ledger *ledger, int device, unsigned int slot)
{
	uint64_t word = word_check(&ledger->map->info[device][slot].queues);
	uint64_t state = word_acquire(&ledger->map->slots[slot].state);

	return word & QUEUES_MASK && (state & 0xff) == SLOT_LIVE &&
	       word >> QUEUES_BITS == state >> 8;
}

bool cu_grant_in_use(struct ledger *ledger, int device)
{
	for (unsigned int i = 0; i < map_slot_high(ledger); i++)
		if (cu_grant_has_queues(ledger, device, i) && slot_alive(ledger, (int)i))
			return true;
	return false;
}

int cu_grant_wanted(struct ledger *ledger, const uint8_t uuid[16])
{
	int device = ledger_find(ledger, uuid);

	return device >= 0 && cu_grant_in_use(ledger, device) ? device : -ENODEV;
}
