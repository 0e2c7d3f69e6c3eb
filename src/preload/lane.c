/* SPDX-License-Identifier: Apache-2.0 */
/* What is launched and not known to be done, stream by stream. */
#include "preload/meter_priv.h"

int lane_find(struct meter_device *md, CUcontext context, uint64_t key, bool *ret_new)
{
	int best = -1;

	*ret_new = false;
	for (int i = 0; i < METER_LANES; i++) {
		const struct lane *lane = &md->lane[i];

		if (lane->context == context && lane->key == key)
			return i;
		if (!lane->context) {
			best = i;
			break; /* lanes are taken in order */
		}
		if (lane_idle(lane) && (best < 0 || lane->used_ns < md->lane[best].used_ns))
			best = i;
	}
	*ret_new = best >= 0;
	return best;
}

struct span lane_loose(const struct lane *lane, uint64_t now_ns)
{
	uint64_t end = lane->end_ns < now_ns ? lane->end_ns : now_ns;

	return (struct span){.from_ns = end - lane->loose.expected_ns, .to_ns = end};
}

void lane_forget(struct meter_device *md, struct lane *lane)
{
	md->pending_ns = less(md->pending_ns, lane->pending_ns);
	lane->pending_ns = 0;
	lane->loose.launches = 0;
	lane->loose.expected_ns = 0;
	lane->began_ns = 0;
}

/*
 * When launches that take so long together end, if they came evenly: right behind each other and
 * what was there before, or, where they were further apart than they take, behind the last.
 */
static uint64_t end_of(const struct tally *tally, uint64_t end_ns, uint64_t took_ns)
{
	uint64_t begin = end_ns > tally->first_ns ? end_ns : tally->first_ns;
	uint64_t alone = tally->last_ns + took_ns / tally->launches;

	return begin + took_ns > alone ? begin + took_ns : alone;
}

void lane_count(struct meter_device *md, struct lane *lane, const struct tally *tally)
{
	bool first = !lane->loose.launches;
	uint64_t ns = tally->expected_ns, end = atomic_load(&md->end_ns);

	lane->loose.key = first || lane->loose.key == tally->key ? tally->key : 0;
	lane->loose.known = (first || lane->loose.known) && tally->known;
	lane->loose.launches += tally->launches;
	lane->loose.expected_ns += ns;
	lane->end_ns = end_of(tally, lane->end_ns, ns);
	lane->used_ns = tally->last_ns;
	lane->pending_ns += ns;
	md->pending_ns += ns;
	end = end_of(tally, end, ns * md->overlap_permille / 1000);
	atomic_store_explicit(&md->end_ns, end, memory_order_relaxed);
}
