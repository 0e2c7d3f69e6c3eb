/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses against a table of every byte. */
#include "guest/amd/ranges.h"

#include <string.h>

#include "tests/check.h"

#define BYTES 600
#define STEPS 20000

static uint32_t draw(uint32_t below)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % below;
}

static void check_same(const struct amd_ranges *ranges, const uint8_t model[BYTES])
{
	uint8_t seen[BYTES] = {0};
	uint64_t last = 0;

	for (uint32_t i = 0; i < ranges->count; i++) {
		const struct amd_range *r = &ranges->at[i];

		CHECK(r->first >= last && r->first < r->end && r->end <= BYTES && r->devices);
		memset(seen + r->first, (int)r->devices, r->end - r->first);
		last = r->end;
	}
	CHECK(!memcmp(seen, model, BYTES));
	for (int d = 0; d < 3; d++) {
		uint64_t bytes = 0;

		for (int i = 0; i < BYTES; i++)
			bytes += model[i] >> d & 1;
		CHECK_EQ(amd_ranges_bytes(ranges, d), bytes);
	}
}

int main(void)
{
	struct amd_ranges ranges = {.count = 0};
	uint8_t model[BYTES] = {0};

	for (int step = 0; step < STEPS; step++) {
		uint64_t first = draw(BYTES), end = first + draw(step % 2 ? 8 : BYTES);
		struct amd_range range = {first, end < BYTES ? end : BYTES, draw(8)};
		struct amd_ranges out = {.count = 0};
		uint8_t gone[BYTES] = {0};

		CHECK_EQ(amd_ranges_set(&ranges, &range, draw(4) ? &out : NULL), 0);
		if (out.count) {
			memcpy(gone + first, model + first, range.end - first);
			check_same(&out, gone);
		}
		if (range.first < range.end)
			memset(model + first, (int)range.devices, range.end - first);
		check_same(&ranges, model);
		amd_ranges_free(&out);
	}
	CHECK(ranges.count > 0);
	amd_ranges_free(&ranges);
	CHECK_EQ(amd_ranges_bytes(&ranges, 0), 0);
	return 0;
}
