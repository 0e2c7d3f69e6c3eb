/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/spare.h"

#include "base/fault.h"
#include "base/futex.h"
#include "base/now.h"
#include "ledger/shared_file.h"
#include "ledger/slot_priv.h"

#define PATIENCE_NS NS_PER_S
#define NAP_MIN_US  50
#define NAP_MAX_US  1000

static struct ledger_header *spare_header(const struct slot *slot)
{
	return &slot->ledger->map->header;
}

static uint64_t spare_bit(const struct slot *slot)
{
	return UINT64_C(1) << (slot->index % 64);
}

static uint16_t spare_last_question(const struct slot *slot)
{
	return (uint16_t)word_check(&spare_header(slot)->spare_question);
}

void spare_keep(struct slot *slot)
{
	uint64_t *word;

	if (slot->index < 0)
		return;
	word = &spare_header(slot)->spare_keeps[slot->index / 64];
	/*
	 * Usually the bit is set already, and nobody else's cache is to lose the word. The first to
	 * set it has answered all earlier questions: other threads that keep something wait here.
	 */
	if (!(word_check(word) & spare_bit(slot))) {
		lock_take(&slot->spare_lock);
		if (!(word_check(word) & spare_bit(slot))) {
			spare_answer(slot, spare_last_question(slot));
			word_set_bits(word, spare_bit(slot));
		}
		lock_drop(&slot->spare_lock);
	}
	FAULT_POINT(SPARE_KEPT);
}

void spare_end(struct slot *slot)
{
	if (slot->index >= 0)
		word_clear_bits(&spare_header(slot)->spare_keeps[slot->index / 64],
				spare_bit(slot));
}

static bool spare_is_alive(const struct slot *slot, int index)
{
	return index == slot->index || slot_alive(slot->ledger, index);
}

bool spare_asked(struct slot *slot)
{
	for (unsigned int w = 0; w * 64 < map_slot_high(slot->ledger); w++) {
		uint64_t bits = word_check(&spare_header(slot)->spare_asks[w]);

		for (; bits; bits &= bits - 1)
			if (spare_is_alive(slot, (int)w * 64 + __builtin_ctzll(bits)))
				return true;
	}
	return false;
}

/* Threads of this process may ask at once: the first says so, and the last that nobody does. */
void spare_begin_ask(struct slot *slot)
{
	if (slot->index < 0)
		return;
	lock_take(&slot->spare_lock);
	if (!slot->asks++)
		word_set_bits(&spare_header(slot)->spare_asks[slot->index / 64], spare_bit(slot));
	lock_drop(&slot->spare_lock);
	FAULT_POINT(SPARE_ASKED);
}

void spare_end_ask(struct slot *slot)
{
	if (slot->index < 0)
		return;
	lock_take(&slot->spare_lock);
	if (!--slot->asks)
		word_clear_bits(&spare_header(slot)->spare_asks[slot->index / 64],
				spare_bit(slot));
	lock_drop(&slot->spare_lock);
}

/*
 * Numbers are compared modulo their width. No wait lasts for half of all numbers; a process that
 * was stopped for that long, while others asked a thousand times a second, is taken to have
 * answered.
 */
static bool spare_has_answered(const struct slot *slot, int index, uint16_t number)
{
	uint16_t answered = word_acquire(&spare_header(slot)->spare_answered[index]);

	return (int16_t)(answered - number) >= 0;
}

/* Some process that may keep something has not; this one, too, where another thread answers. */
static bool spare_is_awaited(const struct slot *slot, uint16_t number)
{
	for (unsigned int w = 0; w * 64 < map_slot_high(slot->ledger); w++) {
		uint64_t bits = word_check(&spare_header(slot)->spare_keeps[w]);

		for (; bits; bits &= bits - 1) {
			int index = (int)w * 64 + __builtin_ctzll(bits);

			if (!spare_has_answered(slot, index, number) &&
			    spare_is_alive(slot, index))
				return true;
		}
	}
	return false;
}

void spare_await(struct slot *slot, const void *bell)
{
	uint64_t until_ns = now_monotonic_ns() + PATIENCE_NS;
	unsigned int us = NAP_MIN_US;
	uint16_t number;

	if (slot->index < 0)
		return;
	number = (uint16_t)(word_publish_add(&spare_header(slot)->spare_question, 1) + 1);
	/* Woken again and again: one may have looked just before, and sleep only now. */
	while (spare_is_awaited(slot, number) && now_monotonic_ns() < until_ns) {
		futex_wake_all(bell);
		shared_file_nap(&us, NAP_MAX_US);
	}
}

bool spare_question(struct slot *slot, uint16_t *ret_number)
{
	uint16_t number = spare_last_question(slot);

	*ret_number = number;
	return slot->index >= 0 && !spare_has_answered(slot, slot->index, number);
}

void spare_answer(struct slot *slot, uint16_t number)
{
	word_publish(&spare_header(slot)->spare_answered[slot->index], number);
}
