/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/meter/overtime.h"

#include "base/number.h"
#include "sched/tuning.h"

void overtime_look(struct overtime *overtime, uint64_t ended_ns, uint64_t now_ns)
{
	uint32_t last = overtime->n - 1;

	/* The next turn began at some time since the last look: the span ends with that. */
	if (!ended_ns || ended_ns > now_ns) {
		overtime->on = false;
		overtime->looked_ns = now_ns;
		return;
	}
	/* A whole turn may have passed since the last look. */
	if (overtime->on && overtime->span[last % OVERTIMES].from_ns >= ended_ns) {
		overtime->span[last % OVERTIMES].to_ns = now_ns;
		return;
	}
	overtime->on = true;
	last = overtime->n++;
	overtime->span[last % OVERTIMES].from_ns = max_u64(ended_ns, overtime->looked_ns);
	overtime->span[last % OVERTIMES].to_ns = now_ns;
}

/*
 * The device is this context's when an event of it is done. It was so for the rest of one slice
 * first, and then for whole ones.
 */
static uint64_t overtime_own_ns(uint64_t ended_ns, uint64_t at_ns)
{
	uint64_t others = TUNING_DEVICE_SLICE_NS + 2 * TUNING_DEVICE_SWITCH_NS;
	uint64_t round = TUNING_DEVICE_SLICE_NS + others, passed;

	if (at_ns <= ended_ns)
		return at_ns;
	passed = at_ns - ended_ns;
	return at_ns - min_u64((passed + TUNING_DEVICE_SLICE_NS) / round * others, passed);
}

bool overtime_next(const struct overtime *overtime, uint64_t *from_ns, uint64_t to_ns,
		   uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	uint32_t n = overtime->n;

	if (*from_ns >= to_ns)
		return false;
	*ret_from_ns = *from_ns;
	*ret_to_ns = to_ns;
	for (uint32_t i = n < OVERTIMES ? 0 : n - OVERTIMES; i < n; i++) {
		uint64_t from = overtime->span[i % OVERTIMES].from_ns;
		uint64_t to = min_u64(overtime->span[i % OVERTIMES].to_ns, to_ns);

		if (*from_ns >= to || to_ns <= from)
			continue;
		*ret_from_ns = overtime_own_ns(from, *from_ns);
		*ret_to_ns = overtime_own_ns(from, to);
		*from_ns = to;
		return true;
	}
	*from_ns = to_ns;
	return true;
}
