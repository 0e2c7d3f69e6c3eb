/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/burst.h"

#include "preload/meter_priv.h"

/*
 * The word: the ns and the launches that are left, whether launches of another key came, and the
 * number of the burst, so that who read what is said of one takes nothing from the next.
 */
#define NS_BITS		  18
#define NS_MASK		  ((UINT64_C(1) << NS_BITS) - 1)
#define LAUNCH		  (UINT64_C(1) << NS_BITS)
#define LAUNCHES	  UINT64_C(255)
#define LAUNCHES_AT(word) ((word) >> NS_BITS & LAUNCHES)
#define MIXED		  (UINT64_C(1) << 26)
#define NUMBER		  (UINT64_C(1) << 27)

static uint64_t numbered(uint64_t word)
{
	return word & ~(NUMBER - 1);
}

void burst_begin(struct meter_device *md, const struct unit *unit, uint64_t most_ns)
{
	struct burst *burst = &md->burst;
	bool again = burst->lane == unit->lane && burst->context == unit->context &&
		     burst->lane_key == unit->lane_key;

	atomic_poke(&burst->context, unit->context);
	atomic_poke(&burst->lane_key, unit->lane_key);
	atomic_poke(&burst->lane, unit->lane);
	atomic_poke(&burst->key, unit->key);
	if (!again || !most_ns)
		return;
	burst->first_ns = unit->now_ns;
	atomic_poke(&burst->last_ns, unit->now_ns);
	burst->given = numbered(atomic_peek(&burst->word)) | LAUNCHES * LAUNCH |
		       (most_ns < NS_MASK ? most_ns : NS_MASK);
	atomic_release(&burst->word, burst->given);
}

bool burst_join(struct meter_device *md, struct unit *unit)
{
	struct burst *burst = &md->burst;
	uint64_t word = atomic_acquire(&burst->word), left = word;

	if (!LAUNCHES_AT(word) || (word & NS_MASK) < unit->expected_ns ||
	    atomic_peek(&burst->lane_key) != unit->lane_key ||
	    atomic_peek(&burst->context) != unit->context)
		return false;
	left -= LAUNCH + unit->expected_ns;
	if (atomic_peek(&burst->key) != unit->key)
		left |= MIXED;
	unit->lane = atomic_peek(&burst->lane);
	/* Not if another thread was first: that is rare, and it may be over. */
	if (!atomic_swap_if_u64(&burst->word, word, left))
		return false;
	atomic_poke(&burst->last_ns, unit->now_ns);
	return true;
}

void burst_end(struct meter_device *md)
{
	struct burst *burst = &md->burst;
	uint64_t given = burst->given, next = numbered(given) + NUMBER, left;

	left = __atomic_exchange_n(&burst->word, next, __ATOMIC_ACQ_REL);
	burst->given = 0;
	if (LAUNCHES_AT(left) == LAUNCHES_AT(given))
		return;
	lane_count(md, &md->lane[burst->lane],
		   &(struct tally){
			   .launches = (uint32_t)(LAUNCHES_AT(given) - LAUNCHES_AT(left)),
			   .known = true,
			   .key = left & MIXED ? 0 : burst->key,
			   .expected_ns = (given & NS_MASK) - (left & NS_MASK),
			   .first_ns = burst->first_ns,
			   .last_ns = atomic_peek(&burst->last_ns),
		   });
}
