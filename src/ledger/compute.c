/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/compute.h"

#include <stdbool.h>

#include "base/atomic.h"
#include "ledger/ledger_priv.h"

#define SECOND_NS UINT64_C(1000000000)
/* No work lasts so long, and none was billed so far ahead: the word is damaged. */
#define ABSURD_NS (3600 * SECOND_NS)

/* An entry: which second, cut to 24 bits, above busy microseconds, cut to 40. */
#define BUSY_BITS 40
#define BUSY_MASK ((UINT64_C(1) << BUSY_BITS) - 1)
#define SECOND_MASK (UINT64_MAX >> BUSY_BITS)

struct compute *compute_of(struct ledger *ledger, int device)
{
	return (unsigned int)device < LEDGER_DEVICES ? &ledger->map->compute[device] : NULL;
}

uint64_t compute_cover(struct compute *compute, uint64_t from_ns, uint64_t to_ns,
		       uint64_t *ret_from_ns)
{
	uint64_t old, from;

	do {
		old = atomic_peek(&compute->covered_ns);
		from = old > from_ns && old < from_ns + ABSURD_NS ? old : from_ns;
		if (to_ns <= from)
			return 0;
	} while (!atomic_swap_if_u64(&compute->covered_ns, old, to_ns));
	*ret_from_ns = from;
	return to_ns - from;
}

static uint64_t entry_of(uint64_t second, uint64_t busy_ns)
{
	return second << BUSY_BITS | (busy_ns / 1000 & BUSY_MASK);
}

static bool entry_is(uint64_t entry, uint64_t second)
{
	return entry && entry >> BUSY_BITS == (second & SECOND_MASK);
}

/*
 * An entry is made by the first who bills in its second, so a second without one is a second in
 * which nothing was billed.
 */
void compute_add_busy(struct compute *compute, uint64_t now_ns, uint64_t busy_ns)
{
	uint64_t second = now_ns / SECOND_NS;
	uint64_t *entry = &compute->second[second % COMPUTE_SECONDS];
	uint64_t old = atomic_peek(entry);

	if (!entry_is(old, second))
		atomic_swap_if_u64(entry, old, entry_of(second, atomic_peek(&compute->busy_ns)));
	__atomic_fetch_add(&compute->busy_ns, busy_ns, __ATOMIC_RELAXED);
}

uint32_t compute_achieved(const struct compute *compute, uint64_t now_ns, unsigned int seconds)
{
	uint64_t end = now_ns / SECOND_NS, begin = end - seconds;
	uint64_t now_us = atomic_peek(&compute->busy_ns) / 1000, from_us, to_us, share;

	if (!seconds || seconds > COMPUTE_SECONDS - 2)
		return 0;
	/* Busy time as of a second is that of the next one in which anything was billed. */
	from_us = to_us = now_us;
	for (uint64_t second = end; second + 1 > begin; second--) {
		uint64_t entry = atomic_peek(&compute->second[second % COMPUTE_SECONDS]);

		if (entry_is(entry, second))
			from_us = entry & BUSY_MASK;
		if (second == end)
			to_us = from_us;
		if (!second)
			break;
	}
	share = ((to_us - from_us) & BUSY_MASK) / (seconds * 100);
	return share > 10000 ? 10000 : (uint32_t)share;
}
