/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/ranges.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"

#define ROOM_FIRST 128

static size_t amd_ranges_room_bytes(uint32_t room)
{
	return room * sizeof(struct amd_range);
}

/*
 * Makes room for `more` more. The caller's lock is free while the bigger array is mapped, so the
 * caller must look again afterwards. False: -ENOMEM.
 */
static bool amd_ranges_grow(struct amd_ranges *ranges, uint32_t more)
{
	uint32_t room = ranges->room ? ranges->room : ROOM_FIRST, old_room;
	struct amd_range *bigger, *old;

	while (room < ranges->count + more)
		room *= 2;
	lock_drop(&ranges->lock);
	bigger = pages_map(amd_ranges_room_bytes(room));
	lock_take(&ranges->lock);
	if (!bigger)
		return false;
	old = bigger;
	old_room = room;
	if (ranges->room < room) {
		old = ranges->at;
		old_room = ranges->room;
		if (ranges->count)
			memcpy(bigger, old, amd_ranges_room_bytes(ranges->count));
		ranges->at = bigger;
		ranges->room = room;
	}
	if (old_room) {
		lock_drop(&ranges->lock);
		munmap(old, amd_ranges_room_bytes(old_room));
		lock_take(&ranges->lock);
	}
	return true;
}

/* The place of the first that ends behind the address. */
static uint32_t amd_ranges_find(const struct amd_ranges *ranges, uint64_t address)
{
	uint32_t low = 0, high = ranges->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges->at[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Makes room for `n` in the stead of `old` from the i-th on. */
static void amd_ranges_move(struct amd_ranges *ranges, uint32_t i, uint32_t old, uint32_t n)
{
	memmove(&ranges->at[i + n], &ranges->at[i + old],
		amd_ranges_room_bytes(ranges->count - i - old));
	ranges->count = ranges->count - old + n;
}

/* The one that lies across the address becomes two. */
static void amd_ranges_split(struct amd_ranges *ranges, uint64_t address)
{
	uint32_t i = amd_ranges_find(ranges, address);

	if (i == ranges->count || ranges->at[i].first >= address)
		return;
	amd_ranges_move(ranges, i, 1, 2);
	ranges->at[i + 1] = ranges->at[i];
	ranges->at[i].end = ranges->at[i + 1].first = address;
}

/*
 * Takes the lock with room in both; -ENOMEM: it is free again. Both ends may cut one in two, and
 * before each and behind the last there may be a gap to fill.
 */
static int amd_ranges_lock_with_room(struct amd_ranges *ranges, uint64_t first, uint64_t end,
				     struct amd_ranges *out)
{
	lock_take(&ranges->lock);
	for (;;) {
		uint32_t n = amd_ranges_find(ranges, end - 1) + 1 - amd_ranges_find(ranges, first);
		bool ok;

		if (ranges->count + n + 3 > ranges->room) {
			ok = amd_ranges_grow(ranges, n + 3);
		} else if (out && out->count + n > out->room) {
			lock_drop(&ranges->lock);
			lock_take(&out->lock);
			ok = amd_ranges_grow(out, n);
			lock_drop(&out->lock);
			lock_take(&ranges->lock);
		} else {
			return 0;
		}
		if (!ok) {
			lock_drop(&ranges->lock);
			return -ENOMEM;
		}
	}
}

static void amd_ranges_take_locked(struct amd_ranges *ranges, uint64_t first, uint64_t end,
				   struct amd_ranges *ret_out)
{
	uint32_t i, n = 0;

	amd_ranges_split(ranges, first);
	amd_ranges_split(ranges, end);
	i = amd_ranges_find(ranges, first);
	while (i + n < ranges->count && ranges->at[i + n].first < end)
		n++;
	if (ret_out && n) {
		memcpy(ret_out->at + ret_out->count, ranges->at + i, amd_ranges_room_bytes(n));
		ret_out->count += n;
	}
	amd_ranges_move(ranges, i, n, 0);
}

int amd_ranges_take(struct amd_ranges *ranges, uint64_t first, uint64_t end,
		    struct amd_ranges *ret_out)
{
	if (first >= end)
		return 0;
	if (amd_ranges_lock_with_room(ranges, first, end, ret_out))
		return -ENOMEM;
	amd_ranges_take_locked(ranges, first, end, ret_out);
	lock_drop(&ranges->lock);
	return 0;
}

static bool amd_ranges_has_same(const struct amd_ranges *ranges, const struct amd_range *range)
{
	uint64_t at = range->first;

	for (uint32_t i = amd_ranges_find(ranges, at); at < range->end; i++) {
		if (i == ranges->count || ranges->at[i].first > at ||
		    ranges->at[i].said != range->said)
			return false;
		at = ranges->at[i].end;
	}
	return true;
}

int amd_ranges_take_same(struct amd_ranges *ranges, const struct amd_range *range,
			 struct amd_ranges *ret_out)
{
	if (amd_ranges_lock_with_room(ranges, range->first, range->end, ret_out))
		return -ENOMEM;
	if (amd_ranges_has_same(ranges, range))
		amd_ranges_take_locked(ranges, range->first, range->end, ret_out);
	lock_drop(&ranges->lock);
	return 0;
}

int amd_ranges_put(struct amd_ranges *ranges, const struct amd_range *range,
		   struct amd_ranges *ret_twice)
{
	struct amd_range part = *range;

	if (amd_ranges_lock_with_room(ranges, range->first, range->end, ret_twice))
		return -ENOMEM;
	amd_ranges_split(ranges, range->first);
	amd_ranges_split(ranges, range->end);
	for (uint32_t i = amd_ranges_find(ranges, range->first); part.first < range->end; i++) {
		struct amd_range *there = &ranges->at[i], twice;

		part.end = range->end;
		if (i < ranges->count && there->first < part.end)
			part.end = there->first;
		if (part.first < part.end) {
			amd_ranges_move(ranges, i, 0, 1);
			*there = part;
		} else {
			twice = *there;
			twice.devices &= range->devices;
			if (ret_twice && twice.devices)
				ret_twice->at[ret_twice->count++] = twice;
			there->devices |= range->devices;
			there->said = range->said;
			there->mixed |= range->mixed;
		}
		part.first = there->end;
	}
	lock_drop(&ranges->lock);
	return 0;
}

void amd_ranges_unmix(struct amd_ranges *ranges, const struct amd_range *range)
{
	lock_take(&ranges->lock);
	for (uint32_t i = amd_ranges_find(ranges, range->first);
	     i < ranges->count && ranges->at[i].first < range->end; i++)
		if (ranges->at[i].said == range->said)
			ranges->at[i].mixed = false;
	lock_drop(&ranges->lock);
}

int amd_ranges_copy(struct amd_ranges *ranges, struct amd_ranges *ret_out)
{
	if (amd_ranges_lock_with_room(ranges, 0, UINT64_MAX, ret_out))
		return -ENOMEM;
	if (ranges->count) {
		memcpy(ret_out->at + ret_out->count, ranges->at,
		       amd_ranges_room_bytes(ranges->count));
		ret_out->count += ranges->count;
	}
	lock_drop(&ranges->lock);
	return 0;
}

uint64_t amd_ranges_bytes(const struct amd_ranges *ranges, int device)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < ranges->count; i++)
		if (ranges->at[i].devices >> device & 1)
			bytes += ranges->at[i].end - ranges->at[i].first;
	return bytes;
}

void amd_ranges_free(struct amd_ranges *ranges)
{
	if (ranges->room)
		munmap(ranges->at, amd_ranges_room_bytes(ranges->room));
	*ranges = (struct amd_ranges){.count = 0};
}
