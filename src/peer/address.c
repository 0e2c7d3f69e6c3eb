/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/address.h"

#include <errno.h>
#include <stdbool.h>

#include "base/number.h"

const struct aperture address_names = {ADDRESS_CANONICAL_LAST + 1, UINT64_C(0xffff7fffffffffff)};

int address_common(const struct aperture *of, uint32_t n, struct aperture *ret)
{
	struct aperture all = {0, UINT64_MAX};

	for (uint32_t i = 0; i < n; i++) {
		all.first = max_u64(of[i].first, all.first);
		all.last = min_u64(of[i].last, all.last);
	}
	if (!n || all.first > all.last)
		return -ERANGE;
	*ret = all;
	return 0;
}

uint64_t address_alignment(uint64_t bytes, uint64_t page)
{
	uint64_t alignment = page;

	while (alignment < ADDRESS_HUGE_BYTES && alignment <= bytes / 2)
		alignment *= 2;
	return alignment;
}

static bool address_is_power_of_two(uint64_t x)
{
	return x && !(x & (x - 1));
}

int address_check(const struct aperture *aperture, uint64_t address, uint64_t bytes, uint64_t page,
		  uint64_t alignment)
{
	if (!bytes || bytes % page || !address_is_power_of_two(alignment) || alignment < page ||
	    address & (alignment - 1))
		return -EINVAL;
	if (address < aperture->first || address > aperture->last ||
	    bytes - 1 > aperture->last - address)
		return -ERANGE;
	return 0;
}

/* Also 0 where there is no such multiple. */
static uint64_t address_align_up(uint64_t address, uint64_t alignment)
{
	return (address + alignment - 1) & ~(alignment - 1);
}

int address_pick(const struct ranges *tree, const struct aperture *aperture, uint64_t from,
		 uint64_t bytes, uint64_t alignment, uint64_t *ret_address)
{
	uint64_t at = max_u64(from, aperture->first);

	for (;;) {
		const struct range *taken;
		uint64_t address = address_align_up(at, alignment);

		if (address < at || address > aperture->last ||
		    bytes - 1 > aperture->last - address)
			return -ENOMEM;
		taken = ranges_at_or_after(
			tree, address < ADDRESS_GUARD_BYTES ? 0 : address - ADDRESS_GUARD_BYTES);
		if (!taken || (taken->first > address + bytes - 1 &&
			       taken->first - (address + bytes - 1) > ADDRESS_GUARD_BYTES)) {
			*ret_address = address;
			return 0;
		}
		if (taken->last >= UINT64_MAX - ADDRESS_GUARD_BYTES)
			return -ENOMEM;
		at = taken->last + 1 + ADDRESS_GUARD_BYTES;
	}
}
