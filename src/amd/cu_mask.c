/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator finds a flow of least cost. Units flow from each tenant (as many as its share),
 * through its part of each XCC, engine and array, to the array (as many as it has).
 *
 * The flow through a tenant's part is bounded, which makes its mask symmetric. A unit that the
 * tenant had before costs less than a new one, which makes it stable. Unit after unit takes the
 * cheapest way that is left. A way may push back units that were sent before; that is an exchange
 * by which all masks stay symmetric. The flow that results is the cheapest of all.
 */
#include "amd/cu_mask.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"

/*
 * Costs, each more than all below it together can be: a part has less than its share rounded down;
 * two tenants share a unit; a unit changes hands; an array is fuller than others, so that the rest
 * is not symmetric.
 */
#define SHORT  (INT64_C(1) << 46)
#define SHARED (INT64_C(1) << 33)
#define MOVED  (INT64_C(1) << 20)
#define FILLED 256

#define UNSEEN INT64_MAX
#define START  UINT32_MAX

/* Where a way comes from: below LEAVES the id of a tenant's part, from LEAVES on an array. */
#define LEAVES (UINT32_MAX / 2)

struct table {
	const struct cu_map *map;
	struct cu_share *shares;
	uint32_t n;
	uint32_t used[CU_LEAVES];      /* by all tenants */
	struct cu_way leaf[CU_LEAVES]; /* how the search came to an array */
	uint16_t owners[CU_MASK_BITS]; /* of a unit */
};

static uint32_t cu_mask_of_unit(const struct cu_map *map, uint32_t unit)
{
	uint32_t bits = map->unit_bits == 2 ? 3 : 1;

	return bits << (unit * map->unit_bits % 32);
}

static bool cu_mask_has(const struct cu_map *map, const struct cu_mask *mask, uint32_t unit)
{
	uint32_t bits = cu_mask_of_unit(map, unit);

	return map->leaf[unit] != CU_NOWHERE &&
	       (mask->word[unit * map->unit_bits / 32] & bits) == bits;
}

static uint32_t cu_mask_count_units(const struct cu_map *map, uint32_t leaf)
{
	return map->part_units[cu_map_part(leaf, CU_LEVEL_ARRAY)];
}

/* The most that a tenant may have in a part, and the least that it should. */
static void cu_mask_bound_cost(const struct cu_map *map, struct cu_share *share)
{
	for (uint32_t part = 0; part < CU_PARTS; part++) {
		uint32_t due = share->wanted * map->part_units[part];

		share->least[part] = (uint16_t)(due / map->units);
		share->most[part] = (uint16_t)((due + map->units - 1) / map->units);
		/* A queue without a unit in some XCC hangs. */
		if (part < CU_XCCS && due && !share->least[part])
			share->least[part] = 1;
	}
}

/* The cost of one more unit for a tenant that has `k` in that part. */
static int64_t cu_mask_part_cost(const struct cu_share *share, uint32_t part, uint32_t k)
{
	const uint32_t leaves = cu_map_part(0, CU_LEVEL_ARRAY);

	return (k < share->least[part] ? -SHORT : 0) +
	       (part >= leaves && k < share->had[part - leaves] ? -MOVED : 0);
}

/* The cost of the next unit that an array gives, to whichever tenant. */
static int64_t cu_mask_leaf_cost(const struct table *t, uint32_t leaf)
{
	uint32_t units = cu_mask_count_units(t->map, leaf);

	return t->used[leaf] >= units ? SHARED : (int64_t)t->used[leaf] * FILLED / units;
}

/* Takes the way by `from` if it is cheaper than the one that `way` has. */
static bool cu_mask_relax_all(struct cu_way *way, const struct cu_way *from, int64_t cost,
			      uint32_t id)
{
	if (from->cost == UNSEEN || from->cost + cost >= way->cost)
		return false;
	*way = (struct cu_way){from->cost + cost, id};
	return true;
}

/*
 * The two ways between a tenant's part and the whole that it is a part of: one unit more through
 * the part, if the tenant may have one more there, and one less, if it has any.
 */
static bool cu_mask_relax_part(const struct cu_share *share, uint32_t part, struct cu_way *whole,
			       uint32_t whole_id, struct cu_way *piece, uint32_t piece_id)
{
	uint32_t k = share->part_units[part];
	bool cheaper = false;

	if (k < share->most[part])
		cheaper = cu_mask_relax_all(piece, whole, cu_mask_part_cost(share, part, k),
					    whole_id);
	if (k)
		cheaper |= cu_mask_relax_all(whole, piece, -cu_mask_part_cost(share, part, k - 1),
					     piece_id);
	return cheaper;
}

/* ways[0] is all of the tenant; then come its XCCs and engines, as parts are counted. */
static bool cu_mask_relax_tenant(struct table *t, uint32_t tenant)
{
	struct cu_share *share = &t->shares[tenant];
	uint32_t id = tenant * CU_WAYS;
	bool cheaper = false;

	for (uint32_t leaf = 0; leaf < CU_LEAVES; leaf++) {
		uint32_t xcc = cu_map_part(leaf, CU_LEVEL_XCC);
		uint32_t engine = cu_map_part(leaf, CU_LEVEL_ENGINE);

		if (!t->map->part_units[xcc]) {
			leaf += CU_ENGINES * CU_ARRAYS - 1;
			continue;
		}
		if (leaf % (CU_ENGINES * CU_ARRAYS) == 0)
			cheaper |= cu_mask_relax_part(share, xcc, &share->ways[0], id,
						      &share->ways[1 + xcc], id + 1 + xcc);
		if (leaf % CU_ARRAYS == 0)
			cheaper |= cu_mask_relax_part(share, engine, &share->ways[1 + xcc],
						      id + 1 + xcc, &share->ways[1 + engine],
						      id + 1 + engine);
		if (cu_mask_count_units(t->map, leaf))
			cheaper |= cu_mask_relax_part(share, cu_map_part(leaf, CU_LEVEL_ARRAY),
						      &share->ways[1 + engine], id + 1 + engine,
						      &t->leaf[leaf], LEAVES + leaf);
	}
	return cheaper;
}

/* Finds the cheapest way of one more unit to each array. No way gets cheaper by going round. */
static void cu_mask_find_ways(struct table *t)
{
	bool cheaper = true;

	for (uint32_t i = 0; i < t->n; i++) {
		struct cu_share *share = &t->shares[i];

		for (uint32_t w = 0; w < CU_WAYS; w++)
			share->ways[w] = (struct cu_way){UNSEEN, START};
		if (share->given < share->wanted)
			share->ways[0].cost = 0;
	}
	for (uint32_t leaf = 0; leaf < CU_LEAVES; leaf++)
		t->leaf[leaf] = (struct cu_way){UNSEEN, START};
	while (cheaper) {
		cheaper = false;
		for (uint32_t i = 0; i < t->n; i++)
			cheaper |= cu_mask_relax_tenant(t, i);
	}
}

static struct cu_way *cu_mask_way_of(struct table *t, uint32_t id)
{
	return id >= LEAVES ? &t->leaf[id - LEAVES]
			    : &t->shares[id / CU_WAYS].ways[id % CU_WAYS];
}

/* The part between two neighbours on a way, of which the way takes one more or one less. */
static uint32_t cu_mask_part_between(uint32_t from, uint32_t to)
{
	uint32_t piece = max_u64(from, to);

	return piece >= LEAVES ? cu_map_part(piece - LEAVES, CU_LEVEL_ARRAY) : piece % CU_WAYS - 1;
}

/* One unit goes the way to that array, from its end to its start. */
static void cu_mask_go_way(struct table *t, uint32_t leaf)
{
	uint32_t to = LEAVES + leaf, from = cu_mask_way_of(t, to)->from;

	t->used[leaf]++;
	for (; from != START; to = from, from = cu_mask_way_of(t, to)->from) {
		uint32_t tenant = min_u64(from, to) / CU_WAYS;

		t->shares[tenant].part_units[cu_mask_part_between(from, to)] += from < to ? 1 : -1;
	}
	t->shares[to / CU_WAYS].given++;
}

static bool cu_mask_give_unit(struct table *t)
{
	uint32_t best = CU_LEAVES;

	cu_mask_find_ways(t);
	for (uint32_t leaf = 0; leaf < CU_LEAVES; leaf++)
		if (t->leaf[leaf].cost != UNSEEN &&
		    (best == CU_LEAVES || t->leaf[leaf].cost + cu_mask_leaf_cost(t, leaf) <
						  t->leaf[best].cost + cu_mask_leaf_cost(t, best)))
			best = leaf;
	if (best == CU_LEAVES)
		return false;
	cu_mask_go_way(t, best);
	return true;
}

/*
 * Each tenant's least in each array is part of every answer, so it needs no search. The other units
 * are given one by one, each by the cheapest way.
 */
static bool cu_mask_give_units(struct table *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t leaf = 0; leaf < CU_LEAVES; leaf++) {
			struct cu_share *share = &t->shares[i];
			uint16_t least = share->least[cu_map_part(leaf, CU_LEVEL_ARRAY)];

			for (int level = 0; level < CU_LEVELS; level++)
				share->part_units[cu_map_part(leaf, level)] += least;
			t->used[leaf] += least;
			share->given += least;
		}
	for (uint32_t i = 0; i < t->n; i++)
		while (t->shares[i].given < t->shares[i].wanted)
			if (!cu_mask_give_unit(t))
				return false;
	return true;
}

/* Puts a unit into a tenant's new mask. */
static void cu_mask_set_bit(struct table *t, struct cu_share *share, uint32_t unit)
{
	share->mask.word[unit * t->map->unit_bits / 32] |= cu_mask_of_unit(t->map, unit);
	t->owners[unit]++;
}

/* Counts the units that tenants have by their old masks; bits that are no units are dropped. */
static void cu_mask_count_all(struct table *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		struct cu_share *share = &t->shares[i];
		const struct cu_mask had = share->mask;

		memset(&share->mask, 0, sizeof(share->mask));
		memset(share->had, 0, sizeof(share->had));
		memset(share->part_units, 0, sizeof(share->part_units));
		share->given = 0;
		for (uint32_t unit = 0; unit < t->map->slots; unit++) {
			if (!cu_mask_has(t->map, &had, unit))
				continue;
			share->had[t->map->leaf[unit]]++;
			share->mask.word[unit * t->map->unit_bits / 32] |=
				cu_mask_of_unit(t->map, unit);
		}
	}
}

/*
 * Fills a tenant's new mask, first with units that it had, the lowest first, up to its number in
 * each array. It keeps a unit that an earlier tenant has only where the array is too small for all.
 * cu_mask_fill_xcc gives the rest.
 */
static void cu_mask_keep_units(struct table *t, struct cu_share *share,
			       uint32_t too_much[CU_LEAVES])
{
	uint16_t kept[CU_LEAVES] = {0};
	const struct cu_mask had = share->mask;

	memset(&share->mask, 0, sizeof(share->mask));
	for (uint32_t unit = 0; unit < t->map->slots; unit++) {
		uint32_t leaf = t->map->leaf[unit];

		if (!cu_mask_has(t->map, &had, unit) || (t->owners[unit] && !too_much[leaf]) ||
		    kept[leaf] >= share->part_units[cu_map_part(leaf, CU_LEVEL_ARRAY)])
			continue;
		too_much[leaf] -= t->owners[unit] > 0;
		kept[leaf]++;
		cu_mask_set_bit(t, share, unit);
	}
	memcpy(share->had, kept, sizeof(kept));
}

/* Gives the units that are still missing: those that the fewest others have, the lowest first. */
static void cu_mask_fill_xcc(struct table *t, struct cu_share *share, uint32_t leaf)
{
	uint32_t k = share->part_units[cu_map_part(leaf, CU_LEVEL_ARRAY)];

	for (; share->had[leaf] < k; share->had[leaf]++) {
		uint32_t best = CU_MASK_BITS;

		for (uint32_t unit = 0; unit < t->map->slots; unit++)
			if (t->map->leaf[unit] == leaf &&
			    !cu_mask_has(t->map, &share->mask, unit) &&
			    (best == CU_MASK_BITS || t->owners[unit] < t->owners[best]))
				best = unit;
		cu_mask_set_bit(t, share, best);
	}
}

/* Units of a share, whole ones, but at least one in each XCC. */
static uint32_t cu_mask_wanted_units(const struct cu_map *map, uint32_t permille)
{
	uint32_t fits = map->units * permille / 1000;

	return max_u64(fits, map->xccs);
}

static int cu_mask_want_units(const struct cu_map *map, struct cu_share *share)
{
	uint32_t fits = map->units * share->permille / 1000;

	if (!share->permille || share->permille > 1000)
		return -EINVAL;
	share->wanted = cu_mask_wanted_units(map, share->permille);
	share->duty_permille = 1000;
	if (fits < map->xccs) {
		share->duty_permille = share->permille * map->units / map->xccs;
		if (!share->duty_permille)
			share->duty_permille = 1;
	}
	return 0;
}

static bool cu_mask_is_alone(const struct table *t, const struct cu_share *share)
{
	for (uint32_t unit = 0; unit < t->map->slots; unit++)
		if (t->owners[unit] > 1 && cu_mask_has(t->map, &share->mask, unit))
			return false;
	return true;
}

int cu_mask_allot(const struct cu_map *map, struct cu_share *shares, uint32_t n)
{
	struct table t = {.map = map, .shares = shares, .n = n};
	uint32_t too_much[CU_LEAVES] = {0};

	for (uint32_t i = 0; i < n; i++) {
		int r = cu_mask_want_units(map, &shares[i]);

		if (r < 0)
			return r;
		cu_mask_bound_cost(map, &shares[i]);
	}
	cu_mask_count_all(&t);
	if (!cu_mask_give_units(&t))
		return -EINVAL;
	for (uint32_t leaf = 0; leaf < CU_LEAVES; leaf++)
		if (t.used[leaf] > cu_mask_count_units(map, leaf))
			too_much[leaf] = t.used[leaf] - cu_mask_count_units(map, leaf);
	for (uint32_t i = 0; i < n; i++)
		cu_mask_keep_units(&t, &shares[i], too_much);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t leaf = 0; leaf < CU_LEAVES; leaf++)
			cu_mask_fill_xcc(&t, &shares[i], leaf);
		shares[i].cus = shares[i].wanted * map->unit_bits;
	}
	for (uint32_t i = 0; i < n; i++)
		shares[i].alone = cu_mask_is_alone(&t, &shares[i]);
	return 0;
}

struct cu_mask cu_mask_all(const struct cu_map *map)
{
	struct cu_mask all = {{0}};

	for (uint32_t unit = 0; unit < map->slots; unit++)
		all.word[unit * map->unit_bits / 32] |= cu_mask_of_unit(map, unit);
	return all;
}

uint32_t cu_mask_bits(const struct cu_map *map)
{
	return (map->slots * map->unit_bits + 31) / 32 * 32;
}

static bool cu_mask_pairs_are_whole(const uint32_t *words, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if ((words[i] ^ words[i] >> 1) & 0x55555555)
			return false;
	return true;
}

/* True if the mask has units in each XCC in which the other one has some. */
static bool cu_mask_in_each_xcc(const struct cu_map *map, const struct cu_mask *mask,
				const struct cu_mask *other)
{
	bool needs[CU_XCCS] = {false}, is[CU_XCCS] = {false};

	for (uint32_t unit = 0; unit < map->slots; unit++) {
		if (map->leaf[unit] == CU_NOWHERE)
			continue;
		needs[cu_map_part(map->leaf[unit], CU_LEVEL_XCC)] |= cu_mask_has(map, other, unit);
		is[cu_map_part(map->leaf[unit], CU_LEVEL_XCC)] |= cu_mask_has(map, mask, unit);
	}
	for (uint32_t x = 0; x < CU_XCCS; x++)
		if (needs[x] && !is[x])
			return false;
	return true;
}

bool cu_mask_within(const struct cu_map *map, const struct cu_mask *mask, uint32_t permille)
{
	struct cu_mask units = {{0}}, all = {{0}};
	uint32_t n = 0;

	for (uint32_t unit = 0; unit < map->slots; unit++) {
		uint32_t word = unit * map->unit_bits / 32;

		if (map->leaf[unit] == CU_NOWHERE)
			continue;
		all.word[word] |= cu_mask_of_unit(map, unit);
		if (!cu_mask_has(map, mask, unit))
			continue;
		units.word[word] |= cu_mask_of_unit(map, unit);
		n++;
	}
	return !memcmp(&units, mask, sizeof(units)) && cu_mask_in_each_xcc(map, mask, &all) &&
	       n <= cu_mask_wanted_units(map, permille);
}

int cu_mask_narrow(const struct cu_map *map, const struct cu_mask *tenants, const uint32_t *words,
		   uint32_t bits, struct cu_mask *ret)
{
	/* The kernel ignores bits beyond its maximum. */
	uint32_t n = bits < CU_MASK_BITS ? bits / 32 : CU_MASK_WORDS;
	struct cu_mask both = {{0}};

	if (!bits || bits % 32 || (map->unit_bits == 2 && !cu_mask_pairs_are_whole(words, n)))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		both.word[i] = tenants->word[i] & words[i];
	*ret = cu_mask_in_each_xcc(map, &both, tenants) ? both : *tenants;
	return 0;
}
