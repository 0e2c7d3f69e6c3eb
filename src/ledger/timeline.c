/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/timeline.h"

#include "base/number.h"
#include "base/word.h"

#define BITS_MASK ((UINT64_C(1) << TIMELINE_BITS) - 1)
/* No work lasts that long: an instant is damaged, and that many words are not walked. */
#define MOST_BITS ((uint64_t)TIMELINE_WORDS * TIMELINE_BITS)

/* The first bit whose middle lies at the instant or after it. */
static uint64_t timeline_bit_from(uint64_t ns)
{
	return (ns + TIMELINE_BIT_NS / 2 - 1) / TIMELINE_BIT_NS;
}

static uint64_t timeline_turn(uint64_t number)
{
	return number / TIMELINE_WORDS & 0xffff;
}

/* The bits from `bit` on, as far as one word and `end` go; moves `bit` behind them. */
static uint64_t timeline_take_bits(uint64_t *bit, uint64_t end)
{
	uint64_t in_word = *bit % TIMELINE_BITS, n = min_u64(TIMELINE_BITS - in_word, end - *bit);

	*bit += n;
	return ((UINT64_C(1) << n) - 1) << in_word;
}

/* Sets bits of one word of the ring. Answers how many were not set. */
static uint64_t timeline_set_bits(struct timeline *timeline, uint64_t number, uint64_t bits)
{
	uint64_t *word = &timeline->word[number % TIMELINE_WORDS];
	uint64_t turn = timeline_turn(number), old, now;

	do {
		old = word_read(word);
		now = bits;
		if (old >> TIMELINE_BITS == turn)
			now |= old & BITS_MASK;
		else if ((((old >> TIMELINE_BITS) - turn) & 0xffff) == 1)
			return (uint64_t)__builtin_popcountll(bits); /* written over since */
		now |= turn << TIMELINE_BITS;
	} while (now != old && !word_swap_if(word, old, now));
	if (old >> TIMELINE_BITS != turn)
		old = 0;
	return (uint64_t)__builtin_popcountll(bits & ~old);
}

uint64_t timeline_add(struct timeline *timeline, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t bit = timeline_bit_from(from_ns), end = timeline_bit_from(to_ns), all, fresh = 0;

	if (to_ns <= from_ns)
		return 0;
	if (end <= bit)
		return to_ns - from_ns;
	all = end - bit;
	if (all > MOST_BITS) {
		fresh = all - MOST_BITS;
		bit = end - MOST_BITS;
	}
	while (bit < end) {
		uint64_t number = bit / TIMELINE_BITS;

		fresh += timeline_set_bits(timeline, number, timeline_take_bits(&bit, end));
	}
	return fresh == all ? to_ns - from_ns
			    : (uint64_t)((unsigned __int128)(to_ns - from_ns) * fresh / all);
}

uint64_t timeline_busy_ns(const struct timeline *timeline, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t bit = timeline_bit_from(from_ns), end = timeline_bit_from(to_ns), busy = 0;

	if (end > bit + MOST_BITS)
		return 0;
	while (bit < end) {
		uint64_t number = bit / TIMELINE_BITS, bits = timeline_take_bits(&bit, end);
		uint64_t word = word_read(&timeline->word[number % TIMELINE_WORDS]);

		if (word >> TIMELINE_BITS == timeline_turn(number))
			busy += (uint64_t)__builtin_popcountll(word & bits);
	}
	return min_u64(busy * TIMELINE_BIT_NS, to_ns - from_ns);
}
