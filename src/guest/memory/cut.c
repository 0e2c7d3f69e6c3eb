/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/cut.h"

static bool cut_bit(const uint64_t *map, uint32_t unit)
{
	return map[unit / 64] >> unit % 64 & 1;
}

static void cut_set(uint64_t *map, uint32_t unit, bool to)
{
	uint64_t bit = UINT64_C(1) << unit % 64;

	if (to)
		map[unit / 64] |= bit;
	else
		map[unit / 64] &= ~bit;
}

int cut_take(struct cut *cut, uint32_t units)
{
	uint32_t run = 0, longest = 0;

	if (!cut->allocations)
		cut->most = CUT_UNITS;
	if (!units || units > cut->most)
		return -1;
	for (uint32_t i = 0; i < CUT_UNITS; i++) {
		run = cut_bit(cut->taken, i) ? 0 : run + 1;
		longest = run > longest ? run : longest;
		if (run < units)
			continue;
		for (uint32_t k = i + 1 - units; k <= i; k++)
			cut_set(cut->taken, k, true);
		cut_set(cut->begins, i + 1 - units, true);
		cut->allocations++;
		return (int)(i + 1 - units);
	}
	cut->most = longest;
	return -1;
}

bool cut_give(struct cut *cut, uint32_t first)
{
	if (first >= CUT_UNITS || !cut_bit(cut->begins, first))
		return false;
	cut_set(cut->begins, first, false);
	cut_set(cut->taken, first, false);
	for (uint32_t i = first + 1; i < CUT_UNITS && cut_bit(cut->taken, i) &&
				     !cut_bit(cut->begins, i); i++)
		cut_set(cut->taken, i, false);
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
