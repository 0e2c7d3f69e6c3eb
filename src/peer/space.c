/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/space.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

const struct space_aperture space_names = {SPACE_CANONICAL_LAST + 1, UINT64_C(0xffff7fffffffffff)};

int space_common(const struct space_aperture *of, uint32_t n, struct space_aperture *ret)
{
	struct space_aperture all = {0, UINT64_MAX};

	for (uint32_t i = 0; i < n; i++) {
		all.first = of[i].first > all.first ? of[i].first : all.first;
		all.last = of[i].last < all.last ? of[i].last : all.last;
	}
	if (!n || all.first > all.last)
		return -ERANGE;
	*ret = all;
	return 0;
}

uint64_t space_alignment(uint64_t bytes, uint64_t page)
{
	uint64_t alignment = page;

	while (alignment < SPACE_HUGE_BYTES && alignment <= bytes / 2)
		alignment *= 2;
	return alignment;
}

static bool is_power_of_two(uint64_t x)
{
	return x && !(x & (x - 1));
}

int space_check(const struct space_aperture *aperture, uint64_t address, uint64_t bytes,
		uint64_t page, uint64_t alignment)
{
	if (!bytes || bytes % page || !is_power_of_two(alignment) || alignment < page ||
	    address & (alignment - 1))
		return -EINVAL;
	if (address < aperture->first || address > aperture->last ||
	    bytes - 1 > aperture->last - address)
		return -ERANGE;
	return 0;
}

/* Also 0 where there is no such multiple. */
static uint64_t align_up(uint64_t address, uint64_t alignment)
{
	return (address + alignment - 1) & ~(alignment - 1);
}

int space_pick(const struct range_tree *tree, const struct space_aperture *aperture, uint64_t from,
	       uint64_t bytes, uint64_t alignment, uint64_t *ret_address)
{
	uint64_t at = from > aperture->first ? from : aperture->first;

	for (;;) {
		const struct tree_range *taken;
		uint64_t address = align_up(at, alignment);

		if (address < at || address > aperture->last ||
		    bytes - 1 > aperture->last - address)
			return -ENOMEM;
		taken = tree_at_or_after(
			tree, address < SPACE_GUARD_BYTES ? 0 : address - SPACE_GUARD_BYTES);
		if (!taken || (taken->first > address + bytes - 1 &&
			       taken->first - (address + bytes - 1) > SPACE_GUARD_BYTES)) {
			*ret_address = address;
			return 0;
		}
		if (taken->last >= UINT64_MAX - SPACE_GUARD_BYTES)
			return -ENOMEM;
		at = taken->last + 1 + SPACE_GUARD_BYTES;
	}
}
