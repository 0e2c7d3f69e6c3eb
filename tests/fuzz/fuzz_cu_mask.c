/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Geometries that no GPU has, shares that are none, masks that somebody else left: a mask that
 * comes out has as many units as the share, in each XCC one, and none that nothing stands for.
 */
#include <errno.h>
#include <string.h>

#include "amd/cu_mask.h"
#include "tests/fuzz/fuzz.h"

#define TENANTS 4

/* Beyond the end there are zeros. */
struct input {
	const uint8_t *at;
	size_t len;
};

static void take(struct input *in, void *to, size_t len)
{
	size_t n = in->len < len ? in->len : len;

	memset(to, 0, len);
	memcpy(to, in->at, n);
	in->at += n;
	in->len -= n;
}

static uint32_t units_of(const struct cu_map *map, const struct cu_mask *mask)
{
	uint32_t units = 0;

	for (uint32_t unit = 0; unit < map->slots; unit++) {
		uint32_t bit = unit * map->unit_bits;
		uint32_t on = mask->word[bit / 32] >> bit % 32 & 1;

		MUST(!on || map->leaf[unit] != CU_NOWHERE);
		MUST(map->unit_bits == 1 || (mask->word[bit / 32] >> (bit + 1) % 32 & 1) == on);
		units += on;
	}
	return units;
}

static bool is_within(const struct cu_mask *mask, const struct cu_mask *other)
{
	for (int i = 0; i < CU_MASK_WORDS; i++)
		if (mask->word[i] & ~other->word[i])
			return false;
	return true;
}

static void a_queue(const struct cu_map *map, const struct cu_mask *tenants, struct input *in)
{
	struct cu_mask asked, got;
	uint32_t bits;

	take(in, &bits, sizeof(bits));
	take(in, &asked, sizeof(asked));
	if (cu_mask_narrow(map, tenants, asked.word, bits, &got) == 0)
		MUST(units_of(map, &got) >= map->xccs && is_within(&got, tenants));
	else
		MUST(!bits || bits % 32 || map->unit_bits == 2);
}

static void some_tenants(const struct cu_map *map, struct input *in)
{
	struct cu_share shares[TENANTS];
	uint32_t sum = 0;

	for (int i = 0; i < TENANTS; i++) {
		uint16_t permille;

		memset(&shares[i], 0x55, sizeof(shares[i]));
		take(in, &permille, sizeof(permille));
		take(in, &shares[i].mask, sizeof(shares[i].mask));
		shares[i].permille = permille;
	}
	if (cu_mask_allot(map, shares, TENANTS) < 0) {
		for (int i = 0; i < TENANTS; i++)
			if (!shares[i].permille || shares[i].permille > 1000)
				return;
		MUST(0);
	}
	for (int i = 0; i < TENANTS; i++) {
		uint32_t units = units_of(map, &shares[i].mask);

		MUST(units * map->unit_bits == shares[i].cus && units >= map->xccs);
		MUST(units == map->xccs || units == map->units * shares[i].permille / 1000);
		MUST(shares[i].duty_permille >= 1 && shares[i].duty_permille <= 1000);
		sum += units;
	}
	for (int i = 0; i < TENANTS; i++)
		MUST(sum > map->units || shares[i].alone);
	a_queue(map, &shares[0].mask, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct topology_node node = {0};
	uint32_t bitmap[4][4];
	struct cu_geometry g;
	struct cu_map map;
	uint8_t what;

	take(&in, &what, sizeof(what));
	if (what % 2) {
		take(&in, &g, sizeof(g));
		g.pairs = what % 4 == 3;
	} else {
		take(&in, &node.xccs, sizeof(uint32_t));
		take(&in, &node.arrays, sizeof(uint32_t));
		take(&in, &node.arrays_per_engine, sizeof(uint32_t));
		take(&in, &node.simds, sizeof(uint32_t));
		take(&in, &node.simds_per_cu, sizeof(uint32_t));
		take(&in, &node.gfx_version, sizeof(uint32_t));
		if (cu_geometry_of_node(&node, &g) < 0)
			return 0;
		MUST(cu_map_init(&g, &map) != -EINVAL);
		take(&in, bitmap, sizeof(bitmap));
		cu_geometry_refine(&g, &node, bitmap);
	}
	if (cu_map_init(&g, &map) < 0)
		return 0;
	MUST(map.units && map.units <= map.slots && map.slots * map.unit_bits <= CU_MASK_BITS);
	MUST(map.xccs && map.xccs <= map.units && cu_mask_bits(&map) % 32 == 0);
	some_tenants(&map, &in);
	return 0;
}
