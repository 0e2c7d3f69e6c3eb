/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/place.h"

#include "preload/meter_priv.h"

/* With the lock. Who had one asks once in vain: all wake up at once, and others go first. */
static bool take(struct meter_device *md, uint64_t now_ns, uint64_t until_ns)
{
	struct place *place = &md->place;
	int index;

	if (place->taken && place->until_ns > now_ns)
		return true;
	place->taken = false;
	if (place->had) {
		place->had = false;
		return false;
	}
	index = compute_take_place(md->compute, now_ns, until_ns);
	if (index < 0)
		return false;
	*place = (struct place){.taken = true, .index = index, .until_ns = until_ns};
	return true;
}

bool place_take(struct meter_device *md, uint64_t now_ns, uint64_t until_ns)
{
	bool taken;

	meter_lock(md);
	taken = take(md, now_ns, until_ns);
	meter_unlock(md);
	return taken;
}

void place_give(struct meter_device *md)
{
	struct place *place = &md->place;

	if (!place->taken)
		return;
	compute_give_place(md->compute, place->index, place->until_ns);
	place->taken = false;
	place->had = true;
}
