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

static void check_put(struct amd_ranges *ranges, uint8_t model[BYTES], struct amd_range range)
{
	struct amd_ranges twice = {.count = 0};
	uint8_t both[BYTES] = {0};

	range.devices = draw(7) + 1;
	CHECK_EQ(amd_ranges_put(ranges, &range, &twice), 0);
	for (uint64_t i = range.first; i < range.end; i++) {
		both[i] = model[i] & (uint8_t)range.devices;
		model[i] |= (uint8_t)range.devices;
	}
	check_same(&twice, both);
	amd_ranges_free(&twice);
}

/* With the range's number nothing is taken where one byte has another. */
static void check_take(struct amd_ranges *ranges, uint8_t model[BYTES], uint8_t said[BYTES],
		       const struct amd_range *range, bool same)
{
	struct amd_ranges out = {.count = 0};
	uint8_t gone[BYTES] = {0};
	bool takes = true, forget = draw(4) == 0;

	for (uint64_t i = range->first; same && i < range->end; i++)
		takes &= model[i] && said[i] == range->said;
	if (same)
		CHECK_EQ(amd_ranges_take_same(ranges, range, forget ? NULL : &out), 0);
	else
		CHECK_EQ(amd_ranges_take(ranges, range->first, range->end, forget ? NULL : &out),
			 0);
	if (takes) {
		memcpy(gone + range->first, model + range->first, range->end - range->first);
		memset(model + range->first, 0, range->end - range->first);
	}
	if (!forget)
		check_same(&out, gone);
	amd_ranges_free(&out);
}

static void test_against_table(void)
{
	struct amd_ranges ranges = {.count = 0}, copy = {.count = 0};
	uint8_t model[BYTES] = {0}, said[BYTES] = {0};

	for (int step = 0; step < STEPS; step++) {
		uint64_t first = draw(BYTES - 1), end = first + 1 + draw(step % 2 ? 8 : BYTES);
		struct amd_range range = {
			.first = first, .end = end < BYTES ? end : BYTES, .said = 1 + draw(3)};

		if (draw(2)) {
			check_put(&ranges, model, range);
			memset(said + first, (int)range.said, range.end - first);
		} else {
			check_take(&ranges, model, said, &range, draw(2));
		}
		check_same(&ranges, model);
		for (uint32_t i = 0; i < ranges.count; i++)
			CHECK_EQ(ranges.at[i].said, said[ranges.at[i].first]);
	}
	CHECK(ranges.count > 0);
	CHECK_EQ(amd_ranges_take(&ranges, 7, 7, &copy), 0);
	CHECK_EQ(amd_ranges_copy(&ranges, &copy), 0);
	check_same(&copy, model);
	check_same(&ranges, model);
	amd_ranges_free(&copy);
	amd_ranges_free(&ranges);
	CHECK_EQ(amd_ranges_bytes(&ranges, 0), 0);
}

/* What calls that overlap put at the same addresses is mixed until the last one knows better. */
static void test_mixed(void)
{
	const struct amd_range one = {0, 8, 1, 1, true}, two = {4, 12, 2, 2, true};
	struct amd_ranges ranges = {.count = 0}, twice = {.count = 0};

	CHECK_EQ(amd_ranges_put(&ranges, &one, &twice), 0);
	CHECK_EQ(amd_ranges_put(&ranges, &two, &twice), 0);
	CHECK_EQ(twice.count, 0);
	CHECK_EQ(ranges.count, 3);
	amd_ranges_unmix(&ranges, &one);
	CHECK(!ranges.at[0].mixed && ranges.at[1].mixed && ranges.at[2].mixed);
	amd_ranges_unmix(&ranges, &two);
	CHECK(!ranges.at[1].mixed && !ranges.at[2].mixed);
	amd_ranges_free(&ranges);
	amd_ranges_free(&twice);
}

int main(void)
{
	test_against_table();
	test_mixed();
	return 0;
}
