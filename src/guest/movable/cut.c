/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/cut.h"

static bool cut_bit(const uint64_t *map, uint32_t unit)
{
	return map[unit / 64] >> unit % 64 & 1;
}

/* The first unit from there on whose bit is set, or is not; `end`: none before that. */
static uint32_t cut_next(const uint64_t *map, uint32_t from, uint32_t end, bool set)
{
	for (; from < end; from += 64 - from % 64) {
		uint64_t bits = (set ? map[from / 64] : ~map[from / 64]) >> from % 64;

		if (bits) {
			from += (uint32_t)__builtin_ctzll(bits);
			return from < end ? from : end;
		}
	}
	return end;
}

static void cut_set(uint64_t *map, uint32_t from, uint32_t end, bool to)
{
	while (from < end) {
		uint32_t rest = 64 - from % 64, n = end - from < rest ? end - from : rest;
		uint64_t bits = UINT64_MAX >> (64 - n) << from % 64;

		if (to)
			map[from / 64] |= bits;
		else
			map[from / 64] &= ~bits;
		from += n;
	}
}

int cut_take(struct cut *cut, uint32_t units)
{
	uint32_t longest = 0, first = 0, end;

	if (!cut->allocations)
		cut->most = CUT_UNITS;
	if (!units || units > cut->most)
		return -1;
	while ((first = cut_next(cut->taken, first, CUT_UNITS, false)) < CUT_UNITS) {
		end = first + units < CUT_UNITS ? first + units : CUT_UNITS;
		end = cut_next(cut->taken, first, end, true);
		if (end - first == units) {
			cut_set(cut->taken, first, end, true);
			cut_set(cut->begins, first, first + 1, true);
			cut->allocations++;
			return (int)first;
		}
		longest = end - first > longest ? end - first : longest;
		first = end;
	}
	cut->most = longest;
	return -1;
}

bool cut_give(struct cut *cut, uint32_t first)
{
	uint32_t end;

	if (first >= CUT_UNITS || !cut_bit(cut->begins, first))
		return false;
	end = cut_next(cut->taken, first, CUT_UNITS, false);
	end = cut_next(cut->begins, first + 1, end, true);
	cut_set(cut->taken, first, end, false);
	cut_set(cut->begins, first, first + 1, false);
	cut->allocations--;
	cut->most = CUT_UNITS;
	return true;
}

int cut_first(const struct cut *cut, uint32_t unit)
{
	int i = (int)unit;

	if (unit >= CUT_UNITS || !cut_bit(cut->taken, unit))
		return -1;
	while (!cut_bit(cut->begins, (uint32_t)i))
		i--;
	return i;
}
