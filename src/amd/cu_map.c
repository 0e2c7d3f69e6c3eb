/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/cu_map.h"

#include <errno.h>
#include <string.h>

#define GFX10 100000
#define GFX11 110000
#define GFX13 130000

uint32_t cu_map_part(uint32_t leaf, enum cu_level level)
{
	switch (level) {
	case CU_LEVEL_XCC:
		return leaf / (CU_ENGINES * CU_ARRAYS);
	case CU_LEVEL_ENGINE:
		return CU_XCCS + leaf / CU_ARRAYS;
	default:
		return CU_XCCS + CU_XCCS * CU_ENGINES + leaf;
	}
}

static uint32_t cu_map_leaf_of(uint32_t xcc, uint32_t engine, uint32_t array)
{
	return (xcc * CU_ENGINES + engine) * CU_ARRAYS + array;
}

/* Every array of a geometry, in the order in which one XCC after the other spreads bits. */
#define FOR_EACH_ARRAY(g, x, e, a)                      \
	for (uint32_t x = 0; x < (g)->xccs; x++)         \
		for (uint32_t a = 0; a < (g)->arrays; a++) \
			for (uint32_t e = 0; e < (g)->engines; e++)

static bool cu_map_fits(const struct cu_geometry *g)
{
	if (!g->xccs || g->xccs > CU_XCCS || !g->engines || g->engines > CU_ENGINES || !g->arrays ||
	    g->arrays > CU_ARRAYS)
		return false;
	FOR_EACH_ARRAY(g, x, e, a)
		if (g->cus[x][e][a] > CU_PER_ARRAY)
			return false;
	return true;
}

int cu_geometry_of_node(const struct topology_node *node, struct cu_geometry *ret)
{
	uint32_t per_xcc = node->xccs ? node->arrays / node->xccs : 0;
	uint32_t cus = node->simds_per_cu ? node->simds / node->simds_per_cu : 0;
	struct cu_geometry g = {
		.xccs = node->xccs,
		.arrays = node->arrays_per_engine,
		.engines = node->arrays_per_engine ? per_xcc / node->arrays_per_engine : 0,
		.pairs = node->gfx_version >= GFX10,
	};
	uint32_t step = g.pairs ? 2 : 1, left;

	if (!cu_map_fits(&g) || !cus || node->arrays != g.xccs * g.engines * g.arrays ||
	    cus % (g.xccs * step) || cus > node->arrays * CU_PER_ARRAY)
		return -EINVAL;
	left = cus / step;
	while (left)
		for (uint32_t a = 0; a < g.arrays; a++)
			for (uint32_t e = 0; e < g.engines; e++)
				for (uint32_t x = 0; x < g.xccs && left; x++) {
					g.cus[x][e][a] += step;
					left--;
				}
	if (!cu_map_fits(&g))
		return -EINVAL;
	*ret = g;
	return 0;
}

int cu_geometry_refine(struct cu_geometry *geometry, const struct topology_node *node,
		       const uint32_t cu_bitmap[4][4])
{
	uint32_t beside = node->gfx_version >= GFX11 && node->gfx_version < GFX13 ? 2 : 1;
	struct cu_geometry g = *geometry;
	uint32_t was = 0, is = 0;

	if (!cu_map_fits(&g) || g.xccs != 1 || (g.engines > 4 && g.arrays > beside))
		return -EINVAL;
	FOR_EACH_ARRAY(&g, x, e, a) {
		was += g.cus[x][e][a];
		g.cus[x][e][a] = __builtin_popcount(cu_bitmap[e % 4][a + e / 4 * beside]);
		is += g.cus[x][e][a];
	}
	if (was != is || !cu_map_fits(&g))
		return -EINVAL;
	*geometry = g;
	return 0;
}

static void cu_map_place_array(struct cu_map *map, uint32_t unit, uint32_t leaf)
{
	map->leaf[unit] = (uint8_t)leaf;
	map->units++;
	for (int level = 0; level < CU_LEVELS; level++)
		map->part_units[cu_map_part(leaf, level)]++;
}

int cu_map_init(const struct cu_geometry *g, struct cu_map *ret)
{
	struct cu_map map = {.unit_bits = g->pairs ? 2 : 1};
	uint32_t next[CU_XCCS], bits = 0;

	_Static_assert(CU_LEAVES <= CU_NOWHERE, "an array's number is a byte");
	if (!cu_map_fits(g))
		return -EINVAL;
	FOR_EACH_ARRAY(g, x, e, a)
		bits += g->cus[x][e][a];
	/* Parts with several XCCs and pairs spread bits in a way of their own. */
	if (bits > CU_MASK_BITS || (g->pairs && g->xccs > 1))
		return -ENOTSUP;
	map.slots = bits / map.unit_bits; /* of a pair that is half there nothing is given */
	memset(map.leaf, CU_NOWHERE, sizeof(map.leaf));
	for (uint32_t x = 0; x < g->xccs; x++)
		next[x] = x;
	for (uint32_t cu = 0; cu < CU_PER_ARRAY; cu += map.unit_bits)
		FOR_EACH_ARRAY(g, x, e, a)
			if (g->cus[x][e][a] > cu && next[x] < map.slots) {
				cu_map_place_array(&map, next[x], cu_map_leaf_of(x, e, a));
				next[x] += g->xccs;
			}
	for (uint32_t x = 0; x < CU_XCCS; x++)
		map.xccs += map.part_units[cu_map_part(cu_map_leaf_of(x, 0, 0), CU_LEVEL_XCC)] > 0;
	if (map.xccs < g->xccs) /* a queue with any mask hangs */
		return -ENOTSUP;
	*ret = map;
	return 0;
}
